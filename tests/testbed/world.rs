//! The scene of one test: a namespace of its own, and the objects that a user and Cluster API would have made in it.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::bed::Bed;
use super::skip::test_name;
use super::wait::{LIMIT, until};

/// Where the manager is installed and identities keep their Secrets.
pub(crate) const MANAGER_NAMESPACE: &str = "captf-system";

/// The image that clusters name unless a test says otherwise; on level 1 nobody pulls it.
pub(crate) const IMAGE: &str = "registry.example.com/noop-cluster:v1";

const FIELD_MANAGER: &str = "testbed";

/// A fresh namespace on a bed, with an identity that it may use.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    /// Name of the `TerraformClusterIdentity` and of its Secret in `captf-system`.
    pub(crate) identity: String,
    /// Cluster API's controllers set owner references and labels; without them the builders do it in their place.
    played_cluster_api: bool,
}

impl World {
    /// Makes the namespace, the identity's Secret and the identity.
    pub(crate) async fn new(bed: &Bed) -> Self {
        let world = Self::bare(bed).await;
        world
            .create_identity(json!({"list": [world.namespace]}))
            .await;
        world
    }

    /// Only the namespace.
    pub(crate) async fn bare(bed: &Bed) -> Self {
        let client = bed.client().await;
        let namespace = fresh_name();
        create_namespace(&client, &namespace).await;
        let played_cluster_api = !bed.has_cluster_api_controllers();
        Self {
            client,
            identity: namespace.clone(),
            namespace,
            played_cluster_api,
        }
    }

    /// The same scene through another client, for example one with faults.
    pub(crate) fn through(&self, client: kube::Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// The identity and its Secret; `allowed` is `spec.allowedNamespaces`.
    pub(crate) async fn create_identity(&self, allowed: Value) {
        create_namespace(&self.client, MANAGER_NAMESPACE).await;
        let secret: Secret = from_json(json!({
            "metadata": {"name": self.identity, "namespace": MANAGER_NAMESPACE},
            "stringData": {"NOOP_TOKEN": "not-a-real-token"},
        }));
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), MANAGER_NAMESPACE);
        secrets
            .create(&PostParams::default(), &secret)
            .await
            .unwrap_or_else(|error| panic!("Secret: {error}"));
        self.create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "TerraformClusterIdentity",
            "metadata": {"name": self.identity},
            "spec": {
                "secretRef": {"name": self.identity, "namespace": MANAGER_NAMESPACE},
                "allowedNamespaces": allowed,
            },
        }))
        .await;
    }

    /// A Cluster and its TerraformCluster, both of this name.
    pub(crate) fn cluster<'a>(&'a self, name: &'a str) -> ClusterBuilder<'a> {
        ClusterBuilder {
            world: self,
            name,
            cluster_spec: json!({}),
            spec: json!({}),
            owned: true,
        }
    }

    /// Creates an object of a kind that [`resource`] knows, in this namespace if the kind has namespaces.
    pub(crate) async fn create(&self, object: Value) -> DynamicObject {
        let object: DynamicObject = from_json(object);
        let kind = object
            .types
            .as_ref()
            .map_or("", |types| types.kind.as_str())
            .to_owned();
        let name = object.metadata.name.clone().unwrap_or_default();
        self.api(&kind)
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("create {kind} {name}: {error}"))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> DynamicObject {
        self.api(kind)
            .get(name)
            .await
            .unwrap_or_else(|error| panic!("get {kind} {name}: {error}"))
    }

    /// A merge patch of an object.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> DynamicObject {
        self.api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap_or_else(|error| panic!("patch {kind} {name}: {error}"))
    }

    /// A merge patch of an object's status.
    pub(crate) async fn patch_status(
        &self,
        kind: &str,
        name: &str,
        status: Value,
    ) -> DynamicObject {
        let patch = json!({"status": status});
        self.api(kind)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap_or_else(|error| panic!("patch the status of {kind} {name}: {error}"))
    }

    /// Waits until an object's condition has this status, and returns its reason.
    pub(crate) async fn condition(
        &self,
        kind: &str,
        name: &str,
        condition: &str,
        status: &str,
    ) -> String {
        let api = self.api(kind);
        until(
            &format!("{kind} {name} to be {condition}={status}"),
            LIMIT,
            async || {
                let object = api.get(name).await.map_err(|error| error.to_string())?;
                let conditions = object.data["status"]["conditions"].clone();
                let found = conditions
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|item| item["type"] == condition);
                match found {
                    Some(item) if item["status"] == status => {
                        Ok(item["reason"].as_str().unwrap_or("").to_owned())
                    }
                    _ => Err(format!("conditions {conditions}")),
                }
            },
        )
        .await
    }

    /// The objects of a kind: of this namespace, or of the whole bed for kinds without namespaces.
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (resource, namespaced) = resource(kind);
        if namespaced {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

/// The REST resource of a kind, and whether it has namespaces.
pub(crate) fn resource(kind: &str) -> (ApiResource, bool) {
    let (group, version, plural, namespaced) = match kind {
        "Cluster" => ("cluster.x-k8s.io", "v1beta2", "clusters", true),
        "Machine" => ("cluster.x-k8s.io", "v1beta2", "machines", true),
        "MachinePool" => ("cluster.x-k8s.io", "v1beta2", "machinepools", true),
        "TerraformCluster" => (INFRASTRUCTURE, "v1alpha1", "terraformclusters", true),
        "TerraformMachine" => (INFRASTRUCTURE, "v1alpha1", "terraformmachines", true),
        "TerraformMachinePool" => (INFRASTRUCTURE, "v1alpha1", "terraformmachinepools", true),
        "TerraformPlan" => (INFRASTRUCTURE, "v1alpha1", "terraformplans", true),
        "TerraformClusterIdentity" => (
            INFRASTRUCTURE,
            "v1alpha1",
            "terraformclusteridentities",
            false,
        ),
        "Job" => ("batch", "v1", "jobs", true),
        "Lease" => ("coordination.k8s.io", "v1", "leases", true),
        "Secret" => ("", "v1", "secrets", true),
        "ConfigMap" => ("", "v1", "configmaps", true),
        "Pod" => ("", "v1", "pods", true),
        _ => panic!("the test bed does not know the kind {kind}"),
    };
    let kind = GroupVersionKind::gvk(group, version, kind);
    (ApiResource::from_gvk_with_plural(&kind, plural), namespaced)
}

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Builds a Cluster with its TerraformCluster.
#[must_use = "nothing exists before create()"]
pub(crate) struct ClusterBuilder<'a> {
    world: &'a World,
    name: &'a str,
    cluster_spec: Value,
    spec: Value,
    owned: bool,
}

