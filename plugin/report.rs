//! The JSON contracts shared by the commands (cli.md §8): `cli.captf.io/v1`.
//!
//! Fields are only ever added. An absent field is not applicable; `null` stands where something
//! was looked for and is not there or could not be read.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::error::Error;
use super::time;

/// `apiVersion` of every report.
pub(crate) const API_VERSION: &str = "cli.captf.io/v1";

/// A time as reports print it: RFC 3339 in UTC, with milliseconds when they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At(pub(crate) Timestamp);

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = time::millis(self.0);
        if time::whole(time) == time {
            serializer.collect_str(&format_args!("{time:.0}"))
        } else {
            serializer.collect_str(&format_args!("{time:.3}"))
        }
    }
}

/// What every report says about itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    /// The API server's time of the report.
    pub(crate) server_time: At,
    /// The API server's clock minus this machine's; less than 2 s counts as none.
    pub(crate) clock_skew_seconds: i64,
    /// Version of this program.
    pub(crate) cli_version: &'static str,
    /// Context of the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// Namespace looked in; absent for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Whether something could not be read.
    pub(crate) partial: bool,
    /// What could not be read.
    pub(crate) unknowns: Vec<Unknown>,
}

/// A read that failed, and what the report lacks because of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unknown {
    /// `Forbidden`, or why else.
    pub(crate) code: &'static str,
    /// Verb of the read.
    pub(crate) verb: &'static str,
    /// Plural of the resource.
    pub(crate) resource: &'static str,
    /// Namespace of the read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What the report lacks.
    pub(crate) effect: String,
    /// The error as the warning prints it.
    #[serde(skip)]
    pub(crate) message: String,
}

impl Unknown {
    /// What a failed optional read leaves unknown.
    pub(crate) fn new(error: &Error, effect: impl Into<String>) -> Self {
        let request = match error {
            Error::Forbidden { request }
            | Error::NotServed { request }
            | Error::Answer { request, .. }
            | Error::Undecodable { request, .. }
            | Error::TimedOut { request, .. } => Some(request),
            _ => None,
        };
        Self {
            code: match error {
                Error::Forbidden { .. } => "Forbidden",
                Error::NotServed { .. } => "NotServed",
                Error::TimedOut { .. } => "Timeout",
                Error::Undecodable { .. } => "Undecodable",
                _ => "Unreadable",
            },
            verb: request.map_or("", |request| request.verb.as_str()),
            resource: request.map_or("", |request| request.resource.plural),
            namespace: request.and_then(|request| request.namespace.clone()),
            name: request.and_then(|request| request.name.clone()),
            effect: effect.into(),
            message: error.to_string(),
        }
    }
}

/// Something worth knowing that changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// Code in one word.
    pub(crate) code: &'static str,
    /// The sentence.
    pub(crate) message: String,
}

impl Warning {
    /// A warning.
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// One line per verb, resource and namespace that could not be read, at most five, then a count
/// (cli.md §14).
pub(crate) fn warning_lines(unknowns: &[Unknown]) -> Vec<String> {
    const SHOWN: usize = 5;
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for unknown in unknowns {
        let what = (unknown.verb, unknown.resource, unknown.namespace.as_deref());
        if !seen.contains(&what) {
            seen.push(what);
            lines.push(format!("warning: {}; {}", unknown.message, unknown.effect));
        }
    }
    let more = lines.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.truncate(SHOWN);
        lines.push(format!("warning: {more} more reads failed"));
    }
    lines
}

/// What happens to a lease that nobody touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Frees {
    /// Which rule ends it.
    pub(crate) kind: FreesKind,
    /// Not before.
    pub(crate) earliest: Option<At>,
    /// Expected, while the node is alive; no promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<At>,
    /// At the latest.
    pub(crate) latest: Option<At>,
    /// Whether the bound follows from fixed rules alone.
    pub(crate) certain: bool,
}

/// Which rule frees a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FreesKind {
    /// It is free.
    Now,
    /// The grace of an absent holder ends.
    Grace,
    /// The holder's pod stops, or the backstop passes.
    PodStop,
    /// Its owner refreshes it while it waits.
    Refreshed,
    /// The evidence could not be read.
    Unknown,
}

