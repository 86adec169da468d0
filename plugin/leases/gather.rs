//! Reads leases with the evidence that decides about them, in few requests (cli.md §20).
//!
//! Few holders in one namespace cost one get each. Beyond that, and for all namespaces, one table
//! of Jobs per namespace says which of them have finished, asked for as soon as a page of leases
//! names the namespace. The pods come as one list of those that are alive.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::holders::{Tables, holder_jobs};
use super::owners::{Owners, single_owners};
use super::{LeaseType, LeasesArgs};
use crate::names::{ObjectKey, cluster_write_lease, key, label_value};
use crate::plugin::error::Error;
use crate::plugin::evaluate::{Fact, LeaseFacts, LivePod};
use crate::plugin::object::KindName;
use crate::plugin::output;
use crate::plugin::read::wire::{JOB_NAME, LeaseItem, Meta, MetaItem};
use crate::plugin::read::{ApiServer, Form, Listed, Query, Request, Resource, each_page, list};
use crate::plugin::report::{Unknown, Waiter};
use crate::plugin::session::{Scope, Session};

/// Namespace and name.
pub(super) type Named = (String, String);

/// What was found.
pub(super) struct Found {
    /// Leases with their evidence; the waiters were looked for only where asked.
    pub(super) leases: Vec<(LeaseFacts, Option<Vec<Waiter>>)>,
    /// What could not be read.
    pub(super) unknowns: Vec<Unknown>,
    /// The first of the named leases that does not exist.
    pub(super) missing: Option<Error>,
}

/// Reads the leases that the arguments select, and what decides about each.
pub(super) async fn leases(
    session: &Session,
    args: &LeasesArgs,
    detailed: bool,
) -> Result<Found, Error> {
    let server = &session.server;
    let mut unknowns = Vec::new();
    let pods = tokio::spawn(live_pods(Arc::clone(server), session.scope.clone()));
    let mut tables = Tables::new(Arc::clone(server));
    let mut facts = Vec::new();
    let missing = select(session, args, |page: &[LeaseItem]| {
        if session.scope == Scope::All {
            page.iter()
                .for_each(|lease| tables.ask(&lease.metadata.namespace));
        }
        facts.extend(page.iter().map(LeaseFacts::unread));
    })
    .await?;

    let jobs = holder_jobs(server, &facts, tables, &mut unknowns).await;
    let pods = match pods
        .await
        .map_err(|error| Error::Internal(error.to_string()))?
    {
        Ok(pods) => Ok(pods),
        Err(error) => {
            let unknown = Unknown::new(&error, "leases of a finished or missing Job are Unknown");
            let message = unknown.message.clone();
            unknowns.push(unknown);
            Err(message)
        }
    };
    for lease in facts
        .iter_mut()
        .filter(|lease| !lease.view.holder.is_empty())
    {
        let holder = (lease.view.namespace.clone(), lease.view.holder.clone());
        lease.pods = match &pods {
            Ok(pods) => Fact::Found(pods.get(&holder).cloned().unwrap_or_default()),
            Err(error) => Fact::Unreadable(error.clone()),
        };
        lease.job = jobs.get(&holder).cloned().unwrap_or(Fact::NotRead);
    }

    let leases = if detailed {
        let owners = Owners::list(session, &mut unknowns).await;
        owners.attach(facts, server.now())
    } else {
        single_owners(server, &mut facts, &mut unknowns).await;
        facts.into_iter().map(|lease| (lease, None)).collect()
    };
    Ok(Found {
        leases,
        unknowns,
        missing,
    })
}

/// Hands on the leases by name, by owner, or by label, page by page: an item is larger than what is
/// kept of it. Answers with the first named lease that does not exist.
async fn select(
    session: &Session,
    args: &LeasesArgs,
    mut each: impl FnMut(&[LeaseItem]),
) -> Result<Option<Error>, Error> {
    let server = &session.server;
    if let (false, Some(namespace)) = (args.names.is_empty(), session.scope.namespace()) {
        let (found, missing) = by_name(server, namespace, &args.names).await?;
        each(&found);
        return Ok(missing);
    }
    let mut labels = vec![match args.scope {
        Some(scope) => format!("{}={}", key::LEASE, scope.as_str()),
        None => key::LEASE.to_owned(),
    }];
    if let Some(owner) = &args.owner {
        labels.extend(owner_selector(owner.kind, &owner.name)?);
    }
    if !args.list.selector.is_empty() {
        labels.push(args.list.selector.clone());
    }
    let query = Query {
        labels: labels.join(","),
        fields: args.list.field_selector.clone(),
        limit: args.list.chunk_size,
        ..Query::default()
    };
    let request = Request::list(Resource::LEASES, session.scope.namespace());
    let listed = each_page(
        server,
        &request,
        &query,
        Form::Objects,
        |page: Vec<LeaseItem>| each(&page),
    )
    .await;
    match listed {
        // Whoever may get but not list still gets an answer: the names can be computed.
        Err(Error::Forbidden { request }) => match computed(session, args).await? {
            Some(found) => {
                each(&found);
                Ok(None)
            }
            None => Err(Error::Forbidden { request }),
        },
        Err(error) => Err(error),
        Ok(listed) => {
            if listed == Listed::Restarted {
                output::note(
                    "warning: the list was restarted because it took longer than the server keeps history",
                );
            }
            Ok(None)
        }
    }
}

