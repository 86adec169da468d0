//! What the watches hold, and whom changes wake.

use std::sync::Arc;
use std::time::Duration;

use captf::client::{Clock, connect};
use captf::names::{Kind, ObjectKey, Op};
use captf::operator::cache::{Caches, Wake};
use captf::operator::metrics::{BuildInfo, Metrics};
use captf::operator::queue::{Outcome, WorkQueue};
use captf::operator::settings::WatchScope;
use captf::operator::watch;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::testbed::{Bed, ControlPlane, World, jobs, wait};

/// Caches of the test's namespace and the queue they fill.
struct Watched {
    caches: Arc<Caches>,
    queue: WorkQueue<ObjectKey>,
    world: World,
    _watches: JoinSet<()>,
}

impl Watched {
    async fn new(bed: &Bed, filter: Option<&str>) -> Self {
        let world = World::new(bed).await;
        let clock = Clock::system();
        let client = connect(&watch::client_config(bed.manager_config().await), &clock).unwrap();
        let metrics = Metrics::new(BuildInfo {
            version: "test",
            commit: "test",
        });
        let queue = WorkQueue::new(metrics.queue("test"));
        let scope = WatchScope {
            namespace: Some(world.namespace.clone()),
            filter: filter.map(str::to_owned),
        };
        let caches = Caches::new(scope);
        let wake: Arc<dyn Wake> = Arc::new(queue.clone());
        let watches = caches.watch(&client, &wake);
        caches.synced().await;
        Self {
            caches,
            queue,
            world,
            _watches: watches,
        }
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(Kind::TerraformCluster, self.world.namespace.clone(), name)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType: Default>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    /// Waits until the object is woken; what else was woken is finished.
    async fn woken(&self, name: &str) {
        let key = self.key(name);
        let mut others = Vec::new();
        wait::until(&format!("{name} to be woken"), wait::LIMIT, async || {
            let item = self.queue.next().await.expect("the queue is open");
            let found = *item.key() == key;
            if !found {
                others.push(item.key().name.clone());
            }
            item.finish(Outcome::Done);
            wait::so(found, || format!("woken so far: {others:?}"))
        })
        .await;
    }

    /// Finishes everything that is woken now.
    async fn quiet(&self) -> Vec<String> {
        let mut woken = Vec::new();
        while let Ok(Some(item)) = timeout(Duration::from_millis(300), self.queue.next()).await {
            woken.push(item.key().name.clone());
            item.finish(Outcome::Done);
        }
        woken
    }

    /// A TerraformCluster that was seen, with nothing left to wake it.
    async fn with_cluster(bed: &Bed) -> Self {
        let watched = Self::new(bed, None).await;
        watched.world.cluster("prod").create().await;
        watched.woken("prod").await;
        watched.quiet().await;
        watched
    }

    async fn uid(&self, name: &str) -> String {
        self.world
            .get("TerraformCluster", name)
            .await
            .metadata
            .uid
            .unwrap()
    }

    /// A Job of the TerraformCluster `prod` as the operator makes them.
    async fn create_job(&self, name: &str) {
        let owner = self.uid("prod").await;
        let labels = json!({
            "captf.io/managed": "true",
            "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
            "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod",
            "captf.infrastructure.cluster.x-k8s.io/op": "apply",
            "captf.infrastructure.cluster.x-k8s.io/attempt": "1",
            "cluster.x-k8s.io/cluster-name": "prod"
        });
        self.create::<Job>(json!({
            "metadata": {
                "name": name, "labels": labels, "annotations": {"captf.io/inputs-hash": "h2:1", "other": "x"},
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "name": "prod", "uid": owner, "controller": true
                }]
            },
            "spec": {
                "backoffLimit": 0, "activeDeadlineSeconds": 3600,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "initContainers": [{"name": "runner", "image": "registry.example.com/captf:v1"}],
                        "containers": [{"name": "source", "image": "registry.example.com/module:v1"}]
                    }
                }
            }
        }))
        .await;
    }
}

#[tokio::test]
async fn an_object_wakes_itself_and_is_held_without_managed_fields() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    let held = watched
        .caches
        .terraform_cluster(&watched.world.namespace, "prod")
        .unwrap();
    assert_eq!(held.metadata.uid, Some(watched.uid("prod").await));
    assert_eq!(held.metadata.managed_fields, None);
    assert!(
        watched
            .caches
            .cluster(&watched.world.namespace, "prod")
            .is_some()
    );
}

#[tokio::test]
async fn a_job_wakes_its_controller_and_is_counted_until_it_finishes() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    watched.create_job("captf-c-prod-apply-a1-abcdef").await;
    watched.woken("prod").await;
    let (caches, namespace) = (&watched.caches, &watched.world.namespace);
    let held = caches.jobs_of(&watched.key("prod"));
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].op, held[0].attempt), (Some(Op::Apply), Some(1)));
    assert!(held[0].is_controlled_by(&watched.uid("prod").await));
    assert_eq!(
        held[0].annotations.keys().collect::<Vec<_>>(),
        ["captf.io/inputs-hash"]
    );
    assert_eq!(
        (
            caches.unfinished_jobs(),
            caches.unfinished_jobs_of_cluster(namespace, "prod")
        ),
        (1, 1)
    );

    let result = json!({"version": 1, "steps": []});
    jobs::finish(
        &watched.world.client,
        namespace,
        "captf-c-prod-apply-a1-abcdef",
        jobs::Ending::success(&result),
    )
    .await;
    wait::until("the Job to be seen finished", wait::LIMIT, async || {
        wait::so(caches.unfinished_jobs() == 0, || {
            format!("{:?}", caches.jobs_of(&watched.key("prod")))
        })
    })
    .await;
    watched.woken("prod").await;
}

