//! Reads what `why` needs about one TerraformCluster, in rounds: each round asks only for what the
//! one before gave a reason to ask for (cli.md §20). Everything but the object itself is optional.

mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;

use crate::api::capi::Cluster;
use crate::api::conditions::ConditionType;
use crate::jobs::pod::{PodFacts, PodPhase};
use crate::names::{
    Kind, LeaseScope, ObjectKey, Op, cluster_write_lease, key, label_value, owner_labels,
};
use crate::owner;
use crate::plugin::diagnose::facts::{Event, Facts, Object, PodView};
use crate::plugin::error::Error;
use crate::plugin::evaluate::{Fact, HolderFacts, LeaseFacts, LivePod, OwnerFacts};
use crate::plugin::read::wire::{Condition, JOB_NAME, JobItem, LeaseItem};
use crate::plugin::read::{ApiServer, Form, Keyed, Query, Request, Resource, list};
use crate::plugin::report::Unknown;
use crate::state::{LockFacts, LockLease, LockVerdict, PodFact, read_lock};
pub(crate) use views::election_expired_for;
use views::{EventItem, Node, election_of, pod_view};

/// Where the manager runs, unless it was installed elsewhere.
const MANAGER_NAMESPACE: &str = "captf-system";
/// Its election Lease.
const ELECTION: &str = "controller-leader-election-captf";
/// Label of its pods.
const MANAGER_PODS: &str = "control-plane=controller-manager";
/// A pod that is terminating for longer than its grace and this is not ending by itself.
const OVERDUE_SECONDS: i64 = 30;
/// An election Lease this long past its duration is nobody's (diagnosis.md D2, D148).
pub(crate) const ELECTION_MARGIN_SECONDS: i64 = 5;

/// Reads the object and everything that explains it; nothing when it does not exist.
///
/// # Errors
///
/// The object itself cannot be read.
pub(crate) async fn gather(
    server: &Arc<ApiServer>,
    namespace: &str,
    name: &str,
) -> Result<Option<(Facts, Vec<Unknown>)>, Error> {
    let resource = Resource::TERRAFORM_CLUSTERS;
    let Some(object) = server
        .get::<Object>(resource, Some(namespace), name)
        .await?
    else {
        return Ok(None);
    };
    let mut reader = Reader {
        server,
        namespace,
        unknowns: Vec::new(),
    };
    let mut facts = Box::pin(first_round(&mut reader, object)).await;
    evidence_round(&mut reader, &mut facts).await;
    detail_round(&mut reader, &mut facts).await;
    facts.now = server.now();
    Ok(Some((facts, reader.unknowns)))
}

/// Optional reads of one namespace: a failure is noted, and the answer goes on without it.
struct Reader<'a> {
    server: &'a Arc<ApiServer>,
    namespace: &'a str,
    unknowns: Vec<Unknown>,
}

impl Reader<'_> {
    fn fact<T>(&mut self, answer: Result<Option<T>, Error>, effect: &str) -> Fact<T> {
        match answer {
            Ok(Some(value)) => Fact::Found(value),
            Ok(None) | Err(Error::NotServed { .. }) => Fact::Absent,
            Err(error) => {
                let unknown = Unknown::new(&error, effect);
                let message = unknown.message.clone();
                self.unknowns.push(unknown);
                Fact::Unreadable(message)
            }
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        name: &str,
    ) -> Result<Option<T>, Error> {
        self.server.get(resource, Some(self.namespace), name).await
    }

    async fn listed<T: DeserializeOwned + Keyed>(
        &self,
        resource: Resource,
        query: Query,
    ) -> Result<Option<Vec<T>>, Error> {
        let request = Request::list(resource, Some(self.namespace));
        list(self.server, &request, &query, Form::Objects)
            .await
            .map(Some)
    }
}

/// The conditions on which operations wait.
fn waits(object: &Object, reason: &str) -> bool {
    object
        .status
        .conditions
        .iter()
        .any(|condition| condition.reason == reason)
}

