//! What the API server holds, read by a test, under the names that the specification gives.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::core::{NamespaceResourceScope, Resource, ResourceExt as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::testbed::World;

/// A condition as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Status and reason, as `False/ApplyFailed`.
    pub(crate) state: String,
    pub(crate) message: String,
    /// Its `lastTransitionTime`.
    pub(crate) since: String,
}

/// naming.md §2 and §3: the first 16 hexadecimal digits of the SHA-256.
fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// naming.md §2, for the kinds that the tests name.
pub(crate) fn suffix(namespace: &str, kind: &str, name: &str) -> String {
    let short = match kind {
        "TerraformCluster" => "c",
        "TerraformMachine" => "m",
        "TerraformMachinePool" => "mp",
        _ => panic!("{kind} has no state"),
    };
    format!(
        "{}-{short}",
        short_hash(&format!("{namespace}/{kind}/{name}"))
    )
}

/// What a lease says about its taking.
pub(crate) fn acquired_at(lease: &Lease) -> Timestamp {
    lease.annotations()["captf.io/lease-acquired-at"]
        .parse()
        .unwrap()
}

pub(crate) fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref().unwrap();
    spec.holder_identity.as_deref().unwrap_or_default()
}

impl World {
    pub(crate) fn typed<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Name of the run lease of a TerraformCluster.
    pub(crate) fn run_lease(&self, name: &str) -> String {
        format!(
            "captf-run-{}",
            suffix(&self.namespace, "TerraformCluster", name)
        )
    }

    /// Name of the write lease of a Cluster.
    pub(crate) fn cluster_lease(&self, name: &str) -> String {
        format!(
            "captf-cluster-{}",
            short_hash(&format!("{}/{name}", self.namespace))
        )
    }

    pub(crate) async fn lease(&self, name: &str) -> Option<Lease> {
        self.typed::<Lease>().get_opt(name).await.unwrap()
    }

    /// Who holds a lease; `None` when it does not exist.
    pub(crate) async fn holder_of(&self, lease: &str) -> Option<String> {
        self.lease(lease)
            .await
            .map(|lease| holder(&lease).to_owned())
    }

    /// Names of the run and cluster leases.
    pub(crate) async fn lease_names(&self) -> Vec<String> {
        let ours = ListParams::default().labels("captf.io/lease");
        let found = self.typed::<Lease>().list(&ours).await.unwrap();
        found.items.iter().map(|lease| lease.name_any()).collect()
    }

    /// The Jobs of a TerraformCluster.
    pub(crate) async fn jobs_of(&self, name: &str) -> Vec<Job> {
        let of_object = ListParams::default().labels(&format!(
            "captf.infrastructure.cluster.x-k8s.io/owner-kind=TerraformCluster,\
             captf.infrastructure.cluster.x-k8s.io/owner-name={name}"
        ));
        self.typed::<Job>().list(&of_object).await.unwrap().items
    }

    /// The one Job of a TerraformCluster.
    pub(crate) async fn only_job(&self, name: &str) -> Job {
        let mut found = self.jobs_of(name).await;
        let names: Vec<String> = found.iter().map(|job| job.name_any()).collect();
        assert_eq!(names.len(), 1, "one Job, found {names:?}");
        found.remove(0)
    }

    /// The per-run Secrets.
    pub(crate) async fn run_secrets(&self) -> Vec<Secret> {
        let found = self.typed::<Secret>().list(&ListParams::default()).await;
        let is_run = |secret: &Secret| secret.name_any().starts_with("captf-run-");
        found.unwrap().items.into_iter().filter(is_run).collect()
    }

    /// The one per-run Secret, which must be this Job's own and name it.
    pub(crate) async fn secret_of(&self, job: &Job) -> Secret {
        let mut found = self.run_secrets().await;
        let names: Vec<String> = found.iter().map(|secret| secret.name_any()).collect();
        assert_eq!(names, [format!("captf-run-{}", job.name_any())]);
        let secret = found.remove(0);
        let uid = job.uid().unwrap();
        let owners: Vec<&str> = secret
            .owner_references()
            .iter()
            .map(|owner| owner.uid.as_str())
            .collect();
        assert_eq!(
            owners,
            [uid.as_str()],
            "the Job is the one owner of its Secret"
        );
        let named = &secret.data.as_ref().unwrap()[".job-uid"];
        assert_eq!(named.0, uid.as_bytes(), "the Secret names its Job");
        secret
    }

    /// The record of the inputs that the newest apply was given.
    pub(crate) async fn attempt_record(&self, name: &str) -> Option<Secret> {
        let record = format!("captf-inputs-c-{name}");
        self.typed::<Secret>().get_opt(&record).await.unwrap()
    }

    /// The record of the inputs that the newest successful apply was given.
    pub(crate) async fn applied_record(&self, name: &str) -> Option<Secret> {
        let record = format!("captf-applied-c-{name}");
        self.typed::<Secret>().get_opt(&record).await.unwrap()
    }

    pub(crate) async fn pods_of(&self, job: &str) -> Vec<Pod> {
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
        self.typed::<Pod>().list(&of_job).await.unwrap().items
    }

    /// A condition of a TerraformCluster as it is now.
    pub(crate) async fn told(&self, name: &str, condition: &str) -> Told {
        let object = self.get("TerraformCluster", name).await;
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        let text =
            |condition: &Value, key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        conditions
            .iter()
            .flatten()
            .find(|item| item["type"] == condition)
            .map(|item| Told {
                state: format!("{}/{}", text(item, "status"), text(item, "reason")),
                message: text(item, "message"),
                since: text(item, "lastTransitionTime"),
            })
            .unwrap_or_else(|| panic!("no condition {condition} in {conditions:?}"))
    }

    /// `status.activeJob.name` of a TerraformCluster.
    pub(crate) async fn active_job(&self, name: &str) -> Option<String> {
        let object = self.get("TerraformCluster", name).await;
        object.data["status"]["activeJob"]["name"]
            .as_str()
            .map(str::to_owned)
    }

    /// Whether `clusterctl move` is held up for a TerraformCluster.
    pub(crate) async fn blocks_move(&self, name: &str) -> bool {
        let object = self.get("TerraformCluster", name).await;
        object
            .annotations()
            .contains_key("clusterctl.cluster.x-k8s.io/block-move")
    }
}
