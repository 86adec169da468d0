//! The identity of runners in one namespace: their ServiceAccounts, and the RoleBinding that gives
//! them the static ClusterRole `captf-runner` (rbac-security.md §4).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

use crate::api::conditions::{RunnerRbacReady, State as _, Verdict};
use crate::api::keys::{TRUE, labels};
use crate::client::{Access, ApiError, Class, Guard};

/// Name of the default ServiceAccount, of the RoleBinding and of the ClusterRole.
pub const RUNNER: &str = "captf-runner";

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// How often a write that lost a race is decided anew from a fresh read: objects of a namespace use
/// it for the first time together.
const TRIES: usize = 3;

/// What preparing the runner's identity found and did.
#[derive(Debug)]
pub struct RunnerRbac {
    /// The condition `RunnerRBACReady`.
    pub condition: Verdict,
    /// The failed call, if one stood in the way; returned by the pass after its status patch.
    pub error: Option<ApiError>,
}

impl RunnerRbac {
    fn of(condition: Verdict) -> Self {
        Self {
            condition,
            error: None,
        }
    }
}

/// Prepares what a Job under ServiceAccount `account` needs in `namespace`.
///
/// `in_use` are the accounts of all Terraform* objects of the namespace and of its running Jobs and
/// pods; those that exist and opted in, with `account`, become the subjects of the RoleBinding. The
/// default account needs no consent, and none is inferred for another (rbac-security.md §4).
pub async fn prepare(
    access: &Access,
    namespace: &str,
    account: &str,
    in_use: &BTreeSet<String>,
) -> RunnerRbac {
    match ensure(access, namespace, account, in_use).await {
        Ok(Outcome::Ready) => RunnerRbac::of(RunnerRbacReady::RbacReady.plain()),
        Ok(Outcome::NotOptedIn) => RunnerRbac::of(RunnerRbacReady::ServiceAccountNotOptedIn.with(format!(
            "ServiceAccount {namespace}/{account} must exist and carry the label {}=true to run Jobs",
            labels::RUNNER
        ))),
        Ok(Outcome::ForeignBinding) => RunnerRbac::of(RunnerRbacReady::RbacFailed.with(format!(
            "RoleBinding {namespace}/{RUNNER} does not carry the label {}=true and is left alone; rename or delete it",
            labels::MANAGED
        ))),
        Err(error) => RunnerRbac {
            condition: RunnerRbacReady::RbacFailed.with(error.to_string()),
            error: Some(error),
        },
    }
}

enum Outcome {
    Ready,
    NotOptedIn,
    ForeignBinding,
}

async fn ensure(
    access: &Access,
    namespace: &str,
    account: &str,
    in_use: &BTreeSet<String>,
) -> Result<Outcome, ApiError> {
    let mut subjects = BTreeSet::new();
    for name in in_use.iter().map(String::as_str).chain([account]) {
        if !subjects.contains(name) && consents(access, namespace, name).await? {
            subjects.insert(name.to_owned());
        }
    }
    if !subjects.contains(account) {
        return Ok(Outcome::NotOptedIn);
    }
    let mut tries = 1;
    loop {
        match bind(access, namespace, &subjects).await {
            Err(error) if tries < TRIES && lost_race(&error) => tries += 1,
            outcome => return outcome,
        }
    }
}

fn lost_race(error: &ApiError) -> bool {
    matches!(error.class(), Class::AlreadyExists | Class::Conflict)
}

