//! The Jobs of lease holders, in as few requests as their number allows (cli.md §20).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::gather::Named;
use crate::names::key;
use crate::plugin::error::Error;
use crate::plugin::evaluate::{Fact, HolderFacts, LeaseFacts};
use crate::plugin::read::wire::JobItem;
use crate::plugin::read::{
    ApiServer, Form, Query, Request, Resource, TableError, each_page, job_rows,
};
use crate::plugin::report::Unknown;

/// Up to this many holders in one namespace are read one by one.
const SINGLE_READS: usize = 32;
/// Requests of one sort in flight.
const IN_FLIGHT: usize = 6;
/// From this many holders without a row on, one table without selector confirms them.
const CONFIRMED_BY_TABLE: usize = 20;
/// Beyond this many namespaces one list of Jobs costs less than a table of each.
const TABLES: usize = 200;

/// The Jobs of one namespace by name.
pub(super) type Answered = Result<HashMap<String, HolderFacts>, TableError>;

/// Tables of Jobs on their way, one per namespace.
pub(super) struct Tables {
    server: Arc<ApiServer>,
    slots: Arc<Semaphore>,
    asked: BTreeSet<String>,
    running: JoinSet<(String, Answered)>,
}

impl Tables {
    pub(super) fn new(server: Arc<ApiServer>) -> Self {
        Self {
            server,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            asked: BTreeSet::new(),
            running: JoinSet::new(),
        }
    }

    /// Asks for the table of a namespace, once.
    pub(super) fn ask(&mut self, namespace: &str) {
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
pub(super) async fn holder_jobs(
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
pub(super) async fn confirm(
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

pub(super) async fn read_each<'a>(
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
pub(super) async fn list_jobs(
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
