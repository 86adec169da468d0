//! The checked-in manifests, compared with the code they are generated from or must match.
//!
//! `UPDATE=1 cargo test --test it api::manifests` rewrites the generated ones.

use std::{
    fs,
    path::{Path, PathBuf},
};

use captf::{api::crd, operator::settings::ManagerArgs};
use clap::{Args as _, Command, FromArgMatches as _};
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("operator/manifests")
}

/// JSON with plain numbers: `serde_json` hides exact ones behind a type of its own, which only it
/// can write, and bounds of schemas are floats that should read as integers.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => serializer.serialize_i64(integer(number)),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Plain(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

fn integer(number: &Number) -> i64 {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).parse().unwrap()
}

/// Compares a checked-in file with what it should hold, or writes it when `UPDATE` is set.
fn assert_generated(path: &Path, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date: run UPDATE=1 cargo test --test it api::manifests",
        path.display()
    );
}

#[test]
fn crds_are_those_of_the_types() {
    for crd in crd::all().unwrap() {
        let path = manifests().join(format!("crds/{}.yaml", crd.spec.names.plural));
        let json = serde_json::to_value(&crd).unwrap();
        let yaml = serde_saphyr::to_string(&Plain(&json)).unwrap();
        assert_generated(
            &path,
            &format!("# Generated from src/api by the test api::manifests; do not edit.\n{yaml}"),
        );
    }
}

fn read_all(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(manifests().join(path)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn read_one(path: &str) -> Value {
    read_all(path).remove(0)
}

/// The rules of a role as sorted `group/resource verb` lines.
fn grants(role: &Value) -> Vec<String> {
    let texts = |rule: &Value, field: &str| -> Vec<String> {
        rule[field]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    let mut grants = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for verb in texts(rule, "verbs") {
                    grants.push(format!("{group}/{resource} {verb}"));
                }
            }
        }
    }
    grants.sort();
    grants
}

/// Adds `group/resource verb` for each of the verbs, which are separated by spaces.
fn allow(grants: &mut Vec<String>, resource: &str, verbs: &str) {
    grants.extend(verbs.split(' ').map(|verb| format!("{resource} {verb}")));
}

/// The upper bound of what the manager may do, for the kinds there are (rbac-security.md §1). Of the table there,
/// verbs that nothing uses yet are left out: events are never patched, accounts and bindings neither listed nor,
/// accounts, deleted.
fn manager_bound() -> Vec<String> {
    let own = "infrastructure.cluster.x-k8s.io";
    let mut bound = Vec::new();
    allow(&mut bound, "/configmaps", "get list watch");
    allow(&mut bound, "/namespaces", "get list watch");
    allow(&mut bound, "/pods", "get list watch");
    allow(
        &mut bound,
        "/secrets",
        "get list watch create update patch delete",
    );
    allow(&mut bound, "/serviceaccounts", "get create");
    allow(&mut bound, "authentication.k8s.io/tokenreviews", "create");
    allow(
        &mut bound,
        "authorization.k8s.io/subjectaccessreviews",
        "create",
    );
    allow(
        &mut bound,
        "batch/jobs",
        "get list watch create patch delete",
    );
    allow(&mut bound, "cluster.x-k8s.io/clusters", "get list watch");
    allow(
        &mut bound,
        "coordination.k8s.io/leases",
        "get list create update delete",
    );
    allow(&mut bound, "events.k8s.io/events", "create");
    for kind in [
        "terraformclusters",
        "terraformmachines",
        "terraformmachinepools",
    ] {
        allow(&mut bound, &format!("{own}/{kind}"), "get list watch patch");
    }
    allow(
        &mut bound,
        &format!("{own}/terraformclusters/status"),
        "patch",
    );
    allow(
        &mut bound,
        &format!("{own}/terraformclusters/finalizers"),
        "update",
    );
    allow(
        &mut bound,
        &format!("{own}/terraformclusteridentities"),
        "get list watch",
    );
    allow(
        &mut bound,
        &format!("{own}/terraformplans"),
        "get list watch create patch delete",
    );
    allow(&mut bound, &format!("{own}/terraformplans/status"), "patch");
    allow(&mut bound, "rbac.authorization.k8s.io/clusterroles", "bind");
    allow(
        &mut bound,
        "rbac.authorization.k8s.io/rolebindings",
        "get create update delete",
    );
    bound
}

#[test]
fn the_manager_may_do_nothing_beyond_the_documented_rules() {
    let bound = manager_bound();
    for grant in grants(&read_one("rbac/manager-role.yaml")) {
        assert!(bound.contains(&grant), "{grant}");
    }
}

