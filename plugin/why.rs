//! `kubectl captf why OBJECT`: why it waits, what happens next, and what to do (cli.md §7).

use std::sync::Arc;

use clap::Args;
use serde::Deserialize;

use super::args::OutputArg;
use super::diagnose::diagnose;
use super::diagnose::gather::gather;
use super::diagnose::render::{self, Style};
use super::diagnose::report::{Verdict, WhyReport, WhyReportList};
use super::error::Error;
use super::exit::Exit;
use super::object::{KindName, Reference, resource_of};
use super::output::{self, Format};
use super::read::wire::{JOB_NAME, Meta, MetaItem};
use super::read::{ApiServer, Form, Query, Request, Resource, list};
use super::report::Unknown;
use super::session::{Scope, Session};
use super::settings::Settings;
use crate::api::capi::Cluster;
use crate::names::{Kind, key, label_value};

/// Arguments of `why`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WhyArgs {
    /// Objects: KIND/NAME, KIND NAME, or NAME alone
    #[arg(value_name = "OBJECT", required = true)]
    objects: Vec<String>,

    #[command(flatten)]
    output: OutputArg,

    /// Exit with 3 when an object waits, and with 4 when a person must act
    #[arg(long)]
    exit_code: bool,
}

/// Explains objects.
///
/// # Errors
///
/// An object that does not exist or cannot be read, and everything that keeps the plugin from the
/// cluster. Anything else that cannot be read only makes the answer partial.
pub(crate) async fn run(args: &WhyArgs, settings: Settings) -> Result<Exit, Error> {
    let wanted = parse(&args.objects)?;
    let session = Session::open(settings, false).await?;
    let Scope::Namespace(namespace) = session.scope.clone() else {
        return Err(Error::Internal("why looks in one namespace".into()));
    };
    let mut names = Vec::new();
    // What is wrong with one object says nothing about the others (cli.md §4).
    let mut refused = Vec::new();
    for object in &wanted {
        match resolve(&session.server, &namespace, object).await {
            Ok(name) if names.contains(&name) => {}
            Ok(name) => names.push(name),
            Err(error) if error.is_of_one_object() => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    let mut reports = Vec::new();
    let mut unknowns = Vec::new();
    for name in &names {
        match explain(&session, &namespace, name).await {
            Ok((report, missing)) => {
                reports.push(report);
                unknowns.extend(missing);
            }
            Err(error) if error.is_of_one_object() => refused.push(error),
            Err(error) => return Err(error),
        }
    }
    if reports.is_empty()
        && refused.len() == 1
        && let Some(error) = refused.pop()
    {
        return Err(error);
    }
    let exit = args.exit(&reports, &unknowns);
    if !reports.is_empty() {
        let alone = names.len() == 1 && refused.is_empty();
        output::print(&print(reports, args.output.output, alone, &session)?)?;
    }
    let exit = refused.iter().fold(exit, |exit, error| {
        output::complain(error);
        exit.max(error.exit())
    });
    session.finish(&unknowns)?;
    Ok(exit)
}

/// Prints the reports in the format asked for; `alone`: one object was asked for, so there is no list.
fn print(
    mut reports: Vec<WhyReport>,
    format: Format,
    alone: bool,
    session: &Session,
) -> Result<String, Error> {
    let style = Style {
        colour: session.settings.colour,
        ascii: session.settings.ascii,
        width: session.settings.width,
        time: session.settings.time,
    };
    match format {
        Format::Table | Format::Wide => {
            let texts: Vec<String> = reports
                .iter()
                .map(|report| render::text(report, style))
                .collect();
            Ok(texts.join("\n"))
        }
        Format::Name => Ok(reports.iter().map(render::name).collect()),
        Format::Json | Format::Yaml => {
            let only = if alone { reports.pop() } else { None };
            match (only, format) {
                (Some(report), Format::Json) => output::json(&report),
                (Some(report), _) => output::yaml(&report),
                (None, Format::Json) => output::json(&WhyReportList::new(reports)),
                (None, _) => output::yaml(&WhyReportList::new(reports)),
            }
        }
    }
}

async fn explain(
    session: &Session,
    namespace: &str,
    name: &str,
) -> Result<(WhyReport, Vec<Unknown>), Error> {
    let server = &session.server;
    match Box::pin(gather(server, namespace, name)).await? {
        Some((facts, unknowns)) => {
            let metadata = session.metadata(facts.now, unknowns.clone());
            Ok((diagnose(&facts, metadata), unknowns))
        }
        None => Err(not_found(server, namespace, name).await),
    }
}

impl WhyArgs {
    /// The highest code of all objects (cli.md §7.7). An unknown verdict is no answer, with or
    /// without the flag: 6 when a permission is missing, else 1.
    fn exit(&self, reports: &[WhyReport], unknowns: &[Unknown]) -> Exit {
        let forbidden = unknowns.iter().any(|unknown| unknown.code == "Forbidden");
        let code = |report: &WhyReport| match report.verdict {
            Verdict::Unknown if forbidden => Exit::NotAllowed,
            Verdict::Unknown => Exit::Failed,
            _ if !self.exit_code => Exit::Done,
            Verdict::Idle | Verdict::Running => Exit::Done,
            Verdict::Waiting | Verdict::BackingOff | Verdict::Paused | Verdict::Unreconciled => {
                Exit::Waiting
            }
            Verdict::NeedsAction | Verdict::DeletionHeld => Exit::NeedsPerson,
        };
        reports.iter().map(code).max().unwrap_or(Exit::Done)
    }
}

/// An object as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    /// With its kind.
    Kind(Reference),
    /// By its name alone.
    Alone(String),
}

/// `KIND/NAME ...`, `KIND NAME`, or `NAME`.
fn parse(words: &[String]) -> Result<Vec<Named>, Error> {
    if let [kind, name] = words
        && !kind.contains('/')
        && !name.contains('/')
        && let Ok(kind) = kind.parse::<KindName>()
    {
        return Ok(vec![Named::Kind(Reference::new(kind, name.as_str()))]);
    }
    words
        .iter()
        .map(|word| {
            if word.contains('/') {
                let reference = word.parse().map_err(|message| Error::Usage {
                    message,
                    hint: None,
                })?;
                Ok(Named::Kind(reference))
            } else {
                Ok(Named::Alone(word.clone()))
            }
        })
        .collect()
}

/// The name of the TerraformCluster that is meant.
async fn resolve(
    server: &Arc<ApiServer>,
    namespace: &str,
    object: &Named,
) -> Result<String, Error> {
    match object {
        Named::Alone(name) => Ok(name.clone()),
        Named::Kind(reference) => match reference.kind {
            KindName::Workload(Kind::TerraformCluster) => Ok(reference.name.clone()),
            KindName::Workload(kind) => Err(Error::usage(
                format!("why explains TerraformClusters, not {}s", kind.as_str()),
                "kubectl captf why terraformcluster/NAME",
            )),
            KindName::Cluster => of_cluster(server, namespace, &reference.name).await,
            KindName::Lease => of_owner(server, namespace, Resource::LEASES, &reference.name).await,
            KindName::Pod => of_pod(server, namespace, &reference.name).await,
            KindName::Job => of_owner(server, namespace, Resource::JOBS, &reference.name).await,
        },
    }
}

/// The TerraformCluster of a Cluster's `infrastructureRef`.
async fn of_cluster(server: &ApiServer, namespace: &str, name: &str) -> Result<String, Error> {
    let cluster: Option<Cluster> = server
        .get(Resource::CLUSTERS, Some(namespace), name)
        .await?;
    let Some(cluster) = cluster else {
        return Err(Error::NotFound {
            kind: "cluster".into(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            hint: Some(format!(
                "kubectl get clusters.cluster.x-k8s.io -n {namespace}"
            )),
        });
    };
    match cluster.spec.infrastructure_ref {
        Some(reference) if reference.kind == Kind::TerraformCluster.as_str() => Ok(reference.name),
        Some(reference) => Err(Error::NotOurs {
            message: format!(
                "cluster {name} uses {}, not TerraformCluster",
                reference.kind
            ),
        }),
        None => Err(Error::NotOurs {
            message: format!("cluster {name} names no infrastructure yet"),
        }),
    }
}

/// The TerraformCluster in the owner labels of a lease or Job.
async fn of_owner(
    server: &Arc<ApiServer>,
    namespace: &str,
    resource: Resource,
    name: &str,
) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Owned {
        #[serde(default)]
        metadata: Meta,
    }
    let Some(object) = server.get::<Owned>(resource, Some(namespace), name).await? else {
        return Err(Error::NotFound {
            kind: resource.singular.into(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            hint: Some(format!("kubectl captf leases -n {namespace}")),
        });
    };
    let (kind, owner) = (
        object.metadata.label(key::OWNER_KIND),
        object.metadata.label(key::OWNER_NAME),
    );
    if kind != Kind::TerraformCluster.as_str() || owner.is_empty() {
        let whose = if kind.is_empty() {
            "to no object of CAPTF".to_owned()
        } else {
            format!("to {kind} {owner}")
        };
        return Err(Error::NotOurs {
            message: format!(
                "{} {name} belongs {whose}, not to a TerraformCluster",
                resource.singular
            ),
        });
    }
    named_by_label(server, namespace, owner).await
}

/// The TerraformCluster whose Job made this pod.
async fn of_pod(server: &Arc<ApiServer>, namespace: &str, name: &str) -> Result<String, Error> {
    let pod: Option<MetaItem> = server.get(Resource::PODS, Some(namespace), name).await?;
    let Some(pod) = pod else {
        return Err(Error::NotFound {
            kind: "pod".into(),
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            hint: Some(format!("kubectl get pods -n {namespace}")),
        });
    };
    match pod.metadata.label(JOB_NAME) {
        "" => Err(Error::NotOurs {
            message: format!("pod {name} belongs to no Job"),
        }),
        job => of_owner(server, namespace, Resource::JOBS, job).await,
    }
}

/// The object with this label value: the name itself, or the long name that it is the hash of.
async fn named_by_label(
    server: &Arc<ApiServer>,
    namespace: &str,
    value: &str,
) -> Result<String, Error> {
    if !super::evaluate::is_hash(value) {
        return Ok(value.to_owned());
    }
    let request = Request::list(resource_of(Kind::TerraformCluster), Some(namespace));
    let objects: Vec<MetaItem> =
        list(server, &request, &Query::labelled(""), Form::Metadata).await?;
    let mut names = objects.into_iter().map(|object| object.metadata.name);
    Ok(names
        .find(|name| label_value(name) == value)
        .unwrap_or_else(|| value.to_owned()))
}

/// The object does not exist here; perhaps it does elsewhere.
async fn not_found(server: &Arc<ApiServer>, namespace: &str, name: &str) -> Error {
    let resource = resource_of(Kind::TerraformCluster);
    let request = Request::list(resource, None);
    let query = Query {
        fields: format!("metadata.name={name}"),
        ..Query::labelled("")
    };
    let elsewhere: Result<Vec<MetaItem>, Error> =
        list(server, &request, &query, Form::Metadata).await;
    let hint = match elsewhere.ok().and_then(|found| found.into_iter().next()) {
        Some(found) => format!(
            "it exists in another namespace: -n {}",
            found.metadata.namespace
        ),
        None => format!("kubectl get {} -n {namespace}", resource.plural),
    };
    Error::NotFound {
        kind: resource.singular.into(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        hint: Some(hint),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Kind, KindName, Named, Reference, parse};

    fn words(words: &[&str]) -> Vec<Named> {
        parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn an_object_is_named_in_three_ways() {
        let cluster = Named::Kind(Reference::new(
            KindName::Workload(Kind::TerraformCluster),
            "demo",
        ));
        assert_eq!(words(&["tfc/demo"]), std::slice::from_ref(&cluster));
        assert_eq!(words(&["terraformcluster", "demo"]), [cluster]);
        assert_eq!(words(&["demo"]), [Named::Alone("demo".into())]);
    }

    #[test]
    fn two_words_that_are_no_kind_are_two_names() {
        assert_eq!(words(&["demo", "prod"]).len(), 2);
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        assert!(parse(&["deployment/x".to_owned()]).is_err());
    }
}
