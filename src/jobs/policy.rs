//! The Job policy that is in force for one object (api.md §4, jobs.md §13).

use k8s_openapi::api::core::v1::{
    EnvVar, PodSecurityContext, ResourceRequirements, SecurityContext,
};

use crate::api::{JobPolicy, Verbatim};

use super::backoff::FailedLimit;
use super::prune::HistoryLimits;

/// Run time of a Job when nothing sets it, in seconds.
const DEFAULT_DEADLINE: i64 = 3600;
/// Lock wait when nothing sets it, in seconds.
const DEFAULT_LOCK_TIMEOUT: i32 = 300;
/// The account of Jobs when nothing names one.
pub const DEFAULT_SERVICE_ACCOUNT: &str = "captf-runner";

/// A value with where it comes from, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Whether a policy sets it; otherwise it is built in.
    pub configured: bool,
}

impl<T> Setting<T> {
    fn new(configured: Option<T>, default: T) -> Self {
        Self {
            configured: configured.is_some(),
            value: configured.unwrap_or(default),
        }
    }

    fn origin(&self) -> &'static str {
        if self.configured {
            "configured"
        } else {
            "built in"
        }
    }
}

/// A part of a policy that does not have the shape of its Kubernetes type.
#[derive(Debug, thiserror::Error)]
#[error("jobs.{field} of the Job policy does not read as {type_}: {source}; correct that field")]
pub struct PolicyUnreadable {
    field: &'static str,
    type_: &'static str,
    source: serde_json::Error,
}

/// The lock timeout is not below the deadline: no Job but a destroy or restore starts (JobPolicyInvalid).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "jobs.lockTimeoutSeconds {lock_timeout} ({lock_timeout_origin}) must be less than \
     jobs.activeDeadlineSeconds {deadline} ({deadline_origin}): lower the one or raise the other"
)]
pub struct PolicyInvalid {
    lock_timeout: i32,
    lock_timeout_origin: &'static str,
    deadline: i64,
    deadline_origin: &'static str,
}

/// A Job policy with everything filled in that has a default.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectivePolicy {
    /// `activeDeadlineSeconds`.
    pub deadline: Setting<i64>,
    /// `lockTimeoutSeconds`.
    pub lock_timeout: Setting<i32>,
    /// How many finished Jobs stay.
    pub limits: HistoryLimits,
    /// From when on failures wait longest.
    pub failed_limit: FailedLimit,
    /// The account named by a policy; nothing for the managed one.
    pub service_account: Option<String>,
    /// Names of pull Secrets, in order, each once, none empty.
    pub pull_secrets: Vec<String>,
    /// Resources of the main container; nothing for the default.
    pub resources: Option<ResourceRequirements>,
    /// Variables of the main container, own ones first, each name once.
    pub env: Vec<EnvVar>,
    /// Security context of the main container.
    pub security_context: Option<SecurityContext>,
    /// Security context of the pod.
    pub pod_security_context: Option<PodSecurityContext>,
}

impl EffectivePolicy {
    /// Merges policies, the strongest first: own `spec.jobs`; for a machine or pool then its cluster's
    /// `spec.defaults.jobs` and its cluster's own `spec.jobs`; a cluster uses only its own.
    ///
    /// Per field the first level that sets it wins; `env` takes from each level the names not taken yet,
    /// pull Secrets are joined without duplicates, resources and security contexts are replaced as a
    /// whole (jobs.md §13; B17).
    ///
    /// # Errors
    /// [`PolicyUnreadable`] when an embedded value does not have the shape of its type, which the schema
    /// of the CRD rules out for objects stored with it.
    pub fn merge(levels: &[&JobPolicy]) -> Result<Self, PolicyUnreadable> {
        let limit_of = |get: fn(&JobPolicy) -> Option<i32>| first(levels, get);
        let failed = limit_of(|policy| policy.failed_jobs_history_limit);
        Ok(Self {
            deadline: Setting::new(
                first(levels, |policy| {
                    policy
                        .active_deadline_seconds
                        .filter(|seconds| *seconds > 0)
                }),
                DEFAULT_DEADLINE,
            ),
            lock_timeout: Setting::new(
                limit_of(|policy| policy.lock_timeout_seconds),
                DEFAULT_LOCK_TIMEOUT,
            ),
            limits: HistoryLimits::new(
                limit_of(|policy| policy.successful_jobs_history_limit),
                failed,
            ),
            failed_limit: FailedLimit::new(failed),
            service_account: first(levels, |policy| {
                policy
                    .service_account_name
                    .clone()
                    .filter(|name| !name.is_empty())
            }),
            pull_secrets: pull_secrets(levels),
            resources: decode(
                levels.iter().find_map(|policy| policy.resources.as_ref()),
                "resources",
                "ResourceRequirements",
            )?,
            env: env(levels)?,
            security_context: decode(
                levels
                    .iter()
                    .find_map(|policy| policy.security_context.as_ref()),
                "securityContext",
                "SecurityContext",
            )?,
            pod_security_context: decode(
                levels
                    .iter()
                    .find_map(|policy| policy.pod_security_context.as_ref()),
                "podSecurityContext",
                "PodSecurityContext",
            )?,
        })
    }

    /// The account the Jobs run as.
    #[must_use]
    pub fn service_account(&self) -> &str {
        self.service_account
            .as_deref()
            .unwrap_or(DEFAULT_SERVICE_ACCOUNT)
    }