#[test]
fn the_manager_may_bind_the_runner_role_only() {
    let role = read_one("rbac/manager-role.yaml");
    let bind: Vec<&Value> = role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["verbs"][0] == "bind")
        .collect();
    assert_eq!(bind.len(), 1);
    assert_eq!(
        bind[0]["resourceNames"],
        serde_json::json!(["captf-runner"])
    );
}

#[test]
fn the_runner_may_do_exactly_what_its_backend_and_events_need() {
    let mut expected = Vec::new();
    allow(&mut expected, "/secrets", "create delete get list update");
    allow(
        &mut expected,
        "coordination.k8s.io/leases",
        "create get update",
    );
    allow(&mut expected, "events.k8s.io/events", "create");
    assert_eq!(grants(&read_one("rbac/runner-role.yaml")), expected);
}

#[test]
fn the_election_is_limited_to_its_own_lease() {
    let role = read_one("rbac/leader-election-role.yaml");
    for rule in role["rules"].as_array().unwrap() {
        let creates = rule["verbs"] == serde_json::json!(["create"]);
        let named =
            rule["resourceNames"] == serde_json::json!(["controller-leader-election-captf"]);
        assert!(creates || named, "{rule}");
    }
    let expected = [
        "coordination.k8s.io/leases create",
        "coordination.k8s.io/leases get",
        "coordination.k8s.io/leases update",
    ];
    assert_eq!(grants(&role), expected);
}

#[test]
fn an_editor_writes_neither_identities_nor_plans() {
    for grant in grants(&read_one("rbac/editor-role.yaml")) {
        assert!(
            grant.starts_with("infrastructure.cluster.x-k8s.io/terraformclusters "),
            "{grant}"
        );
    }
}

#[test]
fn a_plan_approver_holds_the_verb_approve_and_is_aggregated_nowhere() {
    let role = read_one("rbac/plan-approver-role.yaml");
    assert_eq!(role["metadata"].get("labels"), None);
    let mut expected = Vec::new();
    let plans = "infrastructure.cluster.x-k8s.io/terraformplans";
    allow(&mut expected, plans, "approve get list patch update watch");
    assert_eq!(grants(&role), expected);
}

#[test]
fn a_viewer_reads_every_kind_and_its_status() {
    let found = grants(&read_one("rbac/viewer-role.yaml"));
    for crd in crd::all().unwrap() {
        let resource = format!("{}/{}", crd.spec.group, crd.spec.names.plural);
        for grant in ["get", "list", "watch"].map(|verb| format!("{resource} {verb}")) {
            assert!(found.contains(&grant), "{grant}");
        }
        assert!(found.contains(&format!("{resource}/status get")));
    }
}

#[test]
fn the_kustomization_lists_every_manifest() {
    let kustomization = read_one("kustomization.yaml");
    let listed: Vec<&str> = kustomization["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap())
        .collect();
    let mut found = vec!["namespace.yaml".to_owned()];
    for folder in ["crds", "rbac", "manager"] {
        for entry in fs::read_dir(manifests().join(folder)).unwrap() {
            found.push(format!(
                "{folder}/{}",
                entry.unwrap().file_name().to_str().unwrap()
            ));
        }
    }
    for path in &found {
        assert!(listed.contains(&path.as_str()), "{path}");
    }
    assert_eq!(listed.len(), found.len());
}

#[test]
fn crds_serve_the_contract_that_the_release_metadata_names() {
    let metadata = read_one("metadata.yaml");
    let contract = metadata["releaseSeries"][0]["contract"].as_str().unwrap();
    for crd in crd::all().unwrap() {
        let labels = crd.metadata.labels.unwrap();
        let version = &labels[&format!("cluster.x-k8s.io/{contract}")];
        assert!(
            crd.spec
                .versions
                .iter()
                .any(|served| served.served && served.name == *version)
        );
        assert_eq!(
            labels["cluster.x-k8s.io/provider"],
            "infrastructure-terraform"
        );
        assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "");
    }
}

#[test]
fn crds_have_the_names_that_cluster_api_computes() {
    let found: Vec<(String, String, String)> = crd::all()
        .unwrap()
        .into_iter()
        .map(|crd| {
            (
                crd.metadata.name.unwrap(),
                crd.spec.scope,
                crd.spec.names.short_names.unwrap().join(","),
            )
        })
        .collect();
    let expected = [
        ("terraformclusters", "Namespaced", "tfc"),
        ("terraformclusteridentities", "Cluster", "tfci"),
        ("terraformplans", "Namespaced", "tfplan"),
    ]
    .map(|(plural, scope, short)| {
        (
            format!("{plural}.infrastructure.cluster.x-k8s.io"),
            scope.to_owned(),
            short.to_owned(),
        )
    });
    assert_eq!(found, expected);
}

