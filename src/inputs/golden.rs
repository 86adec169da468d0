//! Hashes and files of all three roles against the values pinned in inputs.md §3.2, §4.5 and §4.6
//! and naming.md §7.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::json;

use super::{
    Autoscaling, BootstrapData, ClusterInputs, ClusterNetwork, CommonInputs, Endpoint, Exports,
    Inputs, MachineInputs, MachinePoolInputs, RENDERED_MAX, RenderError, Rendered, Role,
    SourceContent, SourceKind, ValueFormat, VariableSource, Variables, approval_hash, inputs_hash,
    render,
};
use crate::names::{Kind, ObjectKey, sha256_hex};

const IMAGE: &str = "ghcr.io/example/machine-module:v1.2.3";
const EXPORTS: &str = r#"{"network_id":"net-1","subnets":["a","b"],"mtu":1500}"#;

fn exports(text: &str) -> Exports {
    Exports::parse(text).unwrap()
}

fn common(kind: Kind, name: &str, template: &str) -> CommonInputs {
    CommonInputs {
        cluster_name: "prod".into(),
        cluster_namespace: "team-a".into(),
        object: ObjectKey::new(kind, "team-a", name),
        template: template.into(),
    }
}

fn bootstrap() -> BootstrapData {
    BootstrapData::from_base64("I2Nsb3VkLWNvbmZpZw==").unwrap()
}

fn cluster() -> ClusterInputs {
    ClusterInputs {
        common: common(Kind::TerraformCluster, "prod", ""),
        control_plane_endpoint: Some(Endpoint::new("api.prod.example.com", 6443)),
        kubernetes_version: Some("v1.36.2".into()),
        control_plane_initialized: false,
        cluster_network: ClusterNetwork::new(vec!["192.168.0.0/16".into()], vec![], None, None),
    }
}

fn machine() -> MachineInputs {
    MachineInputs {
        common: common(Kind::TerraformMachine, "prod-md-0-abcde", "prod-md-0"),
        cluster_outputs: exports(EXPORTS),
        machine_name: "prod-md-0-abcde-xyz12".into(),
        bootstrap_data: bootstrap(),
        bootstrap_format: "cloud-config".into(),
        failure_domain: Some("zone-a".into()),
        kubernetes_version: Some("v1.36.2".into()),
        control_plane: false,
    }
}

fn pool() -> MachinePoolInputs {
    MachinePoolInputs {
        common: common(Kind::TerraformMachinePool, "prod-mp-0", ""),
        cluster_outputs: exports(EXPORTS),
        machinepool_name: "prod-mp-0".into(),
        replicas: 3,
        bootstrap_data: bootstrap(),
        bootstrap_format: "cloud-config".into(),
        failure_domains: vec!["zone-a".into()],
        cluster_failure_domains: vec!["zone-a".into(), "zone-b".into()],
        kubernetes_version: Some("v1.36.2".into()),
        node_labels: [("pool".to_owned(), "prod-mp-0".to_owned())].into(),
        autoscaling: Autoscaling::default(),
    }
}

fn autoscaled_pool() -> MachinePoolInputs {
    MachinePoolInputs {
        autoscaling: Autoscaling {
            enabled: true,
            min: 1,
            max: 5,
        },
        ..pool()
    }
}

/// Variables with the given JSON values, from a Secret where the flag says so.
fn variables(role: Role, entries: &[(&str, &str, bool)]) -> Variables {
    let sources: Vec<VariableSource> = entries
        .iter()
        .map(|(name, value, secret)| VariableSource {
            kind: if *secret {
                SourceKind::Secret
            } else {
                SourceKind::ConfigMap
            },
            name: "source".into(),
            format: ValueFormat::Json,
            optional: false,
            content: Some(SourceContent {
                labelled: true,
                data: BTreeMap::from([((*name).to_owned(), value.as_bytes().to_vec())]),
            }),
        })
        .collect();
    Variables::merge(role, &sources, None).unwrap()
}

fn hash(inputs: &Inputs) -> String {
    inputs_hash(IMAGE, inputs, &Variables::default())
        .unwrap()
        .to_string()
}