impl ClusterBuilder<'_> {
    /// Fields of the TerraformCluster's spec, laid over the default ones.
    pub(crate) fn spec(mut self, spec: Value) -> Self {
        merge(&mut self.spec, spec);
        self
    }

    /// Fields of the Cluster's spec, laid over the default ones.
    pub(crate) fn cluster_spec(mut self, spec: Value) -> Self {
        merge(&mut self.cluster_spec, spec);
        self
    }

    pub(crate) fn image(self, image: &str) -> Self {
        self.spec(json!({"source": {"image": image}}))
    }

    pub(crate) fn paused(self) -> Self {
        self.cluster_spec(json!({"paused": true}))
    }

    /// No owner reference and no label: as before Cluster API has seen the object.
    pub(crate) fn not_owned(mut self) -> Self {
        self.owned = false;
        self
    }

    /// Creates both and returns the TerraformCluster.
    pub(crate) async fn create(self) -> DynamicObject {
        let world = self.world;
        let mut cluster_spec = json!({
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "TerraformCluster", "name": self.name},
        });
        merge(&mut cluster_spec, self.cluster_spec);
        let cluster = world
            .create(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "metadata": {"name": self.name, "namespace": world.namespace},
                "spec": cluster_spec,
            }))
            .await;
        let mut spec = json!({
            "source": {"image": IMAGE},
            "identityRef": {"kind": "TerraformClusterIdentity", "name": world.identity},
        });
        merge(&mut spec, self.spec);
        let mut metadata = json!({"name": self.name, "namespace": world.namespace});
        if self.owned && world.played_cluster_api {
            metadata["labels"] = json!({"cluster.x-k8s.io/cluster-name": self.name});
            // As Cluster API sets it: not a controller reference.
            metadata["ownerReferences"] = json!([{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "name": self.name, "uid": cluster.metadata.uid,
            }]);
        }
        world
            .create(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                "metadata": metadata, "spec": spec,
            }))
            .await
    }
}

/// Lays `over` over `base`, objects field by field.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the test bed's own objects are well-formed")
}

async fn create_namespace(client: &kube::Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    // An apply, because many tests make the manager's namespace at the same time.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    namespaces
        .patch(
            name,
            &PatchParams::apply(FIELD_MANAGER),
            &Patch::Apply(&namespace),
        )
        .await
        .unwrap_or_else(|error| panic!("namespace {name}: {error}"));
}

/// The end of the test's name and a number: readable in logs, unique within the process.
fn fresh_name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let test = test_name()
        .rsplit("::")
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let test: String = test
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    format!("t-{}-{number}", test.trim_matches('-'))
}
