//! Situations of leases on a real API server: the lease as the operator writes it, and a real Job
//! with a real pod where the situation has one.

use std::time::Duration;

use captf::lease::{Claim, confirmed, taken};
use captf::names::{JobName, Kind, LeaseScope, ObjectKey, Op, cluster_write_lease, job_labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use super::program::{Said, bare, said};
use crate::testbed::jobs;
use crate::testbed::wait::{LIMIT, until};
use crate::testbed::{Bed, ControlPlane, World};

/// The object of every scene.
pub(crate) const OBJECT: &str = "demo";
/// A Job name of it.
pub(crate) const JOB: &str = "captf-c-demo-apply-a1-dbb569";
/// The deadline of every Job.
const HOUR: Duration = Duration::from_secs(3600);

/// A TerraformCluster `demo` in a namespace of its own.
pub(crate) struct Scene {
    bed: &'static Bed,
    pub(crate) world: World,
    uid: String,
}

impl Scene {
    /// A cluster whose gates are open and whose apply is due.
    pub(crate) async fn new() -> Self {
        let bed = ControlPlane::shared().await;
        let world = World::new(bed).await;
        let object = world.cluster(OBJECT).create().await;
        let scene = Self {
            bed,
            world,
            uid: object.metadata.uid.unwrap_or_default(),
        };
        scene.conditions(&[]).await;
        scene
    }

    /// Sets the conditions of a cluster whose gates are open, with these in place of the defaults.
    pub(crate) async fn conditions(&self, changed: &[(&str, &str, &str, &str)]) {
        let open = [
            ("DependenciesReady", "True", "DependenciesReady", ""),
            ("IdentityAllowed", "True", "IdentityAllowed", ""),
            ("CredentialsMirrored", "True", "Mirrored", ""),
            ("RunnerRBACReady", "True", "RBACReady", ""),
            ("ApplyJobSucceeded", "Unknown", "NoApplyYet", ""),
            ("StateReadable", "Unknown", "StateNotFound", ""),
            ("Paused", "False", "NotPaused", ""),
            ("Deleting", "False", "NotDeleting", ""),
        ];
        let kept = open
            .iter()
            .filter(|(kind, ..)| changed.iter().all(|(other, ..)| other != kind));
        let conditions: Vec<Value> = kept
            .chain(changed)
            .map(|(kind, status, reason, message)| {
                json!({
                    "type": kind, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": ago(120).to_string(), "observedGeneration": 1,
                })
            })
            .collect();
        self.world
            .patch_status(
                "TerraformCluster",
                OBJECT,
                json!({"conditions": conditions, "observedGeneration": 1}),
            )
            .await;
    }

    /// The condition of a wait for the run lease, as the operator words it.
    pub(crate) async fn waits_for_run_lease(&self) {
        let message = format!(
            "waiting for the run lease {}, held by Job {JOB}; the apply starts once it finishes",
            self.run_lease()
        );
        self.conditions(&[(
            "ApplyJobSucceeded",
            "Unknown",
            "WaitingForRunLease",
            &message,
        )])
        .await;
    }

    /// The condition of a cluster that waits for its machines.
    pub(crate) async fn waits_for_machines(&self) {
        let message = "1 machine and pool apply or destroy Jobs of the cluster must finish before the apply starts: \
                       captf-m-web-apply-a1-abcdef; new ones wait meanwhile";
        self.conditions(&[(
            "ApplyJobSucceeded",
            "Unknown",
            "WaitingForMachineOperations",
            message,
        )])
        .await;
    }

    pub(crate) fn run_lease(&self) -> String {
        self.key().suffix().run_lease()
    }

    pub(crate) fn cluster_lease(&self) -> String {
        cluster_write_lease(&self.world.namespace, OBJECT).expect("the cluster is known")
    }

    fn key(&self) -> ObjectKey {
        ObjectKey::new(
            Kind::TerraformCluster,
            self.world.namespace.as_str(),
            OBJECT,
        )
    }

    /// A lease of the object taken this many seconds ago, as the operator writes it.
    pub(crate) async fn lease(&self, scope: LeaseScope, holder: &str, age: i64) {
        let claim = Claim {
            scope,
            lease: match scope {
                LeaseScope::Run => self.run_lease(),
                LeaseScope::Cluster => self.cluster_lease(),
            },
            namespace: self.world.namespace.clone(),
            holder: JobName::new(holder),
            op: Op::Apply,
            owner_kind: Kind::TerraformCluster,
            owner_name: OBJECT.to_owned(),
            cluster: OBJECT.to_owned(),
            backstop: HOUR + Duration::from_secs(900),
        };
        self.put(&taken(&claim, ago(age))).await;
    }

    /// The run lease of a machine of the cluster.
    pub(crate) async fn machine_lease(&self, machine: &str, holder: &str, age: i64) {
        let key = ObjectKey::new(
            Kind::TerraformMachine,
            self.world.namespace.as_str(),
            machine,
        );
        let claim = Claim {
            scope: LeaseScope::Run,
            lease: key.suffix().run_lease(),
            namespace: self.world.namespace.clone(),
            holder: JobName::new(holder),
            op: Op::Apply,
            owner_kind: Kind::TerraformMachine,
            owner_name: machine.to_owned(),
            cluster: OBJECT.to_owned(),
            backstop: HOUR + Duration::from_secs(900),
        };
        self.put(&taken(&claim, ago(age))).await;
    }

    /// Marks the run lease as the fence does, with the uid of its Job.
    pub(crate) async fn fence(&self, job: &Job) {
        let api: Api<Lease> = self.api();
        let lease = api
            .get(&self.run_lease())
            .await
            .expect("the run lease exists");
        let fenced = confirmed(&lease, job.metadata.uid.as_deref().unwrap_or_default());
        #[allow(
            clippy::disallowed_methods,
            reason = "plays the operator's guarded write"
        )]
        api.replace(&self.run_lease(), &PostParams::default(), &fenced)
            .await
            .expect("the fence");
    }

    async fn put(&self, lease: &Lease) {
        let api: Api<Lease> = self.api();
        api.create(&PostParams::default(), lease)
            .await
            .expect("the lease is created");
    }

    /// Empties the holder of the run lease.
    pub(crate) async fn empty_holder(&self) {
        self.world
            .patch(
                "Lease",
                &self.run_lease(),
                json!({"spec": {"holderIdentity": null}}),
            )
            .await;
    }

    /// The object's Job, with the labels and the owner that the operator gives it.
    pub(crate) async fn job(&self, name: &str) -> Job {
        let labels = job_labels(Kind::TerraformCluster, OBJECT, OBJECT, Op::Apply, 1);
        let job: Job = serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": self.world.namespace, "labels": labels,
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "name": OBJECT, "uid": self.uid, "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "backoffLimit": 0, "activeDeadlineSeconds": 3600,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "initContainers": [{"name": "runner", "image": "registry.example.com/runner:v1"}],
                        "containers": [{"name": "source", "image": "registry.example.com/noop-cluster:v1"}],
                    },
                },
            },
        }))
        .expect("a Job");
        let api: Api<Job> = self.api();
        let job = api
            .create(&PostParams::default(), &job)
            .await
            .expect("the Job is created");
        jobs::pod_of(&self.world.client, &self.world.namespace, name).await;
        job
    }

    /// Lets the Job's pod run.
    pub(crate) async fn run_pod(&self, job: &str) -> Pod {
        jobs::run(&self.world.client, &self.world.namespace, job).await
    }

    /// Says in the status that this Job is the active one.
    pub(crate) async fn active(&self, job: &str) {
        let active = json!({"name": job, "operation": "apply", "attempt": 1, "startTime": ago(30).to_string()});
        self.world
            .patch_status("TerraformCluster", OBJECT, json!({"activeJob": active}))
            .await;
    }

    /// Deletes the Job and leaves its pods, as a raw API delete does.
    pub(crate) async fn orphan(&self, job: &str) {
        let api: Api<Job> = self.api();
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        api.delete(job, &params).await.expect("the Job is deleted");
        until("the Job to be gone", LIMIT, async || {
            match api.get_opt(job).await {
                Ok(None) => Ok(()),
                other => Err(format!(
                    "{:?}",
                    other.map(|job| job.map(|job| job.metadata.finalizers))
                )),
            }
        })
        .await;
    }

    /// Pods with the label of this Job.
    pub(crate) async fn pods(&self, job: &str) -> Vec<Pod> {
        let api: Api<Pod> = self.api();
        let selector = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        api.list(&selector).await.expect("pods").items
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    /// A user who may get and list these resources of the namespace and nothing else.
    pub(crate) async fn reader(&self, resources: &[&str]) -> String {
        self.user(resources, &["get", "list"]).await
    }

    /// A user who may get these resources of the namespace, but list none.
    pub(crate) async fn getter(&self, resources: &[&str]) -> String {
        self.user(resources, &["get"]).await
    }

    async fn user(&self, resources: &[&str], verbs: &[&str]) -> String {
        let name = format!("reader-of-{}", self.world.namespace);
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": "reader"},
            "rules": [{
                "apiGroups": ["", "batch", "coordination.k8s.io", "infrastructure.cluster.x-k8s.io"],
                "resources": resources, "verbs": verbs,
            }],
        }))
        .expect("a Role");
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        }))
        .expect("a RoleBinding");
        if !resources.is_empty() {
            self.api::<Role>()
                .create(&PostParams::default(), &role)
                .await
                .expect("the Role");
            self.api::<RoleBinding>()
                .create(&PostParams::default(), &binding)
                .await
                .expect("the RoleBinding");
            let first = *resources.first().expect("one resource");
            until("the role to count", LIMIT, async || {
                let said = self.run(&["leases", "--for", "tfc/demo", "--as", &name]);
                if said.code == 0 || first != "leases" {
                    Ok(())
                } else {
                    Err(said.stderr)
                }
            })
            .await;
        }
        name
    }

    /// Runs the program against this scene.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(
            bare()
                .env("KUBECONFIG", self.bed.kubeconfig())
                .args(args)
                .args(["--namespace", &self.world.namespace]),
        )
    }

    /// What completion offers for the last of these words.
    pub(crate) fn completed(&self, words: &[&str]) -> String {
        said(
            bare()
                .env("KUBECONFIG", self.bed.kubeconfig())
                .args(["__complete", "--", "-n", &self.world.namespace])
                .args(words),
        )
        .stdout
    }

    /// What the program said, without what differs from run to run.
    pub(crate) fn settled(&self, text: &str) -> String {
        let names = [
            (self.run_lease(), "captf-run-<demo>-c"),
            (self.cluster_lease(), "captf-cluster-<demo>"),
            (self.world.namespace.clone(), "<namespace>"),
            (self.uid.clone(), "<uid>"),
        ];
        let mut text = text.to_owned();
        for (name, stands_for) in names {
            text = text.replace(&name, stands_for);
        }
        text
    }
}

/// A time in the past, on whole seconds.
fn ago(seconds: i64) -> Timestamp {
    #[allow(clippy::disallowed_methods, reason = "a test's own times")]
    let now = Timestamp::now();
    let time = now
        .checked_sub(SignedDuration::from_secs(seconds))
        .expect("in range");
    Timestamp::from_second(time.as_second()).expect("in range")
}