/// Whether Jobs may run under the account. The default one is made when it is missing; whatever an
/// operator put on it stays.
async fn consents(access: &Access, namespace: &str, name: &str) -> Result<bool, ApiError> {
    let api = access.api::<PartialObjectMeta<ServiceAccount>>(namespace);
    let found = access.get(&api, name).await?;
    if name != RUNNER {
        let labels = found.and_then(|account| account.metadata.labels);
        return Ok(
            labels.is_some_and(|all| all.get(labels::RUNNER).is_some_and(|value| value == TRUE))
        );
    }
    if found.is_none() {
        let account = ServiceAccount {
            metadata: managed(namespace),
            ..ServiceAccount::default()
        };
        match access
            .create(&access.api::<ServiceAccount>(namespace), &account)
            .await
        {
            Err(error) if error.class() != Class::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(true)
}

async fn bind(
    access: &Access,
    namespace: &str,
    accounts: &BTreeSet<String>,
) -> Result<Outcome, ApiError> {
    let api = access.api::<RoleBinding>(namespace);
    let wanted = binding(namespace, accounts);
    let Some(existing) = access.get(&api, RUNNER).await? else {
        access.create(&api, &wanted).await?;
        return Ok(Outcome::Ready);
    };
    match decide(&existing, &wanted) {
        Decision::Foreign => return Ok(Outcome::ForeignBinding),
        Decision::Keep => {}
        Decision::Update => {
            let subjects = wanted.subjects;
            access
                .update(
                    &api,
                    &RoleBinding {
                        subjects,
                        ..existing
                    },
                )
                .await?;
        }
        Decision::Replace => {
            // When somebody wrote it since, the create meets it and everything is read again.
            access
                .delete(&api, RUNNER, &Guard::exact(&existing))
                .await?;
            access.create(&api, &wanted).await?;
        }
    }
    Ok(Outcome::Ready)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    Foreign,
    Keep,
    Update,
    Replace,
}

/// What becomes of a RoleBinding that has our name (rbac-security.md §4.4): without our label it is
/// somebody's; another roleRef cannot be changed, so it is made anew; subjects are written only when
/// they differ.
fn decide(existing: &RoleBinding, wanted: &RoleBinding) -> Decision {
    let label = existing
        .metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::MANAGED));
    if label.map(String::as_str) != Some(TRUE) {
        Decision::Foreign
    } else if existing.role_ref != wanted.role_ref {
        Decision::Replace
    } else if same_subjects(existing, wanted) {
        Decision::Keep
    } else {
        Decision::Update
    }
}

fn same_subjects(a: &RoleBinding, b: &RoleBinding) -> bool {
    let keys = |binding: &RoleBinding| -> Vec<[String; 4]> {
        let mut keys: Vec<_> = binding
            .subjects
            .iter()
            .flatten()
            .map(|subject| {
                let text = |part: &Option<String>| part.clone().unwrap_or_default();
                [
                    subject.kind.clone(),
                    text(&subject.namespace),
                    subject.name.clone(),
                    text(&subject.api_group),
                ]
            })
            .collect();
        keys.sort();
        keys
    };
    keys(a) == keys(b)
}

fn binding(namespace: &str, accounts: &BTreeSet<String>) -> RoleBinding {
    let subject = |name: &String| Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.clone(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    };
    RoleBinding {
        metadata: managed(namespace),
        role_ref: RoleRef {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: RUNNER.to_owned(),
        },
        subjects: Some(accounts.iter().map(subject).collect()),
    }
}

fn managed(namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(RUNNER.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(BTreeMap::from([(
            labels::MANAGED.to_owned(),
            TRUE.to_owned(),
        )])),
        ..ObjectMeta::default()
    }
}

/// The ServiceAccount of an object's Jobs: the first level that names one, else the default
/// (rbac-security.md §4.1). Levels: own `spec.jobs`, then for a machine or pool its cluster's
/// `spec.defaults.jobs` and `spec.jobs`.
#[must_use]
pub fn effective_account<'a>(levels: impl IntoIterator<Item = Option<&'a str>>) -> &'a str {
    levels
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty())
        .unwrap_or(RUNNER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_binding_without_our_label_is_somebody_elses() {
        let wanted = binding("ns", &accounts(&[RUNNER]));
        let mut existing = wanted.clone();
        existing.metadata.labels = None;
        assert_eq!(decide(&existing, &wanted), Decision::Foreign);
    }

    #[test]
    fn another_role_is_replaced() {
        let wanted = binding("ns", &accounts(&[RUNNER]));
        let mut existing = wanted.clone();
        existing.role_ref.name = "admin".to_owned();
        assert_eq!(decide(&existing, &wanted), Decision::Replace);
    }

    #[test]
    fn equal_subjects_in_another_order_are_kept() {
        let wanted = binding("ns", &accounts(&["a", "b"]));
        let mut existing = wanted.clone();
        existing
            .subjects
            .iter_mut()
            .for_each(|subjects| subjects.reverse());
        assert_eq!(decide(&existing, &wanted), Decision::Keep);
    }

    #[test]
    fn other_subjects_are_written() {
        let existing = binding("ns", &accounts(&["a", "gone"]));
        assert_eq!(
            decide(&existing, &binding("ns", &accounts(&["a"]))),
            Decision::Update
        );
    }

    #[test]
    fn the_first_level_that_names_an_account_wins() {
        assert_eq!(
            effective_account([None, Some("defaults"), Some("cluster")]),
            "defaults"
        );
        assert_eq!(
            effective_account([Some(""), None, Some("cluster")]),
            "cluster"
        );
        assert_eq!(effective_account([None, None]), "captf-runner");
    }
}
