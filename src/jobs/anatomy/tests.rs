#![allow(clippy::unwrap_used, clippy::expect_used)]

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::JobPolicy;
use crate::names::Kind;

fn policy(json: Value) -> EffectivePolicy {
    let policy: JobPolicy = serde_json::from_value(json).unwrap();
    EffectivePolicy::merge(&[&policy]).unwrap()
}

/// The first apply of the cluster `team-a/prod`.
fn cluster_apply() -> JobRequest {
    JobRequest {
        object: ObjectKey::new(Kind::TerraformCluster, "team-a", "prod"),
        owner_uid: "5f1d3c2a-0000-4000-8000-00000000000a".into(),
        cluster: "prod".into(),
        name: JobName::new("captf-c-prod-apply-a1-dbb569"),
        op: Op::Apply,
        attempt: 1,
        image: "ghcr.io/example/cluster-module:v1.2.3".into(),
        pull_policy: ImagePullPolicy::IfNotPresent,
        runner_image: "ghcr.io/example/kubectl-captf:v0.1.0".into(),
        credentials_secret: "captf-creds-aws".into(),
        policy: policy(json!({})),
        annotations: BTreeMap::from([
            ("captf.io/inputs-hash".into(), "h1:abc".into()),
            ("captf.io/state-lock-version".into(), "none".into()),
        ]),
        plan_key_secret: Some("captf-plankey-c-prod".into()),
        force_unlock: None,
        guard: Some(Guard {
            inputs_hash: InputsHash::new("h1:abc"),
            allow_deletes_hash: None,
            expect_plan: None,
        }),
        restore: None,
        runner_events: true,
    }
}

fn built(request: &JobRequest) -> Value {
    serde_json::to_value(build(request)).unwrap()
}

fn pod(request: &JobRequest) -> Value {
    built(request)["spec"]["template"]["spec"].clone()
}

fn args(request: &JobRequest) -> Vec<String> {
    serde_json::from_value(pod(request)["containers"][0]["args"].clone()).unwrap()
}

#[test]
fn golden_cluster_apply() {
    let labels = json!({
        "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
        "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod",
        "cluster.x-k8s.io/cluster-name": "prod",
        "captf.io/managed": "true",
        "captf.infrastructure.cluster.x-k8s.io/op": "apply",
        "captf.infrastructure.cluster.x-k8s.io/attempt": "1"
    });
    let expected = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "captf-c-prod-apply-a1-dbb569",
            "namespace": "team-a",
            "labels": labels,
            "annotations": {"captf.io/inputs-hash": "h1:abc", "captf.io/state-lock-version": "none"},
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
                "kind": "TerraformCluster",
                "name": "prod",
                "uid": "5f1d3c2a-0000-4000-8000-00000000000a",
                "controller": true,
                "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": 3600,
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
                },
                "spec": {
                    "serviceAccountName": "captf-runner",
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 600,
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "fsGroup": 65532},
                    "initContainers": [{
                        "name": "runner",
                        "image": "ghcr.io/example/kubectl-captf:v0.1.0",
                        "command": ["/runner", "copy", "/captf/bin/runner"],
                        "resources": {
                            "requests": {"cpu": "10m", "memory": "32Mi"},
                            "limits": {"cpu": "100m", "memory": "64Mi"}
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]},
                            "runAsNonRoot": true,
                            "runAsUser": 65532,
                            "readOnlyRootFilesystem": true
                        },
                        "volumeMounts": [{"name": "runner", "mountPath": "/captf/bin"}]
                    }],
                    "containers": [{
                        "name": "source",
                        "image": "ghcr.io/example/cluster-module:v1.2.3",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["/captf/bin/runner", "run"],
                        "args": [
                            "--op=apply",
                            "--bin=/captf/runtime",
                            "--image=ghcr.io/example/cluster-module:v1.2.3",
                            "--module=/captf/module",
                            "--providers=/captf/providers",
                            "--workdir=/captf/work",
                            "--config=/captf/config",
                            "--lock-timeout=300s",
                            "--stop-timeout=570s",
                            "--backend-config=secret_suffix=f66792f9106e7299-c",
                            "--backend-config=namespace=team-a",
                            "--backend-config=in_cluster_config=true",
                            "--backend-config=labels={\"captf.infrastructure.cluster.x-k8s.io/owner-kind\"=\"TerraformCluster\",\"captf.infrastructure.cluster.x-k8s.io/owner-name\"=\"prod\",\"captf.io/managed\"=\"true\",\"cluster.x-k8s.io/cluster-name\"=\"prod\",\"clusterctl.cluster.x-k8s.io/move\"=\"\"}",
                            "--guard-deletes",
                            "--inputs-hash=h1:abc",
                            "--plan-key-file=/captf/plan-key/key",
                            "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/team-a/prod/5f1d3c2a-0000-4000-8000-00000000000a",
                            "--job-name=captf-c-prod-apply-a1-dbb569"
                        ],
                        "env": [
                            {"name": "TF_IN_AUTOMATION", "value": "1"},
                            {"name": "TF_INPUT", "value": "0"},
                            {"name": "HOME", "value": "/captf/work"},
                            {"name": "TMPDIR", "value": "/tmp"},
                            {"name": "KUBE_NAMESPACE", "value": "team-a"},
                            {"name": "CHECKPOINT_DISABLE", "value": "1"},
                            {"name": "CAPTF_JOB_UID", "valueFrom": {"fieldRef": {
                                "fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"
                            }}}
                        ],
                        "envFrom": [{"secretRef": {"name": "captf-creds-aws"}}],
                        "resources": {
                            "requests": {"cpu": "250m", "memory": "2Gi", "ephemeral-storage": "1Gi"},
                            "limits": {"memory": "2Gi"}
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]},
                            "readOnlyRootFilesystem": true
                        },
                        "terminationMessagePolicy": "File",
                        "volumeMounts": [
                            {"name": "runner", "mountPath": "/captf/bin", "readOnly": true},
                            {"name": "work", "mountPath": "/captf/work"},
                            {"name": "tmp", "mountPath": "/tmp"},
                            {"name": "config", "mountPath": "/captf/config", "readOnly": true},
                            {"name": "creds", "mountPath": "/var/run/captf/credentials", "readOnly": true},
                            {"name": "plan-key", "mountPath": "/captf/plan-key", "readOnly": true}
                        ]
                    }],
                    "volumes": [
                        {"name": "runner", "emptyDir": {"sizeLimit": "128Mi"}},
                        {"name": "work", "emptyDir": {"sizeLimit": "8Gi"}},
                        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
                        {"name": "config", "secret": {
                            "secretName": "captf-run-captf-c-prod-apply-a1-dbb569", "defaultMode": 288
                        }},
                        {"name": "creds", "secret": {"secretName": "captf-creds-aws", "defaultMode": 288}},
                        {"name": "plan-key", "secret": {
                            "secretName": "captf-plankey-c-prod", "defaultMode": 288,
                            "items": [{"key": "key", "path": "key"}]
                        }}
                    ]
                }
            }
        }
    });
    assert_eq!(built(&cluster_apply()), expected);
}