#[rstest]
#[case(
    Inputs::Cluster(cluster()),
    "h2:95b09f64ac1cb6016b8266a5990ad533cce403aebf0063ad7ebd1be17fc1f9b9"
)]
#[case(
    Inputs::Machine(machine()),
    "h2:e10a5fcbec6ca2745898f8cae279211c217179b1d90afa7e2ce09fb3e24b64b4"
)]
#[case(
    Inputs::MachinePool(autoscaled_pool()),
    "h2:30f9dc7f022966deb1ec76bb19b6ab50cfda723af808fbb2198bbd0e8d4dcd55"
)]
#[case(
    Inputs::MachinePool(pool()),
    "h2:2a7c2b053832381ae2237f5155a4c64fec2316ecca1ef71a4d4e5f1db8286366"
)]
fn inputs_hash_worked_examples(#[case] inputs: Inputs, #[case] expected: &str) {
    assert_eq!(hash(&inputs), expected);
}

#[test]
fn approval_hash_of_a_pool_leaves_bootstrap_data_out() {
    let approval = |pool| {
        approval_hash(IMAGE, &Inputs::MachinePool(pool), &Variables::default())
            .unwrap()
            .to_string()
    };
    let expected = "h2:7b24344966d603e12f66e3b3d35a415a0818ecf987de3f9d7d64546c670cffa0";
    assert_eq!(approval(pool()), expected);
    let rotated = MachinePoolInputs {
        bootstrap_data: BootstrapData::encode(b"another token"),
        ..pool()
    };
    assert_eq!(approval(rotated), expected);
}

#[test]
fn approval_hash_of_the_other_roles_is_the_inputs_hash() {
    let approval = approval_hash(IMAGE, &Inputs::Cluster(cluster()), &Variables::default());
    assert_eq!(
        approval.unwrap().as_str(),
        "h2:95b09f64ac1cb6016b8266a5990ad533cce403aebf0063ad7ebd1be17fc1f9b9"
    );
}

#[test]
fn i29_variables_are_hashed_as_a_string_with_their_sensitivity() {
    let entries = [
        ("db_password", "\"s3cret\"", true),
        ("disk_gb", "40", false),
        ("ratio", "1", false),
    ];
    let set = variables(Role::Machine, &entries);
    let hashed = inputs_hash(IMAGE, &Inputs::Machine(machine()), &set).unwrap();
    assert_eq!(
        hashed.as_str(),
        "h2:1b7de1643771732ed0541b6be1130699a838934c3895ad1656951505ae7bc9ae"
    );
    let mut open = entries;
    open[0].2 = false;
    let open = variables(Role::Machine, &open);
    assert_ne!(
        inputs_hash(IMAGE, &Inputs::Machine(machine()), &open).unwrap(),
        hashed
    );
}

#[test]
fn b7_the_image_string_and_every_leaf_change_the_hash() {
    let base = hash(&Inputs::Cluster(cluster()));
    let other = inputs_hash(
        "other:v1",
        &Inputs::Cluster(cluster()),
        &Variables::default(),
    );
    assert_ne!(other.unwrap().as_str(), base);
    let changed = ClusterInputs {
        control_plane_initialized: true,
        ..cluster()
    };
    assert_ne!(hash(&Inputs::Cluster(changed)), base);
}

#[test]
fn b8_replicas_of_an_autoscaled_pool_do_not_count_but_its_bounds_do() {
    let base = hash(&Inputs::MachinePool(autoscaled_pool()));
    let scaled = MachinePoolInputs {
        replicas: 4,
        ..autoscaled_pool()
    };
    assert_eq!(hash(&Inputs::MachinePool(scaled)), base);
    let mut bounds = autoscaled_pool();
    bounds.autoscaling.max = 6;
    assert_ne!(hash(&Inputs::MachinePool(bounds)), base);
    let fixed = MachinePoolInputs {
        replicas: 4,
        ..pool()
    };
    assert_ne!(
        hash(&Inputs::MachinePool(fixed)),
        hash(&Inputs::MachinePool(pool()))
    );
}

#[test]
fn b9_key_order_and_white_space_of_exports_do_not_matter() {
    let reordered = MachineInputs {
        cluster_outputs: exports(
            "{ \"mtu\": 1500,\n \"subnets\":[\"a\" ,\"b\"], \"network_id\":\"net-1\"}",
        ),
        ..machine()
    };
    assert_eq!(
        hash(&Inputs::Machine(reordered)),
        "h2:e10a5fcbec6ca2745898f8cae279211c217179b1d90afa7e2ce09fb3e24b64b4"
    );
}

