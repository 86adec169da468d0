//! Reads leases with the evidence that decides about them, in few requests (cli.md §20).
//!
//! Few holders in one namespace cost one get each. Beyond that, and for all namespaces, one table
//! of Jobs per namespace says which of them have finished, asked for as soon as a page of leases
//! names the namespace. The pods come as one list of those that are alive.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::LeasesArgs;
use crate::names::{Kind, LeaseScope, ObjectKey, Op, cluster_write_lease, key, label_value};
use crate::plugin::error::Error;
use crate::plugin::evaluate::{
    Fact, HolderFacts, LeaseFacts, LivePod, OwnerFacts, State, evaluate, waiting_operation,
};
use crate::plugin::object::{KindName, resource_of};
use crate::plugin::output;
use crate::plugin::read::wire::{Condition, JOB_NAME, JobItem, LeaseItem, Meta, MetaItem};
use crate::plugin::read::{
    ApiServer, Form, Keyed, Listed, PAGE, Query, Request, Resource, TableError, each_page,
    job_rows, list,
};
use crate::plugin::report::{Unknown, Waiter};
use crate::plugin::session::{Scope, Session};

/// Up to this many holders in one namespace are read one by one.
const SINGLE_READS: usize = 32;
/// Requests of one sort in flight.
const IN_FLIGHT: usize = 6;
/// From this many holders without a row on, one table without selector confirms them.
const CONFIRMED_BY_TABLE: usize = 20;
/// Beyond this many namespaces one list of Jobs costs less than a table of each.
const TABLES: usize = 200;

/// Namespace and name.
type Named = (String, String);

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
    let (items, missing) = select(session, args, |page: &[LeaseItem]| {
        if session.scope == Scope::All {
            page.iter()
                .for_each(|lease| tables.ask(&lease.metadata.namespace));
        }
    })
    .await?;

    let mut facts: Vec<LeaseFacts> = items.iter().map(LeaseFacts::unread).collect();
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