#[test]
fn only_the_identity_moves_with_the_hierarchy_that_references_it() {
    for crd in crd::all().unwrap() {
        let moves = crd
            .metadata
            .labels
            .unwrap()
            .contains_key("clusterctl.cluster.x-k8s.io/move-hierarchy");
        assert_eq!(moves, crd.spec.names.kind == "TerraformClusterIdentity");
    }
}

#[test]
fn the_deployment_runs_one_replica_with_election_in_a_container_named_manager() {
    let deployment = read_one("manager/deployment.yaml");
    assert_eq!(deployment["spec"]["replicas"], 1);
    let pod = &deployment["spec"]["template"]["spec"];
    let manager = &pod["containers"][0];
    assert_eq!(manager["name"], "manager");
    assert_eq!(manager["args"][0], "--leader-elect");
    assert_eq!(manager["env"][0]["name"], "CAPTF_MANAGER_IMAGE");
    assert_eq!(manager["env"][0]["value"], manager["image"]);
    assert_eq!(pod["terminationGracePeriodSeconds"], 30);
}

#[test]
fn the_manager_pod_satisfies_the_restricted_standard() {
    let deployment = read_one("manager/deployment.yaml");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["privileged"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(
        container["capabilities"]["drop"],
        serde_json::json!(["ALL"])
    );
}

#[test]
fn the_manager_accepts_the_arguments_of_its_deployment() {
    let deployment = read_one("manager/deployment.yaml");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    let typed = arguments.iter().map(|argument| argument.as_str().unwrap());
    let matches = ManagerArgs::augment_args(Command::new("manager"))
        .try_get_matches_from(std::iter::once("manager").chain(typed))
        .unwrap();
    let environment = |name: &str| {
        let value = match name {
            "CAPTF_MANAGER_IMAGE" => container["image"].as_str().unwrap(),
            "POD_NAMESPACE" => deployment["metadata"]["namespace"].as_str().unwrap(),
            "SERVICE_ACCOUNT_NAME" => "captf-controller-manager",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let settings = ManagerArgs::from_arg_matches(&matches)
        .unwrap()
        .settings(&environment)
        .unwrap();
    assert!(settings.election.is_some());
    assert_eq!(settings.warnings, Vec::<String>::new());
    let user = "system:serviceaccount:captf-system:captf-controller-manager";
    assert_eq!(settings.manager_user.as_deref(), Some(user));
}

// metrics-alerts.md §5
#[test]
fn the_metrics_service_selects_the_pods_of_the_manager_on_their_diagnostics_port() {
    let service = read_one("../components/metrics/service.yaml");
    assert_eq!(
        service["metadata"]["name"],
        "captf-controller-manager-metrics"
    );
    assert_eq!(service["metadata"]["namespace"], "captf-system");
    assert_eq!(
        service["metadata"]["labels"],
        serde_json::json!({
            "app.kubernetes.io/component": "metrics",
            "cluster.x-k8s.io/provider": "infrastructure-terraform",
        })
    );
    let port = &service["spec"]["ports"][0];
    assert_eq!(
        (&port["name"], &port["port"]),
        (&"metrics".into(), &8443.into())
    );
    let deployment = read_one("manager/deployment.yaml");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().unwrap();
    assert!(
        ports
            .iter()
            .any(|open| open["name"] == port["targetPort"] && open["containerPort"] == 8443),
        "{ports:?}"
    );
    let mut pods = deployment["spec"]["template"]["metadata"]["labels"].clone();
    let added = &read_one("kustomization.yaml")["labels"][0];
    assert_eq!(added["includeSelectors"], true);
    for (label, value) in added["pairs"].as_object().unwrap() {
        pods[label] = value.clone();
    }
    for (label, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(pods[label], *value, "{label}");
    }
}

#[test]
fn a_metrics_reader_may_get_metrics_and_nothing_else() {
    let objects = read_all("../components/metrics/metrics-reader-role.yaml");
    let rules = serde_json::json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    assert_eq!(objects[0]["rules"], rules);
    assert_eq!(objects[0]["metadata"].get("labels"), None);
    assert_eq!(objects[1]["roleRef"]["name"], "captf-metrics-reader");
    assert_eq!(
        objects[1]["subjects"],
        serde_json::json!([{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}])
    );
}
