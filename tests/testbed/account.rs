//! Acting as somebody else: above all as the manager, whose rights are those of its roles and no others.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::bed::Bed;
use super::repository;

/// The ServiceAccount of the Deployment in `operator/manifests`.
pub(crate) const MANAGER: &str = "system:serviceaccount:captf-system:captf-controller-manager";

/// Where the roles of `operator/manifests` are installed, and the kubeconfig of the manager's account.
#[derive(Debug, Default)]
pub(super) struct Account(OnceLock<PathBuf>);

impl Bed {
    /// The administrator's kubeconfig, acting as `user`.
    pub(crate) fn kubeconfig_as(&self, user: &str) -> Kubeconfig {
        let mut kubeconfig =
            Kubeconfig::read_from(self.kubeconfig()).expect("the bed wrote its kubeconfig");
        for entry in &mut kubeconfig.auth_infos {
            entry.auth_info.get_or_insert_default().impersonate = Some(user.to_owned());
        }
        kubeconfig
    }

    /// The administrator's configuration, acting as `user`.
    pub(crate) async fn config_as(&self, user: &str) -> kube::Config {
        // Another test may have installed it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = KubeConfigOptions::default();
        kube::Config::from_custom_kubeconfig(self.kubeconfig_as(user), &options)
            .await
            .expect("the bed's kubeconfig is complete")
    }

    /// The configuration of the manager: its account, under the roles of `operator/manifests`.
    pub(crate) async fn manager_config(&self) -> kube::Config {
        self.manager_kubeconfig();
        self.config_as(MANAGER).await
    }

    /// The kubeconfig of the manager: its account, under the roles of `operator/manifests`.
    pub(crate) fn manager_kubeconfig(&self) -> &Path {
        self.account().0.get_or_init(|| {
            self.install_roles();
            let path = self.ready().dir.join("manager.kubeconfig");
            let kubeconfig = serde_json::to_vec(&self.kubeconfig_as(MANAGER)).unwrap();
            std::fs::write(&path, kubeconfig).unwrap();
            path
        })
    }

    fn install_roles(&self) {
        let manifests = repository().join("operator/manifests");
        let mut apply = self.kubectl();
        apply.args(["apply", "--server-side", "--force-conflicts"]);
        for file in ["namespace.yaml", "rbac"] {
            apply.arg("-f").arg(manifests.join(file));
        }
        let output = apply.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
