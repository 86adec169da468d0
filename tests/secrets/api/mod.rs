//! The same functions on a real API server, under exactly the rights of the shipped manager.

mod cleanup;
mod mirror;
mod per_run;
mod records;
mod runner;
mod state;

use std::time::Duration;

use captf::client::{Access, Clock};
use captf::inputs::Rendered;
use captf::names::{InputsHash, Kind, ObjectKey};
use captf::operator::credentials::Identity;
use captf::operator::secrets::{Owner, Provenance, RunInputs};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::core::ResourceExt as _;
use serde_json::Value;

use crate::testbed::{ControlPlane, World};

/// A namespace, and the manager's hands in it.
struct Scene {
    world: World,
    manager: Access,
}

impl Scene {
    async fn new() -> Self {
        let bed = ControlPlane::shared().await;
        let manager = access(bed.manager_config().await);
        Self {
            world: World::new(bed).await,
            manager,
        }
    }

    /// A TerraformCluster of this name, as the owner of Secrets.
    async fn owner(&self, name: &str) -> Owner {
        let object = self.world.cluster(name).create().await;
        let key = ObjectKey::new(Kind::TerraformCluster, &self.world.namespace, name);
        Owner::new(key, object.uid().unwrap())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    async fn create_secret(&self, secret: Value) -> Secret {
        let secret: Secret = serde_json::from_value(secret).unwrap();
        self.secrets()
            .create(&PostParams::default(), &secret)
            .await
            .unwrap()
    }

    async fn secret(&self, name: &str) -> Option<Secret> {
        self.secrets().get_opt(name).await.unwrap()
    }
}

fn access(config: kube::Config) -> Access {
    let client = kube::Client::try_from(config).unwrap();
    Access::new(client, Clock::system(), Duration::from_secs(20))
}

fn inputs(hash: &str) -> RunInputs {
    RunInputs {
        files: Rendered {
            main: "{}\n".into(),
            tfvars: "[]\n".into(),
        },
        provenance: Provenance {
            image: "registry.example.com/module:v1".into(),
            identity: Some(Identity::Cluster("aws".into())),
            inputs_hash: InputsHash::new(hash),
        },
    }
}

fn data(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8(bytes.0.clone()).unwrap())
}