/// The leases by name, by owner, or by label.
async fn select(
    session: &Session,
    args: &LeasesArgs,
    mut page_seen: impl FnMut(&[LeaseItem]),
) -> Result<(Vec<LeaseItem>, Option<Error>), Error> {
    let server = &session.server;
    if let (false, Some(namespace)) = (args.names.is_empty(), session.scope.namespace()) {
        return by_name(server, namespace, &args.names).await;
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
    let mut items = Vec::new();
    let listed = each_page(
        server,
        &request,
        &query,
        Form::Objects,
        |page: Vec<LeaseItem>| {
            page_seen(&page);
            items.extend(page);
        },
    );
    match (listed.await, computed_names(session, args)) {
        // Whoever may get but not list still gets an answer: the names can be computed.
        (Err(Error::Forbidden { .. }), Some((namespace, names))) => {
            let (found, _) = by_name(server, &namespace, &names).await?;
            Ok((found, None))
        }
        (Err(error), _) => Err(error),
        (Ok(listed), _) => {
            if listed == Listed::Restarted {
                output::note(
                    "warning: the list was restarted because it took longer than the server keeps history",
                );
            }
            Ok((items, None))
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
        KindName::Job | KindName::Lease => Err(Error::usage(
            format!("a {} has no leases of its own", kind.singular()),
            "--for terraformcluster/NAME or --for cluster/NAME",
        )),
    }
}

/// The names of the leases of the object in `--for`, where they follow from its name.
fn computed_names(session: &Session, args: &LeasesArgs) -> Option<(String, Vec<String>)> {
    let namespace = session.scope.namespace()?.to_owned();
    let owner = args.owner.as_ref()?;
    let name = match owner.kind {
        KindName::Workload(kind) => ObjectKey::new(kind, namespace.as_str(), owner.name.as_str())
            .suffix()
            .run_lease(),
        KindName::Cluster => cluster_write_lease(&namespace, &owner.name)?,
        KindName::Job | KindName::Lease => return None,
    };
    Some((namespace, vec![name]))
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

/// The Jobs of one namespace by name.
type Answered = Result<HashMap<String, HolderFacts>, TableError>;

/// Tables of Jobs on their way, one per namespace.
struct Tables {
    server: Arc<ApiServer>,
    slots: Arc<Semaphore>,
    asked: BTreeSet<String>,
    running: JoinSet<(String, Answered)>,
}

impl Tables {
    fn new(server: Arc<ApiServer>) -> Self {
        Self {
            server,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            asked: BTreeSet::new(),
            running: JoinSet::new(),
        }
    }

    /// Asks for the table of a namespace, once.
    fn ask(&mut self, namespace: &str) {
        if self.asked.contains(namespace) || !self.asked.insert(namespace.to_owned()) {
            return;
        }
        if self.asked.len() > TABLES {
            return;
        }
        let (server, slots) = (Arc::clone(&self.server), Arc::clone(&self.slots));
        let namespace = namespace.to_owned();
        self.running.spawn(async move {
            // The semaphore is never closed.
            let _slot = slots.acquire_owned().await;
            let rows = job_rows(&server, &namespace, true).await;
            let jobs = rows.map(|rows| {
                rows.into_iter()
                    .map(|(name, row)| (name, row.into()))
                    .collect()
            });
            (namespace, jobs)
        });
    }
}

/// The Job of every holder.
async fn holder_jobs(
    server: &Arc<ApiServer>,
    leases: &[LeaseFacts],
    mut tables: Tables,
    unknowns: &mut Vec<Unknown>,
) -> HashMap<Named, Fact<HolderFacts>> {
    let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for view in leases
        .iter()
        .map(|lease| &lease.view)
        .filter(|view| !view.holder.is_empty())
    {
        wanted
            .entry(&view.namespace)
            .or_default()
            .insert(&view.holder);
    }
    let holders = wanted.values().map(BTreeSet::len).sum::<usize>();
    if tables.asked.is_empty() && holders <= SINGLE_READS {
        let each = wanted
            .iter()
            .flat_map(|(namespace, names)| names.iter().map(|name| (*namespace, *name)));
        return read_each(server, each, unknowns).await;
    }
    if wanted.len() > TABLES {
        return list_jobs(server, &wanted, unknowns).await;
    }
    wanted.keys().for_each(|namespace| tables.ask(namespace));

    let mut jobs = HashMap::new();
    while let Some(done) = tables.running.join_next().await {
        let Ok((namespace, table)) = done else {
            continue;
        };
        let Some(names) = wanted.get(namespace.as_str()) else {
            continue;
        };
        match table {
            Ok(table) => {
                let mut absent = Vec::new();
                for name in names {
                    match table.get(*name) {
                        Some(job) => {
                            let holder = (namespace.clone(), (*name).to_owned());
                            jobs.insert(holder, Fact::Found(job.clone()));
                        }
                        None => absent.push(name),
                    }
                }
                jobs.extend(confirm(server, &namespace, &absent, unknowns).await);
            }
            Err(TableError::Unfamiliar) => {
                return list_jobs(server, &wanted, unknowns).await;
            }
            Err(TableError::Failed(error)) => {
                let unknown =
                    Unknown::new(&error, "the state of leases held by its Jobs is Unknown");
                for name in names {
                    let fact = Fact::Unreadable(unknown.message.clone());
                    jobs.insert((namespace.clone(), (*name).to_owned()), fact);
                }
                unknowns.push(unknown);
            }
        }
    }
    jobs
}

/// Holders without a row: a Job that lost its label still counts for the operator.
async fn confirm(
    server: &Arc<ApiServer>,
    namespace: &str,
    names: &[&&str],
    unknowns: &mut Vec<Unknown>,
) -> HashMap<Named, Fact<HolderFacts>> {
    if names.len() >= CONFIRMED_BY_TABLE
        && let Ok(mut rows) = job_rows(server, namespace, false).await
    {
        return names
            .iter()
            .map(|name| {
                let fact = rows
                    .remove(**name)
                    .map_or(Fact::Absent, |row| Fact::Found(row.into()));
                ((namespace.to_owned(), (**name).to_owned()), fact)
            })
            .collect();
    }
    read_each(
        server,
        names.iter().map(|name| (namespace, **name)),
        unknowns,
    )
    .await
}

async fn read_each<'a>(
    server: &Arc<ApiServer>,
    names: impl Iterator<Item = (&'a str, &'a str)>,
    unknowns: &mut Vec<Unknown>,
) -> HashMap<Named, Fact<HolderFacts>> {
    let answers = stream::iter(names)
        .map(|(namespace, name)| async move {
            let job: Result<Option<JobItem>, Error> =
                server.get(Resource::JOBS, Some(namespace), name).await;
            ((namespace.to_owned(), name.to_owned()), job)
        })
        .buffer_unordered(IN_FLIGHT)
        .collect::<Vec<_>>()
        .await;
    let mut jobs = HashMap::new();
    for (holder, answer) in answers {
        let fact = match answer {
            Ok(Some(job)) => Fact::Found(HolderFacts::from(&job)),
            Ok(None) => Fact::Absent,
            Err(error) => {
                let unknown = Unknown::new(&error, "its lease is Unknown");
                let message = unknown.message.clone();
                unknowns.push(unknown);
                Fact::Unreadable(message)
            }
        };
        jobs.insert(holder, fact);
    }
    // The answers came in any order.
    unknowns.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    jobs
}

/// The Jobs themselves, without their pod templates.
async fn list_jobs(
    server: &Arc<ApiServer>,
    wanted: &BTreeMap<&str, BTreeSet<&str>>,
    unknowns: &mut Vec<Unknown>,
) -> HashMap<Named, Fact<HolderFacts>> {
    let request = Request::list(Resource::JOBS, None);
    let query = Query::labelled(format!("{}=true", key::MANAGED));
    let mut jobs: HashMap<Named, Fact<HolderFacts>> = HashMap::new();
    let listed = each_page(
        server,
        &request,
        &query,
        Form::Objects,
        |page: Vec<JobItem>| {
            for job in page {
                let held = wanted
                    .get(job.metadata.namespace.as_str())
                    .is_some_and(|names| names.contains(job.metadata.name.as_str()));
                if held {
                    let facts = HolderFacts::from(&job);
                    jobs.insert(
                        (job.metadata.namespace, job.metadata.name),
                        Fact::Found(facts),
                    );
                }
            }
        },
    );
    let failed = listed
        .await
        .err()
        .map(|error| Unknown::new(&error, "the state of leases held by Jobs is Unknown"));
    for (namespace, names) in wanted {
        let absent: Vec<_> = names
            .iter()
            .filter(|name| !jobs.contains_key(&((*namespace).to_owned(), (**name).to_owned())))
            .collect();
        match &failed {
            None => jobs.extend(confirm(server, namespace, &absent, unknowns).await),
            Some(unknown) => jobs.extend(absent.iter().map(|name| {
                let holder = ((*namespace).to_owned(), (**name).to_string());
                (holder, Fact::Unreadable(unknown.message.clone()))
            })),
        }
    }
    unknowns.extend(failed);
    jobs
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

/// An object with conditions.
#[derive(Clone, Debug, Deserialize)]
struct Conditioned {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    status: Conditions,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Conditions {
    #[serde(default)]
    conditions: Vec<Condition>,
}

impl Keyed for Conditioned {
    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

impl From<Conditioned> for OwnerFacts {
    fn from(object: Conditioned) -> Self {
        Self {
            name: object.metadata.name,
            conditions: object.status.conditions,
        }
    }
}

/// Reads the owners of leases whose holder is within its grace: only there do they matter.
async fn single_owners(
    server: &Arc<ApiServer>,
    leases: &mut [LeaseFacts],
    unknowns: &mut Vec<Unknown>,
) {
    let now = server.now();
    let undecided: Vec<usize> = (0..leases.len())
        .filter(|index| evaluate(&leases[*index], now).state == State::Starting)
        .collect();
    let owners = stream::iter(undecided)
        .map(|index| {
            let view = &leases[index].view;
            let (namespace, name) = (view.namespace.clone(), view.owner_name.clone());
            let kind = view.owner_kind.parse::<Kind>();
            async move {
                let Ok(kind) = kind else {
                    return (index, Ok(None));
                };
                (
                    index,
                    server
                        .get::<Conditioned>(resource_of(kind), Some(&namespace), &name)
                        .await,
                )
            }
        })
        .buffer_unordered(IN_FLIGHT)
        .collect::<Vec<_>>()
        .await;
    for (index, answer) in owners {
        leases[index].owner = match answer {
            Ok(Some(owner)) => Fact::Found(owner.into()),
            Ok(None) | Err(Error::NotServed { .. }) => Fact::Absent,
            Err(error) => {
                let unknown = Unknown::new(&error, "leases within their grace show as Starting");
                let message = unknown.message.clone();
                unknowns.push(unknown);
                Fact::Unreadable(message)
            }
        };
    }
}

/// Objects and their clusters, by namespace and the name in their leases' labels.
type Objects = HashMap<Named, (OwnerFacts, String)>;

/// Every workload object of the scope, for names, existence and waits.
struct Owners {
    kinds: BTreeMap<&'static str, Result<Objects, String>>,
}

impl Owners {
    async fn list(session: &Session, unknowns: &mut Vec<Unknown>) -> Self {
        let answers = futures::future::join_all(Kind::ALL.map(|kind| async move {
            let request = Request::list(resource_of(kind), session.scope.namespace());
            let query = Query {
                limit: PAGE,
                ..Query::default()
            };
            let objects =
                list::<Conditioned>(&session.server, &request, &query, Form::Objects).await;
            (kind, objects)
        }))
        .await;
        let mut kinds = BTreeMap::new();
        for (kind, answer) in answers {
            let objects = match answer {
                Ok(objects) => Ok(objects.into_iter().map(labelled).collect()),
                // A kind that is not served has no objects.
                Err(Error::NotServed { .. }) => Ok(HashMap::new()),
                Err(error) => {
                    let unknown =
                        Unknown::new(&error, "owners and waiters of leases are not shown");
                    let message = unknown.message.clone();
                    unknowns.push(unknown);
                    Err(message)
                }
            };
            kinds.insert(kind.as_str(), objects);
        }
        Self { kinds }
    }

    fn owner(&self, lease: &LeaseFacts) -> Fact<OwnerFacts> {
        match self.kinds.get(lease.view.owner_kind.as_str()) {
            None => Fact::Absent,
            Some(Err(error)) => Fact::Unreadable(error.clone()),
            Some(Ok(objects)) => {
                let named = (lease.view.namespace.clone(), lease.view.owner_name.clone());
                objects
                    .get(&named)
                    .map_or(Fact::Absent, |(owner, _)| Fact::Found(owner.clone()))
            }
        }
    }

    /// Gives every lease its owner and its waiters.
    fn attach(
        &self,
        mut leases: Vec<LeaseFacts>,
        now: Timestamp,
    ) -> Vec<(LeaseFacts, Option<Vec<Waiter>>)> {
        for lease in &mut leases {
            lease.owner = self.owner(lease);
        }
        let waits = self.waits(&leases, now);
        leases
            .into_iter()
            .map(|lease| {
                let named = (lease.view.namespace.clone(), lease.view.name.clone());
                let mut waiters = waits.get(&named).cloned().unwrap_or_default();
                waiters.sort();
                (lease, Some(waiters))
            })
            .collect()
    }

    /// Who waits for which lease (cli.md §6): by its name, by its cluster, or by its holder.
    fn waits(&self, leases: &[LeaseFacts], now: Timestamp) -> HashMap<Named, Vec<Waiter>> {
        let mut waits: HashMap<Named, Vec<Waiter>> = HashMap::new();
        let objects = self
            .kinds
            .iter()
            .filter_map(|(kind, objects)| objects.as_ref().ok().map(|objects| (*kind, objects)));
        for (kind, objects) in objects {
            for ((namespace, _), (owner, cluster)) in objects {
                for condition in owner
                    .conditions
                    .iter()
                    .filter(|condition| condition.status == "Unknown")
                {
                    let waiter = Waiter {
                        kind: kind.to_owned(),
                        name: owner.name.clone(),
                        operation: waiting_operation(condition),
                    };
                    for lease in awaited(kind, namespace, owner, cluster, condition, leases, now) {
                        waits
                            .entry((namespace.clone(), lease))
                            .or_default()
                            .push(waiter.clone());
                    }
                }
            }
        }
        waits
    }
}

/// The object with the name that its leases carry, and the cluster that it belongs to.
fn labelled(object: Conditioned) -> (Named, (OwnerFacts, String)) {
    let named = (
        object.metadata.namespace.clone(),
        label_value(&object.metadata.name),
    );
    let cluster = object.metadata.label(key::CLUSTER_NAME).to_owned();
    (named, (object.into(), cluster))
}

/// The names of the leases that a wait points at.
fn awaited(
    kind: &str,
    namespace: &str,
    owner: &OwnerFacts,
    cluster: &str,
    condition: &Condition,
    leases: &[LeaseFacts],
    now: Timestamp,
) -> Vec<String> {
    let cluster_lease = cluster_write_lease(namespace, cluster);
    match condition.reason.as_str() {
        "WaitingForRunLease" => match cluster_lease {
            Some(lease) if condition.message.contains(&lease) => vec![lease],
            _ => kind
                .parse::<Kind>()
                .map(|kind| {
                    ObjectKey::new(kind, namespace, owner.name.as_str())
                        .suffix()
                        .run_lease()
                })
                .into_iter()
                .collect(),
        },
        "WaitingForClusterOperation" => cluster_lease.into_iter().collect(),
        "WaitingForMachineOperations" => {
            let of_cluster = label_value(cluster);
            let waited_for = leases.iter().filter(|lease| {
                let view = &lease.view;
                view.namespace == namespace
                    && view.lease == LeaseScope::Run.as_str()
                    && view.cluster == of_cluster
                    && view.owner_kind != Kind::TerraformCluster.as_str()
                    && view.op.parse::<Op>().is_ok_and(Op::mutating)
                    && evaluate(lease, now).free != Some(true)
            });
            waited_for.map(|lease| lease.view.name.clone()).collect()
        }
        _ => Vec::new(),
    }
}