#[rstest]
#[case(Op::Apply, true)]
#[case(Op::Destroy, true)]
#[case(Op::Restore, true)]
#[case(Op::Plan, false)]
#[case(Op::Refresh, false)]
#[case(Op::Drift, false)]
fn only_mutating_operations_are_not_evicted(#[case] op: Op, #[case] kept: bool) {
    let job = built(&JobRequest {
        op,
        ..cluster_apply()
    });
    let annotations = &job["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(!annotations.is_null(), kept);
}

#[test]
fn a_job_without_annotations_has_none() {
    let job = built(&JobRequest {
        annotations: BTreeMap::new(),
        ..cluster_apply()
    });
    assert!(job["metadata"].get("annotations").is_none());
}

#[test]
fn policy_variables_follow_the_fixed_ones_without_reserved_names() {
    let request = JobRequest {
        policy: policy(json!({"env": [
            {"name": "AWS_REGION", "value": "eu-west-1"},
            {"name": "TF_LOG", "value": "debug"},
            {"name": "KUBE_CONFIG_PATH", "value": "x"},
            {"name": "KUBERNETES_SERVICE_HOST", "value": "x"},
            {"name": "HOME", "value": "/root"},
            {"name": "TMPDIR", "value": "/x"},
            {"name": "CHECKPOINT_DISABLE", "value": "0"},
            {"name": "CAPTF_JOB_UID", "value": "forged"},
            {"name": "HOMEPAGE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
        ]})),
        ..cluster_apply()
    };
    let env = pod(&request)["containers"][0]["env"].clone();
    let names: Vec<&str> = env
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "TF_IN_AUTOMATION",
            "TF_INPUT",
            "HOME",
            "TMPDIR",
            "KUBE_NAMESPACE",
            "CHECKPOINT_DISABLE",
            "CAPTF_JOB_UID",
            "AWS_REGION",
            "HOMEPAGE"
        ]
    );
}

#[test]
fn all_capabilities_stay_dropped_whatever_the_policy_drops() {
    let request = JobRequest {
        policy: policy(json!({"securityContext": {
            "readOnlyRootFilesystem": false, "runAsUser": 1000,
            "capabilities": {"drop": ["NET_RAW"], "add": ["CHOWN"]}
        }})),
        ..cluster_apply()
    };
    assert_eq!(
        pod(&request)["containers"][0]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": false, "runAsUser": 1000,
            "capabilities": {"drop": ["ALL", "NET_RAW"], "add": ["CHOWN"]}
        })
    );
}