fn condition(object: &Object, kind: ConditionType) -> Option<&Condition> {
    object
        .status
        .conditions
        .iter()
        .find(|condition| condition.kind == kind.as_str())
}

fn is_true(object: &Object, kind: ConditionType) -> bool {
    condition(object, kind).is_some_and(|condition| condition.status == "True")
}

/// What every answer needs: who leads, the run lease, the Jobs; and what the conditions point at.
async fn first_round(reader: &mut Reader<'_>, object: Object) -> Facts {
    let key = ObjectKey::new(
        Kind::TerraformCluster,
        reader.namespace,
        object.metadata.name.as_str(),
    );
    let meta = object.metadata.object_meta();
    let gate_open = is_true(&object, ConditionType::DependenciesReady)
        && !is_true(&object, ConditionType::Paused);
    let owner = owner::cluster_reference(&meta).map(|owner| owner.name.clone());
    let cluster_name = owner::cluster_name(&meta);
    let lease_name = cluster_write_lease(reader.namespace, &cluster_name).filter(|lease| {
        waits(&object, "WaitingForMachineOperations")
            || mentions(&object, lease)
            || waits(&object, "WaitingForRunLease")
    });
    let locked = condition(&object, ConditionType::StateReadable).is_some_and(|condition| {
        condition.reason == "StateLocked"
            || condition.reason == "StateNotFound" && init_failed(&object)
    });
    let settled = gate_open && !waiting_or_bad(&object);

    let run_lease = key.suffix().run_lease();
    let lock_lease = key.suffix().lock_lease();
    let here = &*reader;
    let (cluster, election, run, cluster_lease, jobs, events, lock) = tokio::join!(
        async {
            match owner.filter(|_| !gate_open) {
                Some(name) => Some(here.get::<Cluster>(Resource::CLUSTERS, &name).await),
                None => None,
            }
        },
        here.server
            .get::<Lease>(Resource::LEASES, Some(MANAGER_NAMESPACE), ELECTION),
        here.get::<LeaseItem>(Resource::LEASES, &run_lease),
        async {
            match &lease_name {
                Some(name) => Some(here.get::<LeaseItem>(Resource::LEASES, name).await),
                None => None,
            }
        },
        here.listed::<JobItem>(Resource::JOBS, Query::labelled(selector(&key))),
        async {
            if settled {
                None
            } else {
                Some(events(here, &object.metadata.uid).await)
            }
        },
        async {
            if locked {
                Some(here.get::<Lease>(Resource::LEASES, &lock_lease).await)
            } else {
                None
            }
        },
    );

    let mut facts = Facts {
        now: Timestamp::UNIX_EPOCH,
        cluster: asked(reader, cluster, "its owner is not shown"),
        election: match reader.fact(election, "whether a manager leads is not shown") {
            Fact::Found(lease) => Fact::Found(election_of(lease)),
            Fact::NotRead => Fact::NotRead,
            Fact::Absent => Fact::Absent,
            Fact::Unreadable(error) => Fact::Unreadable(error),
        },
        manager_pods: Fact::NotRead,
        run_lease: lease_fact(reader.fact(run, "its run lease is not shown")),
        cluster_lease: lease_fact(asked(
            reader,
            cluster_lease,
            "the cluster write lease is not shown",
        )),
        machine_leases: Fact::NotRead,
        jobs: reader.fact(jobs, "its Jobs are not shown"),
        pods: Fact::NotRead,
        events: asked(reader, events, "since when it is so comes from conditions"),
        pod_events: Fact::NotRead,
        node: Fact::NotRead,
        lock: Fact::NotRead,
        object,
    };
    facts.lock = match asked(reader, lock, "the holder of the state lock is not shown") {
        Fact::Found(lease) => match read_lock(&key, Some(&LockLease::from(lease))) {
            // Judged in the next round, when its pod was looked for.
            Some(lock) => Fact::Found((lock, LockVerdict::Unproven { stale_after: None })),
            None => Fact::Absent,
        },
        Fact::Absent => Fact::Absent,
        Fact::Unreadable(error) => Fact::Unreadable(error),
        Fact::NotRead => Fact::NotRead,
    };
    facts
}

