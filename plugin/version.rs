//! `kubectl captf version`: what this program is and speaks, and the manager's version where it can
//! be read.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::args::OutputArg;
use super::error::Error;
use super::exit::Exit;
use super::output::{self, Format};
use super::read::Resource;
use super::read::wire::Meta;
use super::report::API_VERSION;
use super::session::Session;
use super::settings::Settings;
use crate::api::{GROUP, VERSION};

/// Kubernetes release whose API types this program was built with.
const KUBERNETES: &str = "1.37";
/// Release of the client library, as in Cargo.lock.
const KUBE: &str = "5.0.0";
/// Release of the API types, as in Cargo.lock.
const K8S_OPENAPI: &str = "0.29.0";
/// Cluster API contract of the provider.
const CONTRACT: &str = "v1beta2";
/// The manager's Deployment in its usual place.
const MANAGER: (&str, &str) = ("captf-system", "captf-controller-manager");

/// Arguments of `version`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionArgs {
    /// Print this program's version only, without asking a cluster
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    pub(crate) client: bool,

    #[command(flatten)]
    output: OutputArg,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionReport {
    api_version: &'static str,
    kind: &'static str,
    client_version: &'static str,
    /// Absent when the build was not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    git_commit: Option<&'static str>,
    platform: String,
    kubernetes_api: &'static str,
    kube_version: &'static str,
    k8s_openapi_version: &'static str,
    output_schema: &'static str,
    kinds: String,
    contract: &'static str,
    /// Absent when nobody asked, `null` when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    manager_version: Option<Option<String>>,
}

/// Prints this program's version. Builds no client and no runtime.
///
/// # Errors
///
/// Output that cannot be written, and `-o name`, which has nothing to name.
pub(crate) fn client(args: &VersionArgs) -> Result<Exit, Error> {
    print(args, None)
}

/// Prints this program's version and the manager's. A cluster that cannot be asked is no error: the
/// client's version is known without it.
///
/// # Errors
///
/// As [`client`].
pub(crate) async fn run(args: &VersionArgs, settings: Settings) -> Result<Exit, Error> {
    let manager = match manager_version(settings).await {
        Ok(version) => version,
        Err(error) => {
            output::note(&format!(
                "note: the manager's version is not known: {error}"
            ));
            None
        }
    };
    let ours = minor(env!("CARGO_PKG_VERSION"));
    if let Some(theirs) = manager.as_deref().filter(|theirs| minor(theirs) != ours) {
        output::note(&format!(
            "warning: the manager is {theirs}, this program {}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    print(args, Some(manager))
}

fn print(args: &VersionArgs, manager_version: Option<Option<String>>) -> Result<Exit, Error> {
    let report = VersionReport {
        api_version: API_VERSION,
        kind: "VersionReport",
        client_version: env!("CARGO_PKG_VERSION"),
        git_commit: crate::COMMIT,
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        kubernetes_api: KUBERNETES,
        kube_version: KUBE,
        k8s_openapi_version: K8S_OPENAPI,
        output_schema: API_VERSION,
        kinds: format!("{GROUP}/{VERSION}"),
        contract: CONTRACT,
        manager_version,
    };
    let text = match args.output.output {
        Format::Json => output::json(&report)?,
        Format::Yaml => output::yaml(&report)?,
        Format::Name => return Err(Error::usage("version names no objects", "use -o json")),
        Format::Table => short(&report),
        Format::Wide => {
            let VersionReport {
                platform,
                kinds,
                kubernetes_api,
                contract,
                output_schema,
                ..
            } = &report;
            let commit = report.git_commit.unwrap_or("unknown");
            format!(
                "{}commit          {commit}\nplatform        {platform}\nkinds           {kinds}\n\
                 output schema   {output_schema}\nKubernetes API  {kubernetes_api}\nCAPI contract   {contract}\n\
                 libraries       kube {KUBE}, k8s-openapi {K8S_OPENAPI}\n",
                short(&report)
            )
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn short(report: &VersionReport) -> String {
    let client = format!("client          {}\n", report.client_version);
    match &report.manager_version {
        None => client,
        Some(version) => {
            format!(
                "{client}manager         {}\n",
                version.as_deref().unwrap_or("unknown")
            )
        }
    }
}

/// The version in the Deployment's label, else in its image's tag.
async fn manager_version(settings: Settings) -> Result<Option<String>, Error> {
    let session = Session::open(settings, false).await?;
    let (namespace, name) = MANAGER;
    let found: Option<Deployment> = session
        .server
        .get(Resource::DEPLOYMENTS, Some(namespace), name)
        .await?;
    Ok(found.and_then(|deployment| deployment.version()))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Deployment {
    metadata: Meta,
    spec: DeploymentSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DeploymentSpec {
    template: Template,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    image: String,
}

impl Deployment {
    fn version(&self) -> Option<String> {
        let label = self.metadata.label("app.kubernetes.io/version");
        let image = self
            .spec
            .template
            .spec
            .containers
            .first()
            .map_or("", |container| &container.image);
        let tag = image.rsplit_once(':').map_or("", |(_, tag)| tag);
        [label, tag]
            .into_iter()
            .map(|version| version.trim_start_matches('v'))
            .find(|version| minor(version).is_some())
            .map(str::to_owned)
    }
}

/// Major and minor of a version; a tag that is a hash or a word has none.
fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Deployment, K8S_OPENAPI, KUBE, minor};

    fn deployment(label: &str, image: &str) -> Deployment {
        serde_json::from_value(serde_json::json!({
            "metadata": {"labels": {"app.kubernetes.io/version": label}},
            "spec": {"template": {"spec": {"containers": [{"image": image}]}}}
        }))
        .unwrap()
    }

    #[test]
    fn the_managers_version_is_its_label_or_its_tag() {
        assert_eq!(
            deployment("v1.2.3", "r/captf:dev").version().as_deref(),
            Some("1.2.3")
        );
        assert_eq!(
            deployment("", "localhost:5000/captf:v0.1.0")
                .version()
                .as_deref(),
            Some("0.1.0")
        );
        for tag in ["latest", "38d1b97535a8", "7"] {
            let image = format!("r/captf:{tag}");
            assert_eq!(deployment("", &image).version(), None, "{tag}");
        }
    }

    #[test]
    fn the_libraries_are_those_that_are_locked() {
        let lock = include_str!("../Cargo.lock");
        for (name, version) in [("kube", KUBE), ("k8s-openapi", K8S_OPENAPI)] {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{name} {version}");
        }
    }

    #[test]
    fn versions_are_compared_by_minor() {
        assert_eq!(minor("1.2.3"), minor("1.2.9"));
        assert_ne!(minor("1.2.3"), minor("1.3.0"));
    }
}