// README, decision 12
#[tokio::test]
async fn the_result_of_a_deleted_pod_is_remembered() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    let (client, namespace) = (&watched.world.client, &watched.world.namespace);
    let name = "captf-c-prod-apply-a1-abcdef";
    watched.create_job(name).await;
    let result = json!({"version": 1, "steps": [{"name": "apply", "exit": 0}]});
    let job = jobs::finish(client, namespace, name, jobs::Ending::success(&result)).await;
    let uid = job.metadata.uid.unwrap();
    let pod = jobs::pod_of(client, namespace, name)
        .await
        .metadata
        .name
        .unwrap();
    let now = DeleteParams::default().grace_period(0);
    // The finalizer of Job tracking goes on its own; the delete may have to be repeated until it has.
    wait::until("the pod to be gone", wait::LIMIT, async || {
        match watched.api::<Pod>().delete(&pod, &now).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let seen = wait::until("the pod to be remembered", wait::LIMIT, async || {
        let seen = watched
            .caches
            .last_seen_pod(&uid)
            .ok_or("no pod of the Job was seen")?;
        wait::so(seen.phase.is_terminal(), || format!("{seen:?}"))?;
        Ok(seen)
    })
    .await;
    assert_eq!(
        seen.source.termination_message(),
        Some(result.to_string().as_str())
    );
    assert!(
        watched
            .caches
            .last_seen_pod_named(namespace, &pod)
            .is_some()
    );
    let mark = json!({"metadata": {"annotations": {"captf.io/bookkept": "true"}}});
    watched
        .api::<Job>()
        .patch(name, &PatchParams::default(), &Patch::Merge(&mark))
        .await
        .unwrap();
    wait::until(
        "the result to be dropped and the end kept",
        wait::LIMIT,
        async || {
            let seen = watched
                .caches
                .last_seen_pod(&uid)
                .ok_or("the pod was forgotten")?;
            wait::so(seen.source.termination_message() == Some(""), || {
                format!("{seen:?}")
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_managed_secret_wakes_its_owner_and_its_data_is_not_held() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    let owner = watched.uid("prod").await;
    watched
        .create::<Secret>(json!({
            "metadata": {
                "name": "state", "labels": {"captf.io/managed": "true"},
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "name": "prod", "uid": owner
                }]
            },
            "stringData": {"tfstate": "secret"}
        }))
        .await;
    watched.woken("prod").await;
}

#[tokio::test]
async fn a_secret_of_somebody_else_wakes_nobody() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    watched
        .create::<Secret>(json!({"metadata": {"name": "plain"}}))
        .await;
    assert_eq!(watched.quiet().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_variables_source_wakes_who_names_it() {
    let bed = ControlPlane::shared().await;
    let watched = Watched::new(bed, None).await;
    let spec = json!({"variablesFrom": [{"configMapRef": {"name": "vars"}}]});
    watched.world.cluster("reads").spec(spec).create().await;
    watched.world.cluster("ignores").create().await;
    watched.woken("reads").await;
    watched.woken("ignores").await;
    watched.quiet().await;
    let source = json!({"metadata": {"name": "vars", "labels": {"captf.io/variables": "true"}}, "data": {"a": "1"}});
    watched.create::<ConfigMap>(source).await;
    watched.woken("reads").await;
    watched
        .api::<ConfigMap>()
        .patch(
            "vars",
            &PatchParams::default(),
            &Patch::Merge(json!({"data": {"a": "2"}})),
        )
        .await
        .unwrap();
    watched.woken("reads").await;
    assert!(!watched.quiet().await.contains(&"ignores".to_owned()));
}

#[tokio::test]
async fn a_change_of_the_cluster_that_inputs_read_wakes_its_infrastructure() {
    let watched = Watched::with_cluster(ControlPlane::shared().await).await;
    watched
        .world
        .patch("Cluster", "prod", json!({"spec": {"paused": true}}))
        .await;
    watched.woken("prod").await;
    watched
        .world
        .patch_status(
            "Cluster",
            "prod",
            json!({"initialization": {"controlPlaneInitialized": true}}),
        )
        .await;
    watched.woken("prod").await;
    watched.quiet().await;
    watched
        .world
        .patch(
            "Cluster",
            "prod",
            json!({"metadata": {"annotations": {"x": "y"}}}),
        )
        .await;
    assert_eq!(watched.quiet().await, Vec::<String>::new());
}

// manager.md §16 B13
#[tokio::test]
async fn an_object_of_another_manager_is_never_woken() {
    let watched = Watched::new(ControlPlane::shared().await, Some("blue")).await;
    watched.world.cluster("prod").create().await;
    watched.create_job("captf-c-prod-apply-a1-abcdef").await;
    assert_eq!(watched.quiet().await, Vec::<String>::new());
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
    watched.world.patch("TerraformCluster", "prod", label).await;
    watched.woken("prod").await;
}