fn asked<T>(
    reader: &mut Reader<'_>,
    answer: Option<Result<Option<T>, Error>>,
    effect: &str,
) -> Fact<T> {
    answer.map_or(Fact::NotRead, |answer| reader.fact(answer, effect))
}

fn mentions(object: &Object, text: &str) -> bool {
    object
        .status
        .conditions
        .iter()
        .any(|condition| condition.message.contains(text))
}

fn init_failed(object: &Object) -> bool {
    let error = object
        .status
        .last_run
        .as_ref()
        .and_then(|run| run.error.as_ref());
    error.is_some_and(|error| error.step == "init")
}

/// Whether some condition is not in its good state: then its history matters.
fn waiting_or_bad(object: &Object) -> bool {
    [
        ConditionType::ApplyJobSucceeded,
        ConditionType::StateReadable,
        ConditionType::IdentityAllowed,
        ConditionType::CredentialsMirrored,
        ConditionType::RunnerRbacReady,
    ]
    .into_iter()
    .any(|kind| !is_true(object, kind))
}

/// The labels of everything that belongs to the object, as a selector.
fn selector(object: &ObjectKey) -> String {
    let labels = owner_labels(object.kind, &object.name);
    labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(",")
}

fn lease_fact(lease: Fact<LeaseItem>) -> Fact<LeaseFacts> {
    match lease {
        Fact::Found(item) => Fact::Found(LeaseFacts::unread(&item)),
        Fact::Absent => Fact::Absent,
        Fact::NotRead => Fact::NotRead,
        Fact::Unreadable(error) => Fact::Unreadable(error),
    }
}

/// Holder Jobs, their pods, the machines' leases, and the pod of the state lock.
async fn evidence_round(reader: &mut Reader<'_>, facts: &mut Facts) {
    let holders: Vec<String> = [&facts.run_lease, &facts.cluster_lease]
        .into_iter()
        .filter_map(|lease| lease.found())
        .map(|lease| lease.view.holder.clone())
        .filter(|holder| !holder.is_empty())
        .collect();
    let mut wanted: Vec<String> = holders.clone();
    wanted.extend(
        facts
            .object
            .status
            .active_job
            .iter()
            .map(|job| job.name.clone()),
    );
    wanted.extend(facts.with_history(|history| history.active().map(|job| job.name.clone())));
    wanted.sort();
    wanted.dedup();
    wanted.retain(|name| !name.is_empty());

    let unlisted: Vec<String> = holders
        .into_iter()
        .filter(|holder| facts.job(holder).is_none())
        .collect();
    let mut strangers: BTreeMap<String, Fact<HolderFacts>> = BTreeMap::new();
    for name in unlisted {
        let answer = reader.get::<JobItem>(Resource::JOBS, &name).await;
        let fact = reader.fact(answer, "whether the lease's holder runs is not known");
        strangers.insert(name, map(fact, |job| HolderFacts::from(&job)));
    }
    if !wanted.is_empty() {
        let labels = format!("{JOB_NAME} in ({})", wanted.join(","));
        let pods = reader
            .listed::<Pod>(Resource::PODS, Query::labelled(labels))
            .await;
        let pods = reader.fact(pods, "pods are not shown");
        facts.pods = map(pods, |pods| pods.iter().map(pod_view).collect());
    }
    let owner = Fact::Found(OwnerFacts {
        name: facts.object.metadata.name.clone(),
        conditions: facts.object.status.conditions.clone(),
    });
    let (jobs, pods) = (facts.jobs.clone(), facts.pods.clone());
    for lease in [&mut facts.run_lease, &mut facts.cluster_lease] {
        if let Fact::Found(lease) = lease {
            complete(lease, &jobs, &strangers, &pods);
            lease.owner = if lease.view.owner_name == label_value(&facts.object.metadata.name) {
                owner.clone()
            } else {
                Fact::NotRead
            };
        }
    }
    if waits(&facts.object, "WaitingForMachineOperations") {
        facts.machine_leases = machine_leases(reader, &facts.object).await;
    }
    judge_lock(reader, facts).await;
}