fn owner_selector(kind: KindName, name: &str) -> Result<Vec<String>, Error> {
    let value = label_value(name);
    match kind {
        KindName::Workload(kind) => Ok(vec![
            format!("{}={}", key::OWNER_KIND, kind.as_str()),
            format!("{}={value}", key::OWNER_NAME),
        ]),
        KindName::Cluster => Ok(vec![format!("{}={value}", key::CLUSTER_NAME)]),
        KindName::Job | KindName::Pod | KindName::Lease => Err(Error::usage(
            format!("a {} has no leases of its own", kind.singular()),
            "--for terraformcluster/NAME or --for cluster/NAME",
        )),
    }
}

/// The leases of the object in `--for` by their names, which follow from its name: the run lease, and
/// the cluster's write lease while the object holds it (cli.md §14).
async fn computed(session: &Session, args: &LeasesArgs) -> Result<Option<Vec<LeaseItem>>, Error> {
    let (Some(namespace), Some(owner)) = (session.scope.namespace(), &args.owner) else {
        return Ok(None);
    };
    let server = &session.server;
    let mut found = Vec::new();
    let cluster = match owner.kind {
        KindName::Workload(kind) => {
            let key = ObjectKey::new(kind, namespace, owner.name.as_str());
            let run = [key.suffix().run_lease()];
            found = by_name(server, namespace, &run).await?.0;
            // A cluster is mostly named like its infrastructure; the lease knows better.
            let cluster = found
                .first()
                .map(|lease| lease.metadata.label(key::CLUSTER_NAME));
            cluster.unwrap_or(owner.name.as_str()).to_owned()
        }
        KindName::Cluster => owner.name.clone(),
        KindName::Job | KindName::Pod | KindName::Lease => return Ok(None),
    };
    if let Some(name) = cluster_write_lease(namespace, &cluster) {
        let (leases, _) = by_name(server, namespace, &[name]).await?;
        let held_by_owner = |lease: &LeaseItem| match owner.kind {
            KindName::Workload(kind) => {
                lease.metadata.label(key::OWNER_KIND) == kind.as_str()
                    && lease.metadata.label(key::OWNER_NAME) == label_value(&owner.name)
            }
            _ => true,
        };
        found.extend(leases.into_iter().filter(held_by_owner));
    }
    let scope = args.scope.map(LeaseType::as_str);
    found.retain(|lease| scope.is_none_or(|scope| lease.metadata.label(key::LEASE) == scope));
    Ok(Some(found))
}

async fn by_name(
    server: &Arc<ApiServer>,
    namespace: &str,
    names: &[String],
) -> Result<(Vec<LeaseItem>, Option<Error>), Error> {
    let mut items = Vec::new();
    let mut missing = None;
    let distinct: BTreeSet<&String> = names.iter().collect();
    for name in distinct {
        let lease: Option<LeaseItem> = server.get(Resource::LEASES, Some(namespace), name).await?;
        // A state lock is a Lease with the same owner; it is none of these two (cli.md B15).
        match lease.filter(|lease| !lease.metadata.label(key::LEASE).is_empty()) {
            Some(lease) => items.push(lease),
            None => {
                missing.get_or_insert(Error::NotFound {
                    kind: "lease".into(),
                    name: name.clone(),
                    namespace: Some(namespace.to_owned()),
                    hint: Some(format!("kubectl captf leases -n {namespace}")),
                });
            }
        }
    }
    Ok((items, missing))
}

/// The live pods of Jobs by namespace and Job.
async fn live_pods(
    server: Arc<ApiServer>,
    scope: Scope,
) -> Result<HashMap<Named, Vec<LivePod>>, Error> {
    let request = Request::list(Resource::PODS, scope.namespace());
    let query = Query {
        fields: "status.phase!=Succeeded,status.phase!=Failed".into(),
        ..Query::labelled(JOB_NAME)
    };
    let pods: Vec<MetaItem> = list(&server, &request, &query, Form::Metadata).await?;
    let mut by_job: HashMap<Named, Vec<LivePod>> = HashMap::new();
    for MetaItem { metadata } in pods {
        let job = (
            metadata.namespace.clone(),
            metadata.label(JOB_NAME).to_owned(),
        );
        by_job.entry(job).or_default().push(live_pod(metadata));
    }
    Ok(by_job)
}

/// A pod's deletion time includes its grace: it is when the pod must be gone.
pub(crate) fn live_pod(metadata: Meta) -> LivePod {
    LivePod {
        created: metadata.creation_timestamp.unwrap_or_default(),
        stops: metadata.deletion_timestamp,
        name: metadata.name,
    }
}
