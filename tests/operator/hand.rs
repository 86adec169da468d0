//! What a test makes by hand: leases, Jobs and pods of another manager, Terraform's state.

use std::io::Write as _;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::sight::suffix;
use crate::testbed::{World, jobs, wait};

/// A Job of another manager.
pub(crate) const OTHER: &str = "captf-c-prod-apply-a9-0ffee0";

/// The start of a test's time.
pub(crate) fn noon() -> Timestamp {
    "2026-10-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

/// The time of the API server, which runs beside the test.
pub(crate) fn now() -> Timestamp {
    captf::client::Clock::system().now()
}

/// What the runner of a successful apply reports.
pub(crate) fn applied() -> jobs::Ending {
    jobs::Ending::success(&json!({
        "version": 1, "op": "apply",
        "steps": [{"name": "init", "exit": 0, "seconds": 1.0}, {"name": "apply", "exit": 0, "seconds": 1.0}],
    }))
}

/// What the runner of an apply reports that failed before it changed anything.
pub(crate) fn invalid() -> jobs::Ending {
    jobs::Ending::failure(&json!({
        "version": 1, "op": "apply",
        "steps": [{"name": "init", "exit": 0, "seconds": 1.0}, {"name": "validate", "exit": 1, "seconds": 1.0}],
        "error": {"kind": "step", "step": "validate", "tail": "Unsupported argument"},
    }))
}

/// A lease as another manager wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    name: String,
    scope: &'static str,
    holder: Option<String>,
    op: &'static str,
    kind: &'static str,
    owner: String,
    cluster: String,
    at: Timestamp,
    backstop: Option<i32>,
}

impl Held {
    /// The run lease of a TerraformCluster, taken at `at` for an apply.
    pub(crate) fn run(world: &World, name: &str, holder: &str, at: Timestamp) -> Self {
        Self {
            name: world.run_lease(name),
            scope: "run",
            holder: Some(holder.to_owned()),
            op: "apply",
            kind: "TerraformCluster",
            owner: name.to_owned(),
            cluster: name.to_owned(),
            at,
            backstop: Some(4500),
        }
    }

    /// The write lease of a Cluster, taken at `at` for an apply.
    pub(crate) fn cluster(world: &World, name: &str, holder: &str, at: Timestamp) -> Self {
        Self {
            name: world.cluster_lease(name),
            scope: "cluster",
            ..Self::run(world, name, holder, at)
        }
    }

    /// The run lease of a machine of a Cluster, taken at `at` for `op`.
    pub(crate) fn machine(
        world: &World,
        (machine, cluster): (&str, &str),
        op: &'static str,
        holder: &str,
        at: Timestamp,
    ) -> Self {
        Self {
            name: format!(
                "captf-run-{}",
                suffix(&world.namespace, "TerraformMachine", machine)
            ),
            op,
            kind: "TerraformMachine",
            owner: machine.to_owned(),
            ..Self::run(world, cluster, holder, at)
        }
    }

    /// Without a holder.
    pub(crate) fn by_nobody(self) -> Self {
        Self {
            holder: None,
            ..self
        }
    }

    /// With this `leaseDurationSeconds`.
    pub(crate) fn for_seconds(self, backstop: Option<i32>) -> Self {
        Self { backstop, ..self }
    }

    /// The Lease that is created.
    pub(crate) fn object(&self) -> Lease {
        let time = self.at.to_string();
        from_json(json!({
            "metadata": {
                "name": self.name,
                "labels": {
                    "captf.io/lease": self.scope,
                    "captf.io/managed": "true",
                    "captf.infrastructure.cluster.x-k8s.io/owner-kind": self.kind,
                    "captf.infrastructure.cluster.x-k8s.io/owner-name": self.owner,
                    "cluster.x-k8s.io/cluster-name": self.cluster,
                },
                "annotations": {"captf.io/lease-op": self.op, "captf.io/lease-acquired-at": time},
            },
            "spec": {
                "holderIdentity": self.holder,
                "acquireTime": format!("{:.6}", self.at),
                "leaseDurationSeconds": self.backstop,
            },
        }))
    }
}

impl World {
    pub(crate) async fn hold(&self, held: &Held) -> Lease {
        self.make(&held.object()).await
    }