fn map<T, U>(fact: Fact<T>, change: impl FnOnce(T) -> U) -> Fact<U> {
    match fact {
        Fact::Found(value) => Fact::Found(change(value)),
        Fact::Absent => Fact::Absent,
        Fact::NotRead => Fact::NotRead,
        Fact::Unreadable(error) => Fact::Unreadable(error),
    }
}

/// Gives a lease the Job and the live pods of its holder.
fn complete(
    lease: &mut LeaseFacts,
    jobs: &Fact<Vec<JobItem>>,
    strangers: &BTreeMap<String, Fact<HolderFacts>>,
    pods: &Fact<Vec<PodView>>,
) {
    let holder = &lease.view.holder;
    if holder.is_empty() {
        return;
    }
    let listed = jobs
        .found()
        .into_iter()
        .flatten()
        .find(|job| job.metadata.name == *holder);
    lease.job = match listed {
        Some(job) => Fact::Found(HolderFacts::from(job)),
        None => strangers.get(holder).cloned().unwrap_or(Fact::NotRead),
    };
    lease.pods = match pods {
        Fact::Found(pods) => Fact::Found(
            pods.iter()
                .filter(|pod| pod.job == *holder && !pod.facts.phase.is_terminal())
                .map(|pod| LivePod {
                    name: pod.facts.name.clone(),
                    created: pod.facts.created,
                    stops: pod.stops,
                })
                .collect(),
        ),
        Fact::Absent => Fact::Found(Vec::new()),
        Fact::NotRead => Fact::NotRead,
        Fact::Unreadable(error) => Fact::Unreadable(error.clone()),
    };
}

/// The leases that a cluster waits for: those of its machines and pools that change something
/// (leases.md §6.3), each with its Job and pods.
async fn machine_leases(reader: &mut Reader<'_>, object: &Object) -> Fact<Vec<LeaseFacts>> {
    let cluster = owner::cluster_name(&object.metadata.object_meta());
    let of_cluster = format!(
        "{}=true,{}={}",
        key::MANAGED,
        key::CLUSTER_NAME,
        label_value(&cluster)
    );
    let leases = Query::labelled(format!(
        "{}={},{of_cluster}",
        key::LEASE,
        LeaseScope::Run.as_str()
    ));
    let live = Query {
        fields: "status.phase!=Succeeded,status.phase!=Failed".into(),
        ..Query::labelled(of_cluster.clone())
    };
    let here = &*reader;
    let (leases, jobs, pods) = tokio::join!(
        here.listed::<LeaseItem>(Resource::LEASES, leases),
        here.listed::<JobItem>(Resource::JOBS, Query::labelled(of_cluster)),
        here.listed::<Pod>(Resource::PODS, live),
    );
    let leases = reader.fact(leases, "the operations it waits for are not shown");
    let jobs = reader.fact(jobs, "whether the operations it waits for run is not known");
    let pods = reader.fact(pods, "pods of the operations it waits for are not shown");
    let pods = map(pods, |pods| pods.iter().map(pod_view).collect::<Vec<_>>());
    let Fact::Found(leases) = leases else {
        return map(leases, |_| Vec::new());
    };
    let mut found = Vec::new();
    for item in leases {
        let mut lease = LeaseFacts::unread(&item);
        let mutating = lease.view.op.parse::<Op>().is_ok_and(Op::mutating);
        if lease.view.owner_kind == Kind::TerraformCluster.as_str() || !mutating {
            continue;
        }
        let mut strangers = BTreeMap::new();
        let listed = jobs.found().is_some_and(|jobs| {
            jobs.iter()
                .any(|job| job.metadata.name == lease.view.holder)
        });
        if !listed && !lease.view.holder.is_empty() {
            let answer = reader
                .get::<JobItem>(Resource::JOBS, &lease.view.holder)
                .await;
            let fact = reader.fact(
                answer,
                "whether an operation it waits for runs is not known",
            );
            strangers.insert(
                lease.view.holder.clone(),
                map(fact, |job| HolderFacts::from(&job)),
            );
        }
        complete(&mut lease, &jobs, &strangers, &pods);
        found.push(lease);
    }
    found.sort_by(|a, b| a.view.name.cmp(&b.view.name));
    Fact::Found(found)
}