    /// A run must be able to wait for the lock and still do something (jobs.md §13; J17: the caller asks
    /// for everything but destroy and restore).
    ///
    /// # Errors
    /// [`PolicyInvalid`], whose text is the message of the condition.
    pub fn check(&self) -> Result<(), PolicyInvalid> {
        if i64::from(self.lock_timeout.value) < self.deadline.value {
            return Ok(());
        }
        Err(PolicyInvalid {
            lock_timeout: self.lock_timeout.value,
            lock_timeout_origin: self.lock_timeout.origin(),
            deadline: self.deadline.value,
            deadline_origin: self.deadline.origin(),
        })
    }
}

fn first<T>(levels: &[&JobPolicy], get: impl Fn(&JobPolicy) -> Option<T>) -> Option<T> {
    levels.iter().find_map(|policy| get(policy))
}

fn pull_secrets(levels: &[&JobPolicy]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for secret in levels.iter().flat_map(|policy| &policy.image_pull_secrets) {
        let name = secret.name();
        if !name.is_empty() && names.iter().all(|taken| taken != name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn env(levels: &[&JobPolicy]) -> Result<Vec<EnvVar>, PolicyUnreadable> {
    let mut merged: Vec<&Verbatim<EnvVar>> = Vec::new();
    for variable in levels.iter().flat_map(|policy| &policy.env) {
        if merged.iter().all(|taken| taken.name() != variable.name()) {
            merged.push(variable);
        }
    }
    merged
        .into_iter()
        .filter_map(|variable| decode(Some(variable), "env", "EnvVar").transpose())
        .collect()
}

fn decode<K: serde::de::DeserializeOwned>(
    value: Option<&Verbatim<K>>,
    field: &'static str,
    type_: &'static str,
) -> Result<Option<K>, PolicyUnreadable> {
    value
        .map(Verbatim::decode)
        .transpose()
        .map_err(|source| PolicyUnreadable {
            field,
            type_,
            source,
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::{Value, json};

    use super::*;

    fn policy(json: Value) -> JobPolicy {
        serde_json::from_value(json).unwrap()
    }

    fn merged(levels: &[Value]) -> EffectivePolicy {
        let levels: Vec<JobPolicy> = levels.iter().cloned().map(policy).collect();
        EffectivePolicy::merge(&levels.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_empty_policy_has_the_built_in_values() {
        let policy = merged(&[]);
        assert_eq!(policy.deadline.value, 3600);
        assert_eq!(policy.lock_timeout.value, 300);
        assert_eq!(policy.failed_limit.get(), 3);
        assert_eq!(policy.service_account(), "captf-runner");
        assert!(policy.check().is_ok());
    }

    #[test]
    fn the_first_level_that_sets_a_field_wins() {
        let policy = merged(&[
            json!({"lockTimeoutSeconds": 0}),
            json!({"lockTimeoutSeconds": 60, "activeDeadlineSeconds": 1200}),
            json!({"activeDeadlineSeconds": 7200, "serviceAccountName": "own"}),
        ]);
        assert_eq!(policy.lock_timeout.value, 0);
        assert_eq!(policy.deadline.value, 1200);
        assert_eq!(policy.service_account(), "own");
    }

    #[test]
    fn b17_env_keeps_own_order_first_and_each_name_once() {
        let policy = merged(&[
            json!({"env": [{"name": "B", "value": "own"}, {"name": "A"}]}),
            json!({"env": [{"name": "C"}, {"name": "B", "value": "defaults"}]}),
        ]);
        let names: Vec<_> = policy
            .env
            .iter()
            .map(|variable| variable.name.as_str())
            .collect();
        assert_eq!(names, ["B", "A", "C"]);
        assert_eq!(policy.env[0].value.as_deref(), Some("own"));
    }

    #[test]
    fn b17_pull_secrets_are_joined_without_empty_and_duplicate_names() {
        let policy = merged(&[
            json!({"imagePullSecrets": [{"name": "b"}, {"name": ""}, {"name": "a"}]}),
            json!({"imagePullSecrets": [{"name": "a"}, {"name": "c"}]}),
        ]);
        assert_eq!(policy.pull_secrets, ["b", "a", "c"]);
    }

    #[test]
    fn resources_are_replaced_as_a_whole() {
        let policy = merged(&[
            json!({"resources": {"limits": {"cpu": "1"}}}),
            json!({"resources": {"requests": {"cpu": "2"}}}),
        ]);
        assert_eq!(policy.resources.unwrap().requests, None);
    }

    #[test]
    fn a_lock_timeout_of_the_deadline_or_more_is_invalid_and_names_both_origins() {
        let invalid = merged(&[json!({"activeDeadlineSeconds": 300})])
            .check()
            .unwrap_err();
        assert_eq!(
            invalid.to_string(),
            "jobs.lockTimeoutSeconds 300 (built in) must be less than \
             jobs.activeDeadlineSeconds 300 (configured): lower the one or raise the other"
        );
    }

    #[test]
    fn a_field_of_the_wrong_shape_is_named() {
        let policy = policy(json!({"securityContext": {"runAsUser": "root"}}));
        let error = EffectivePolicy::merge(&[&policy]).unwrap_err().to_string();
        assert!(error.starts_with(
            "jobs.securityContext of the Job policy does not read as SecurityContext"
        ));
    }
}