/// The holder's Job in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobReport {
    /// Name, where the report does not say it elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Whether the API server has it.
    pub(crate) exists: bool,
    /// `Running`, `Complete`, `Failed`, `Suspended`, `Ending` or `Deleting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<At>,
    /// When Kubernetes stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<At>,
    /// When it finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<At>,
}

/// Live pods of the holder's Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PodsReport {
    /// How many have neither succeeded nor failed.
    pub(crate) running: usize,
    /// Their names, sorted.
    pub(crate) names: Vec<String>,
}

/// The object a lease belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerReport {
    /// Kind.
    pub(crate) kind: String,
    /// Name; `~` and the label's hash when the real name is not known.
    pub(crate) name: String,
    /// Cluster of the object, empty when unknown.
    pub(crate) cluster_name: String,
    /// Whether the API server has it; absent when nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exists: Option<bool>,
}

/// The parts of a holder's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderParts {
    /// Short kind.
    pub(crate) kind_short: &'static str,
    /// Operation.
    pub(crate) operation: &'static str,
    /// Attempt.
    pub(crate) attempt: i32,
    /// Hash.
    pub(crate) hash6: String,
    /// Whether the lease's owner would give its Job this name.
    pub(crate) matches_owner: bool,
}

/// The backstop of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Backstop {
    /// How old the lease may get.
    pub(crate) seconds: u64,
    /// When it is free whatever its holder does.
    pub(crate) at: At,
    /// Whether that has passed.
    pub(crate) expired: bool,
}

/// An object whose operation waits for a lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Waiter {
    /// Kind.
    pub(crate) kind: String,
    /// Name.
    pub(crate) name: String,
    /// What it wants to do.
    pub(crate) operation: &'static str,
}

/// One lease.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseReport {
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// UID.
    pub(crate) uid: String,
    /// Version for a guarded delete.
    pub(crate) resource_version: String,
    /// `run` or `cluster`.
    #[serde(rename = "type")]
    pub(crate) scope: String,
    /// The object it belongs to.
    pub(crate) owner: OwnerReport,
    /// Operation of the holder.
    pub(crate) operation: String,
    /// Whether that changes infrastructure or state.
    pub(crate) mutating: bool,
    /// Job that holds it; empty when none does.
    pub(crate) holder: String,
    /// The holder's name taken apart; absent when it is no Job name of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_parts: Option<HolderParts>,
    /// When it was taken or last refreshed.
    pub(crate) acquired_at: At,
    /// Whole seconds since then.
    pub(crate) age_seconds: i64,
    /// How long an absent holder keeps it.
    pub(crate) grace_seconds: u64,
    /// Its backstop.
    pub(crate) backstop: Backstop,
    /// State, see the table of cli.md §5.
    pub(crate) state: &'static str,
    /// Sub-state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<&'static str>,
    /// Whether the operator would take it over; unknown when a read failed.
    pub(crate) free: Option<bool>,
    /// By which rule.
    pub(crate) free_reason: Option<&'static str>,
    /// Whether it could be given back by hand.
    pub(crate) releasable: bool,
    /// Why not.
    pub(crate) refusal: Option<&'static str>,
    /// What happens next by itself.
    pub(crate) frees: Frees,
    /// The holder's Job; absent without a holder, `null` when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Option<JobReport>>,
    /// Its live pods; absent without a holder, `null` when they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pods: Option<Option<PodsReport>>,
    /// Who waits for it; absent when nobody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiters: Option<Vec<Waiter>>,
    /// What is odd about it.
    pub(crate) warnings: Vec<Warning>,
}

/// `kubectl captf leases -o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseReportList {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    items: Vec<LeaseReport>,
}

impl LeaseReportList {
    /// A list of leases.
    pub(crate) fn new(metadata: Metadata, items: Vec<LeaseReport>) -> Self {
        Self {
            api_version: API_VERSION,
            kind: "LeaseReportList",
            metadata,
            items,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::At;

    #[test]
    fn times_have_milliseconds_only_when_known() {
        let print = |text: &str| serde_json::to_string(&At(text.parse().unwrap())).unwrap();
        assert_eq!(
            print("2026-11-30T15:48:00.120456Z"),
            "\"2026-11-30T15:48:00.120Z\""
        );
        assert_eq!(print("2026-11-30T17:03:00Z"), "\"2026-11-30T17:03:00Z\"");
    }
}