/// Judges the state lock by the operator's rule: its holder's pod and Job are read live.
async fn judge_lock(reader: &mut Reader<'_>, facts: &mut Facts) {
    let Fact::Found((lock, _)) = &facts.lock else {
        return;
    };
    let lock = lock.clone();
    let verdict = match lock.own_pod() {
        None => lock.judge(None),
        Some((pod, job)) => {
            let answer = reader.get::<Pod>(Resource::PODS, pod).await;
            let pod = reader.fact(
                answer,
                "whether the pod that holds the state lock exists is not known",
            );
            let pod = match pod {
                Fact::Found(pod) if PodFacts::from(&pod).phase.is_terminal() => {
                    Some(PodFact::Ended)
                }
                Fact::Found(_) => Some(PodFact::Alive),
                Fact::Absent => Some(PodFact::Absent),
                Fact::NotRead | Fact::Unreadable(_) => None,
            };
            let seconds =
                |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            let deadline = facts
                .job(job)
                .and_then(|job| job.spec.active_deadline_seconds);
            let effective = facts
                .object
                .spec
                .jobs
                .active_deadline_seconds
                .unwrap_or(3600);
            lock.judge(
                pod.map(|pod| LockFacts {
                    pod,
                    job_deadline: deadline.map(seconds),
                    effective_deadline: seconds(effective),
                    now: reader.server.now(),
                })
                .as_ref(),
            )
        }
    };
    facts.lock = Fact::Found((lock, verdict));
}

/// What only some situations ask for: why a pod does not start or end, and where the manager is.
async fn detail_round(reader: &mut Reader<'_>, facts: &mut Facts) {
    let now = reader.server.now();
    let pods = facts.pods.found().map(Vec::as_slice).unwrap_or_default();
    let pending = pods
        .iter()
        .find(|pod| pod.facts.phase == PodPhase::Pending && pod.unschedulable.is_none());
    let overdue = pods.iter().find(|pod| {
        let past_grace = pod
            .stops
            .is_some_and(|stops| crate::plugin::time::age_seconds(now, stops) > OVERDUE_SECONDS);
        !pod.facts.phase.is_terminal()
            && !pod.node.is_empty()
            && (pod.facts.phase == PodPhase::Unknown || past_grace)
    });
    let (pending, node) = (
        pending.map(|pod| pod.facts.uid.clone()),
        overdue.map(|pod| pod.node.clone()),
    );
    if let Some(uid) = pending {
        let answer = events(reader, &uid).await;
        facts.pod_events = reader.fact(answer, "why its pod does not start is not shown");
    }
    if let Some(name) = node {
        let answer = reader
            .server
            .get::<Node>(Resource::NODES, None, &name)
            .await;
        let node = reader.fact(answer, "whether the pod's node is alive is not known");
        facts.node = map(node, |node| node.view(name));
    }
    let expired = facts.election.found().is_some_and(|election| {
        election_expired_for(election, now).is_some_and(|seconds| seconds > ELECTION_MARGIN_SECONDS)
    });
    if expired {
        let request = Request::list(Resource::PODS, Some(MANAGER_NAMESPACE));
        let query = Query::labelled(MANAGER_PODS);
        let answer = list::<Pod>(reader.server, &request, &query, Form::Objects)
            .await
            .map(Some);
        facts.manager_pods = reader.fact(answer, "the manager's pods are not shown");
    }
}

/// Events about one object.
async fn events(reader: &Reader<'_>, uid: &str) -> Result<Option<Vec<Event>>, Error> {
    let query = Query {
        fields: format!("regarding.uid={uid}"),
        ..Query::labelled("")
    };
    let found = reader.listed::<EventItem>(Resource::EVENTS, query).await?;
    Ok(found.map(|events| events.into_iter().map(EventItem::view).collect()))
}