#[test]
fn the_pods_security_context_is_filled_where_the_policy_is_silent() {
    let request = JobRequest {
        policy: policy(json!({"podSecurityContext": {"fsGroup": 7, "runAsNonRoot": true}})),
        ..cluster_apply()
    };
    assert_eq!(
        pod(&request)["securityContext"],
        json!({"fsGroup": 7, "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
}

#[test]
fn policy_values_replace_the_defaults() {
    let request = JobRequest {
        policy: policy(json!({
            "activeDeadlineSeconds": 1200, "lockTimeoutSeconds": 0, "serviceAccountName": "own",
            "imagePullSecrets": [{"name": "pull"}], "resources": {"limits": {"cpu": "4"}}
        })),
        ..cluster_apply()
    };
    let job = built(&request);
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 1200);
    let pod = pod(&request);
    assert_eq!(pod["serviceAccountName"], "own");
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(
        pod["containers"][0]["resources"],
        json!({"limits": {"cpu": "4"}})
    );
    assert!(args(&request).contains(&"--lock-timeout=0s".to_owned()));
}

#[test]
fn optional_arguments_have_their_order() {
    let request = JobRequest {
        force_unlock: Some("lock-id".into()),
        guard: Some(Guard {
            inputs_hash: InputsHash::new("h2:approval"),
            allow_deletes_hash: Some(InputsHash::new("h2:approval")),
            expect_plan: Some("p2:ab".into()),
        }),
        ..cluster_apply()
    };
    assert_eq!(
        args(&request)[13..],
        [
            "--force-unlock=lock-id",
            "--guard-deletes",
            "--inputs-hash=h2:approval",
            "--allow-deletes-hash=h2:approval",
            "--expect-plan=p2:ab",
            "--plan-key-file=/captf/plan-key/key",
            "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/team-a/prod/5f1d3c2a-0000-4000-8000-00000000000a",
            "--job-name=captf-c-prod-apply-a1-dbb569",
        ]
    );
}

#[test]
fn without_runner_events_or_an_owner_uid_no_object_is_named() {
    let silent = JobRequest {
        runner_events: false,
        ..cluster_apply()
    };
    assert!(
        !args(&silent)
            .iter()
            .any(|arg| arg.starts_with("--event-object"))
    );
    let unknown = JobRequest {
        owner_uid: String::new(),
        ..cluster_apply()
    };
    assert!(
        !args(&unknown)
            .iter()
            .any(|arg| arg.starts_with("--job-name"))
    );
}

#[test]
fn a_machine_apply_has_neither_guard_nor_plan_key() {
    let request = JobRequest {
        guard: None,
        plan_key_secret: None,
        runner_events: false,
        ..cluster_apply()
    };
    assert_eq!(args(&request).len(), 13);
    let pod = pod(&request);
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 5);
    assert_eq!(
        pod["containers"][0]["volumeMounts"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
}

#[test]
fn s19_a_restore_projects_the_chunks_beside_the_per_run_secret() {
    let request = JobRequest {
        op: Op::Restore,
        guard: None,
        plan_key_secret: None,
        runner_events: false,
        restore: Some(Restore {
            chunks: vec!["backup-7".into(), "backup-7-part-1".into()],
            resources: 3,
        }),
        ..cluster_apply()
    };
    assert_eq!(
        pod(&request)["volumes"][3],
        json!({"name": "config", "projected": {"defaultMode": 288, "sources": [
            {"secret": {"name": "captf-run-captf-c-prod-apply-a1-dbb569"}},
            {"secret": {"name": "backup-7", "items": [{"key": "tfstate", "path": "restore/0"}]}},
            {"secret": {"name": "backup-7-part-1", "items": [{"key": "tfstate", "path": "restore/1"}]}}
        ]}})
    );
    assert_eq!(
        args(&request)[13..],
        ["--restore-chunks=2", "--restore-resources=3"]
    );
}

#[test]
fn a_pull_policy_of_a_newer_version_is_the_default() {
    let request = JobRequest {
        pull_policy: ImagePullPolicy::Other("Sometimes".into()),
        ..cluster_apply()
    };
    assert_eq!(
        pod(&request)["containers"][0]["imagePullPolicy"],
        "IfNotPresent"
    );
}

#[rstest]
#[case(Kind::TerraformCluster, Op::Apply, "", true)]
#[case(Kind::TerraformCluster, Op::Destroy, "", false)]
#[case(Kind::TerraformMachinePool, Op::Apply, "", false)]
#[case(Kind::TerraformMachinePool, Op::Apply, "h2:a", true)]
#[case(Kind::TerraformMachine, Op::Apply, "h2:a", false)]
fn b29_b30_guarded_applies(
    #[case] kind: Kind,
    #[case] op: Op,
    #[case] approval: &str,
    #[case] guarded: bool,
) {
    assert_eq!(is_guarded(kind, op, &InputsHash::new(approval)), guarded);
}

#[test]
fn jobs_that_fingerprint_a_plan_need_the_plan_key() {
    let guard = cluster_apply().guard;
    assert!(fingerprints_plan(Op::Plan, None));
    assert!(fingerprints_plan(Op::Apply, guard.as_ref()));
    assert!(!fingerprints_plan(Op::Apply, None));
    assert!(!fingerprints_plan(Op::Destroy, None));
}
