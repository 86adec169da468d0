//! `kubectl captf version`: what this program is and speaks.

use clap::Args;
use serde::Serialize;

use super::args::{GlobalArgs, OutputArg};
use super::error::Error;
use super::exit::Exit;
use super::output::{self, Format};
use super::report::API_VERSION;

/// API version of the operator's kinds that this program speaks.
const KINDS: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

/// Kubernetes release whose API types this program was built with.
const KUBERNETES: &str = "1.37";

/// Cluster API contract of the provider.
const CONTRACT: &str = "v1beta2";

/// Arguments of `version`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionArgs {
    /// Print the client's version only, without asking a cluster (the default: nothing is asked)
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    client: bool,

    #[command(flatten)]
    output: OutputArg,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionReport {
    api_version: &'static str,
    kind: &'static str,
    client_version: &'static str,
    platform: String,
    kubernetes_api: &'static str,
    kinds: &'static str,
    contract: &'static str,
}

/// Prints the version. Builds no client.
///
/// # Errors
///
/// Output that cannot be written, and `-o name`, which has nothing to name.
pub(crate) fn run(args: &VersionArgs, _global: GlobalArgs) -> Result<Exit, Error> {
    let report = VersionReport {
        api_version: API_VERSION,
        kind: "VersionReport",
        client_version: env!("CARGO_PKG_VERSION"),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        kubernetes_api: KUBERNETES,
        kinds: KINDS,
        contract: CONTRACT,
    };
    let text = match args.output.output {
        Format::Json => output::json(&report)?,
        Format::Yaml => output::yaml(&report)?,
        Format::Name => {
            return Err(Error::usage("version names no objects", "use -o json"));
        }
        Format::Table => format!("kubectl captf {}\n", report.client_version),
        Format::Wide => format!(
            "kubectl captf {}\nplatform        {}\nkinds           {}\nKubernetes API  {}\nCAPI contract   {}\n",
            report.client_version,
            report.platform,
            report.kinds,
            report.kubernetes_api,
            report.contract
        ),
    };
    output::print(&text)?;
    Ok(Exit::Done)
}