#[test]
fn i31_a_fraction_in_exports_cannot_be_hashed() {
    let fractional = MachineInputs {
        cluster_outputs: exports(r#"{"a":{"ratio":1.5}}"#),
        ..machine()
    };
    let error = inputs_hash(IMAGE, &Inputs::Machine(fractional), &Variables::default());
    assert_eq!(
        error.unwrap_err().to_string(),
        "only integer numbers can be hashed, and inputs.captf_cluster_outputs.a.ratio is written \
         with a fraction or an exponent: write it as an integer or as a string"
    );
}

fn rendered(inputs: Inputs) -> Rendered {
    render(&inputs, &Variables::default()).unwrap()
}

#[rstest]
#[case(
    Inputs::Cluster(cluster()),
    1639,
    "b83d0c4599013b29b50da1556dd72ff640dde2266c2e5b05366e72369f4e2aa5"
)]
#[case(
    Inputs::Machine(machine()),
    1867,
    "d852e0b63888cdec957f5457eb2d895bb7180b9aea7474a941ebb336b044d543"
)]
#[case(
    Inputs::MachinePool(pool()),
    2215,
    "1ada6edc2897a900f761996f85d2c540adb01335338a1b0b3715ad4636a6c1c2"
)]
fn root_module_golden_bytes(#[case] inputs: Inputs, #[case] bytes: usize, #[case] sha256: &str) {
    let main = rendered(inputs).main;
    assert_eq!(main.len(), bytes, "{main}");
    assert_eq!(sha256_hex(&main), sha256, "{main}");
}

fn five_variables() -> Variables {
    variables(
        Role::Machine,
        &[
            ("db_password", "\"s3cret\"", true),
            ("disk_gib", "40", false),
            ("instance_type", "\"m\"", false),
            ("ratio", "1.50", false),
            ("subnet_ids", "[]", false),
        ],
    )
}

#[test]
fn root_module_golden_bytes_with_user_variables() {
    let main = render(&Inputs::Machine(machine()), &five_variables())
        .unwrap()
        .main;
    assert_eq!(main.len(), 2202);
    assert_eq!(
        sha256_hex(&main),
        "a199c377cf97f1352ab3ba82e93b6030bed52842275c04c1b0357f694b3941e3"
    );
}

#[test]
fn restore_root_golden_bytes() {
    let restore = Rendered::restore();
    assert_eq!(restore.main.len(), 71);
    assert_eq!(
        sha256_hex(&restore.main),
        "b4ccba57f1e355e6e4333d05582a5b0ef675ebe4db46185ae2fa06396b04f718"
    );
    assert_eq!(restore.tfvars, "{}\n");
}

#[test]
fn pool_tfvars_golden_bytes() {
    let inputs = MachinePoolInputs {
        common: common(Kind::TerraformMachinePool, "prod-md-0-abcde", "prod-md-0"),
        cluster_outputs: exports(r#"{"network_id":"net-1","subnets":["a","b"]}"#),
        kubernetes_version: Some("v1.36.2+rke2r1".into()),
        ..autoscaled_pool()
    };
    let tfvars = rendered(Inputs::MachinePool(inputs)).tfvars;
    assert_eq!(tfvars.len(), 979);
    assert_eq!(
        sha256_hex(&tfvars),
        "df208e7b9c30b598a0ab5cc08db9528e4c3a3f2c4cd8e2dadc53cc544a8f8ab7"
    );
}

#[test]
fn cluster_tfvars_keys_in_contract_order() {
    let inputs = ClusterInputs {
        control_plane_initialized: true,
        cluster_network: ClusterNetwork::new(
            vec!["192.168.0.0/16".into()],
            vec!["10.96.0.0/12".into()],
            Some("cluster.local".into()),
            Some(6443),
        ),
        ..cluster()
    };
    assert_eq!(
        rendered(Inputs::Cluster(inputs)).tfvars,
        r#"{
  "captf_contract": "v1alpha1",
  "captf_cluster": {
    "name": "prod",
    "namespace": "team-a"
  },
  "captf_object": {
    "kind": "TerraformCluster",
    "name": "prod",
    "namespace": "team-a"
  },
  "captf_tags": {
    "captf.io/cluster": "prod",
    "captf.io/kind": "TerraformCluster",
    "captf.io/managed-by": "captf",
    "captf.io/name": "prod",
    "captf.io/namespace": "team-a",
    "captf.io/template": ""
  },
  "control_plane_endpoint": {
    "host": "api.prod.example.com",
    "port": 6443
  },
  "kubernetes_version": "v1.36.2",
  "control_plane_initialized": true,
  "cluster_network": {
    "pods": [
      "192.168.0.0/16"
    ],
    "services": [
      "10.96.0.0/12"
    ],
    "service_domain": "cluster.local",
    "api_server_port": 6443
  }
}
"#
    );
}