    /// Creates an object of a built-in kind.
    pub(crate) async fn make<K>(&self, object: &K) -> K
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let made = self
            .typed::<K>()
            .create(&PostParams::default(), object)
            .await;
        made.unwrap_or_else(|error| panic!("create {}: {error}", object.name_any()))
    }

    /// Lets another Job hold an existing lease, as a takeover does. Returns the lease as it is then.
    pub(crate) async fn take_over(&self, lease: &str, holder: &str) -> Lease {
        let patch = json!({
            "metadata": {"annotations": {"captf.io/lease-acquired-at": now().to_string()}},
            "spec": {"holderIdentity": holder},
        });
        let params = PatchParams::default();
        let taken = self
            .typed::<Lease>()
            .patch(lease, &params, &Patch::Merge(&patch))
            .await;
        taken.unwrap_or_else(|error| panic!("take {lease} over: {error}"))
    }

    /// A Job without labels of ours, that has not finished.
    pub(crate) async fn job_by_hand(&self, name: &str) -> Job {
        self.make::<Job>(&from_json(json!({
            "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "source", "image": "registry.example.com/other:v1"}],
            }}},
        })))
        .await
    }

    /// A Job that has ended so.
    pub(crate) async fn finished_job(&self, name: &str, ending: jobs::Ending) -> Job {
        self.job_by_hand(name).await;
        jobs::finish(&self.client, &self.namespace, name, ending).await
    }

    /// A pod that carries a Job's name and is in this phase.
    pub(crate) async fn pod_by_hand(&self, job: &str, name: &str, phase: &str) -> Pod {
        self.make::<Pod>(&from_json(json!({
            "metadata": {"name": name, "labels": {"batch.kubernetes.io/job-name": job}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "source", "image": "registry.example.com/other:v1"}],
            },
        })))
        .await;
        self.set_phase(name, phase).await
    }

    pub(crate) async fn set_phase(&self, pod: &str, phase: &str) -> Pod {
        let patch = json!({"status": {"phase": phase}});
        let params = PatchParams::default();
        let set = self
            .typed::<Pod>()
            .patch_status(pod, &params, &Patch::Merge(&patch))
            .await;
        set.unwrap_or_else(|error| panic!("phase {phase} of pod {pod}: {error}"))
    }

    /// Keeps an object from vanishing when it is deleted, until [`World::let_go`].
    pub(crate) async fn keep<K>(&self, name: &str)
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api = self.typed::<K>();
        // Controllers write finalizers, too.
        wait::until(&format!("{name} to be kept"), wait::LIMIT, async || {
            let object = api.get(name).await.map_err(|error| error.to_string())?;
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push("test.captf.io/keep".to_owned());
            let version = object.resource_version();
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let kept = api
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            kept.map(|_| ()).map_err(|error| error.to_string())
        })
        .await;
    }

    /// Takes every finalizer off an object that may be gone already.
    pub(crate) async fn let_go<K>(&self, name: &str)
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let patch = json!({"metadata": {"finalizers": null}});
        let params = PatchParams::default();
        match self
            .typed::<K>()
            .patch(name, &params, &Patch::Merge(&patch))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => {
                result.unwrap_or_else(|error| panic!("let {name} go: {error}"));
            }
        }
    }

    /// Deletes a Job and waits until it is gone; what belongs to it is treated as `dependents` says.
    pub(crate) async fn delete_job(&self, name: &str, dependents: PropagationPolicy) {
        let params = DeleteParams {
            propagation_policy: Some(dependents),
            ..DeleteParams::default()
        };
        let api = self.typed::<Job>();
        api.delete(name, &params)
            .await
            .unwrap_or_else(|error| panic!("delete Job {name}: {error}"));
        wait::until(
            &format!("Job {name} to be gone"),
            wait::LIMIT,
            async || match api.get_opt(name).await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(job) => Err(format!("finalizers {:?}", job.finalizers())),
            },
        )
        .await;
    }

    /// Terraform's state of a TerraformCluster, as its backend writes it: the object is not new, and an apply is due
    /// since nothing says what the state was made from.
    pub(crate) async fn state_by_hand(&self, name: &str) -> Secret {
        let state = br#"{"version":4,"serial":3,"lineage":"l","outputs":{},"resources":[]}"#;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(state).unwrap();
        let payload = ByteString(encoder.finish().unwrap());
        let suffix = suffix(&self.namespace, "TerraformCluster", name);
        self.make::<Secret>(&from_json(json!({
            "metadata": {
                "name": format!("tfstate-default-{suffix}"),
                "labels": {
                    "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
                    "captf.infrastructure.cluster.x-k8s.io/owner-name": name,
                    "captf.io/managed": "true",
                    "cluster.x-k8s.io/cluster-name": name,
                    "clusterctl.cluster.x-k8s.io/move": "",
                    "tfstate": "true",
                    "tfstateSecretSuffix": suffix,
                    "tfstateWorkspace": "default",
                    "app.kubernetes.io/managed-by": "terraform",
                },
            },
            "type": "Opaque",
            "data": {"tfstate": payload},
        })))
        .await
    }

    /// A quota of Jobs, in force when this returns.
    pub(crate) async fn limit_jobs(&self, most: u32) {
        self.make::<ResourceQuota>(&from_json(json!({
            "metadata": {"name": "jobs"},
            "spec": {"hard": {"count/jobs.batch": most.to_string()}},
        })))
        .await;
        let api = self.typed::<ResourceQuota>();
        wait::until("the quota to be counted", wait::LIMIT, async || {
            let quota = api.get("jobs").await.map_err(|error| error.to_string())?;
            let hard = quota.status.and_then(|status| status.hard);
            hard.filter(|hard| hard.contains_key("count/jobs.batch"))
                .map(|_| ())
                .ok_or_else(|| "no status".to_owned())
        })
        .await;
        if most > 0 {
            return;
        }
        let probe: Job = from_json(json!({
            "metadata": {"name": "probe"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example.com/c:v1"}],
            }}},
        }));
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        wait::until(
            "the quota to refuse a Job",
            wait::LIMIT,
            async || match self.typed::<Job>().create(&dry, &probe).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
        .await;
    }

    /// Changes the inputs of a TerraformCluster.
    pub(crate) async fn change_inputs(&self, name: &str, size: i64) {
        let patch = json!({"spec": {"variables": {"size": size}}});
        self.patch("TerraformCluster", name, patch).await;
    }
}

/// How long a clock is moved.
pub(crate) const fn duration(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the test's own objects are well-formed")
}
