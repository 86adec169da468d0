//! The objects that leases belong to, and which of them wait for which lease.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use serde::Deserialize;

use super::gather::Named;
use crate::names::{Kind, LeaseScope, ObjectKey, Op, cluster_write_lease, key, label_value};
use crate::plugin::error::Error;
use crate::plugin::evaluate::{Fact, LeaseFacts, OwnerFacts, State, evaluate, waiting_operation};
use crate::plugin::object::resource_of;
use crate::plugin::read::wire::{Condition, Meta};
use crate::plugin::read::{ApiServer, Form, Keyed, PAGE, Query, Request, list};
use crate::plugin::report::{Unknown, Waiter};
use crate::plugin::session::Session;

/// Requests in flight.
const IN_FLIGHT: usize = 6;

/// An object with conditions.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Conditioned {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    status: Conditions,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Conditions {
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
pub(super) async fn single_owners(
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
pub(super) type Objects = HashMap<Named, (OwnerFacts, String)>;

/// Every workload object of the scope, for names, existence and waits.
pub(super) struct Owners {
    kinds: BTreeMap<&'static str, Result<Objects, String>>,
}

impl Owners {
    pub(super) async fn list(session: &Session, unknowns: &mut Vec<Unknown>) -> Self {
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
    pub(super) fn attach(
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
pub(super) fn labelled(object: Conditioned) -> (Named, (OwnerFacts, String)) {
    let named = (
        object.metadata.namespace.clone(),
        label_value(&object.metadata.name),
    );
    let cluster = object.metadata.label(key::CLUSTER_NAME).to_owned();
    (named, (object.into(), cluster))
}

/// The names of the leases that a wait points at.
pub(super) fn awaited(
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