#[test]
fn i25_nullable_inputs_are_explicit_nulls() {
    let minimal = ClusterInputs {
        common: common(Kind::TerraformCluster, "prod", ""),
        control_plane_endpoint: None,
        kubernetes_version: None,
        control_plane_initialized: false,
        cluster_network: None,
    };
    let tfvars = rendered(Inputs::Cluster(minimal)).tfvars;
    assert!(tfvars.ends_with(
        r#"  "control_plane_endpoint": null,
  "kubernetes_version": null,
  "control_plane_initialized": false,
  "cluster_network": null
}
"#
    ));
    assert!(!tfvars.contains("captf_cluster_outputs"));
}

#[test]
fn i18_nothing_is_html_escaped() {
    let inputs = MachineInputs {
        cluster_outputs: exports(r#"{"network_id":"net-1","note":"a<b & c>d"}"#),
        failure_domain: None,
        ..machine()
    };
    let tfvars = rendered(Inputs::Machine(inputs)).tfvars;
    assert!(tfvars.contains(r#""note": "a<b & c>d""#));
    assert!(tfvars.contains("\"failure_domain\": null"));
}

#[test]
fn i24_with_a_user_variable_all_keys_are_sorted() {
    let set = variables(Role::Cluster, &[("Zone", "{\"b\":1,\"a\":1.50}", false)]);
    let tfvars = render(&Inputs::Cluster(cluster()), &set).unwrap().tfvars;
    let top: Vec<&str> = tfvars
        .lines()
        .filter_map(|line| line.strip_prefix("  \""))
        .filter_map(|line| line.split('"').next())
        .collect();
    assert_eq!(
        top,
        [
            "Zone",
            "captf_cluster",
            "captf_contract",
            "captf_object",
            "captf_tags",
            "cluster_network",
            "control_plane_endpoint",
            "control_plane_initialized",
            "kubernetes_version",
        ]
    );
    assert!(tfvars.starts_with("{\n  \"Zone\": {\n    \"b\": 1,\n    \"a\": 1.50\n  },\n"));
}

#[test]
fn i19_the_root_never_depends_on_a_value() {
    let other = ClusterInputs {
        common: common(Kind::TerraformCluster, "other", "x"),
        control_plane_endpoint: None,
        kubernetes_version: None,
        control_plane_initialized: true,
        cluster_network: None,
    };
    assert_eq!(
        rendered(Inputs::Cluster(other)).main,
        rendered(Inputs::Cluster(cluster())).main
    );
}

#[test]
fn i20_names_with_hyphens_are_referenced() {
    let set = variables(Role::Cluster, &[("my-name", "1", true)]);
    let main = render(&Inputs::Cluster(cluster()), &set).unwrap().main;
    assert!(main.contains(r#""my-name": "${var.my-name}""#));
    assert!(main.contains("\"my-name\": {\n      \"sensitive\": true\n    }"));
}

#[test]
fn i28_inputs_that_are_too_large_name_the_size_and_the_largest() {
    let fixed = rendered(Inputs::Cluster(cluster())).bytes();
    let with = |length: usize| {
        let set = Variables::merge(
            Role::Cluster,
            &[],
            Some(&json!({"blob": "x".repeat(length)})),
        );
        render(&Inputs::Cluster(cluster()), &set.unwrap())
    };
    let one = with(1).unwrap().bytes();
    assert!(one > fixed);
    let room = RENDERED_MAX - one + 1;
    assert_eq!(with(room).unwrap().bytes(), RENDERED_MAX);
    let error = with(room + 1).unwrap_err();
    assert!(matches!(
        error,
        RenderError::TooLarge {
            bytes: 1_000_001,
            ..
        }
    ));
    assert!(error.to_string().starts_with(
        "the rendered inputs are 1000001 bytes, more than the 1000000 that one Secret can carry: \
         make the largest smaller (blob: "
    ));
}

#[test]
fn files_inputs_and_variables_are_never_printed() {
    let set = five_variables();
    let inputs = Inputs::Machine(machine());
    let printed = format!("{:?} {set:?} {inputs:?}", render(&inputs, &set).unwrap());
    assert!(!printed.contains("s3cret"));
    assert!(!printed.contains("I2Nsb3Vk"));
}
