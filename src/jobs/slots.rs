//! Limits on running Jobs (jobs.md §11).

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

use crate::names::{Op, jitter};

/// Requeue of a slot wait before its jitter.
const REQUEUE: Duration = Duration::from_secs(15);
/// Background operations start only below this share of a limit, in percent.
const BACKGROUND_PERCENT: i64 = 80;

/// Whether an operation finds a slot: a limit of 0 or less is none; refresh and drift start while less
/// than 80 % of the limit is in use, the others while any slot is left (jobs.md §11).
#[must_use]
pub fn has_slot(active: usize, limit: i32, op: Op) -> bool {
    let limit = i64::from(limit);
    if limit <= 0 {
        return true;
    }
    let active = i64::try_from(active).unwrap_or(i64::MAX);
    if matches!(op, Op::Drift | Op::Refresh) {
        active.saturating_mul(100) < limit * BACKGROUND_PERCENT
    } else {
        active < limit
    }
}

/// Unfinished Jobs as counted from the cache, and the limits on them. Nothing is locked: the limits may
/// be overshot by a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots<'a> {
    /// All unfinished Jobs in the cache.
    pub active: usize,
    /// `--max-active-jobs`; 0 = none.
    pub limit: i32,
    /// The cluster's share; nothing when the cluster's name is unknown.
    pub cluster: Option<ClusterSlots<'a>>,
}

/// The Jobs of one cluster and their limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSlots<'a> {
    /// Name of the Cluster.
    pub name: &'a str,
    /// Unfinished Jobs in the namespace with the cluster's label.
    pub active: usize,
    /// The effective limit, from [`cluster_limit`].
    pub limit: i32,
}

/// The cluster's limit: `spec.maxActiveJobs` of the TerraformCluster when above 0, else
/// `--cluster-max-active-jobs` (conditions-events.md §5).
#[must_use]
pub fn cluster_limit(spec: Option<i32>, flag: i32) -> i32 {
    spec.filter(|limit| *limit > 0).unwrap_or(flag)
}

/// A wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotWait {
    /// Message of the condition: limit, scope and operation, never the running count, which would
    /// rewrite every waiter's status whenever it changes (B7).
    pub message: String,
    /// When to look again.
    pub requeue: SignedDuration,
}

/// The wait of an operation that finds no slot, the global limit first; nothing when it may start
/// (jobs.md §11). `uid` of the object spreads the waiters.
#[must_use]
pub fn wait(slots: Slots<'_>, op: Op, uid: &str) -> Option<SlotWait> {
    let scope = if !has_slot(slots.active, slots.limit, op) {
        (slots.limit, "in all".to_owned())
    } else {
        let cluster = slots.cluster?;
        if has_slot(cluster.active, cluster.limit, op) {
            return None;
        }
        (cluster.limit, format!("of cluster {}", cluster.name))
    };
    let (limit, scope) = scope;
    let share = if matches!(op, Op::Drift | Op::Refresh) {
        format!("; a {op} leaves a fifth of it free")
    } else {
        String::new()
    };
    Some(SlotWait {
        message: format!(
            "the limit of {limit} running Jobs {scope} is reached{share}: the {op} starts once Jobs finish"
        ),
        requeue: requeue(uid),
    })
}

fn requeue(uid: &str) -> SignedDuration {
    SignedDuration::try_from(REQUEUE + jitter(uid, REQUEUE))
        .unwrap_or(SignedDuration::from_secs(15))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(9, 10, Op::Apply, true)]
    #[case(10, 10, Op::Apply, false)]
    #[case(10, 10, Op::Destroy, false)]
    #[case(7, 10, Op::Drift, true)]
    #[case(8, 10, Op::Drift, false)]
    #[case(8, 10, Op::Refresh, false)]
    #[case(0, 1, Op::Drift, true)]
    #[case(1, 1, Op::Drift, false)]
    #[case(1000, 0, Op::Apply, true)]
    fn golden_decisions(
        #[case] active: usize,
        #[case] limit: i32,
        #[case] op: Op,
        #[case] go: bool,
    ) {
        assert_eq!(has_slot(active, limit, op), go);
    }

    fn waits(global: i32, spec: Option<i32>, flag: i32, op: Op) -> bool {
        let cluster = ClusterSlots {
            name: "prod",
            active: 4,
            limit: cluster_limit(spec, flag),
        };
        wait(
            Slots {
                active: 5,
                limit: global,
                cluster: Some(cluster),
            },
            op,
            "",
        )
        .is_some()
    }

    #[rstest]
    #[case(0, None, 4, Op::Apply, true)]
    #[case(0, None, 5, Op::Apply, false)]
    #[case(0, Some(4), 20, Op::Apply, true)]
    #[case(0, Some(5), 4, Op::Apply, false)]
    #[case(5, None, 20, Op::Apply, true)]
    #[case(6, None, 20, Op::Apply, false)]
    #[case(0, None, 5, Op::Drift, true)]
    fn golden_decisions_with_4_in_the_cluster_and_5_overall(
        #[case] global: i32,
        #[case] spec: Option<i32>,
        #[case] flag: i32,
        #[case] op: Op,
        #[case] waits_expected: bool,
    ) {
        assert_eq!(waits(global, spec, flag, op), waits_expected);
    }

    #[test]
    fn j26_the_limit_stops_a_drift_before_an_apply() {
        assert!(waits(0, None, 5, Op::Drift));
        assert!(!waits(0, None, 5, Op::Apply));
    }

    #[test]
    fn an_unknown_cluster_has_no_limit_of_its_own() {
        assert_eq!(
            wait(
                Slots {
                    active: 5,
                    limit: 6,
                    cluster: None
                },
                Op::Apply,
                ""
            ),
            None
        );
    }

    #[test]
    fn b7_the_message_is_the_same_whatever_the_running_count() {
        let message = |active| {
            wait(
                Slots {
                    active,
                    limit: 2,
                    cluster: None,
                },
                Op::Apply,
                "",
            )
            .unwrap()
            .message
        };
        assert_eq!(message(2), message(9));
        assert_eq!(
            message(2),
            "the limit of 2 running Jobs in all is reached: the apply starts once Jobs finish"
        );
    }

    #[test]
    fn requeue_is_15_s_and_the_objects_jitter() {
        let slots = Slots {
            active: 1,
            limit: 1,
            cluster: None,
        };
        let requeue = wait(slots, Op::Apply, "5f1d3c2a-0000-4000-8000-00000000000a")
            .unwrap()
            .requeue;
        assert_eq!(requeue, SignedDuration::new(15, 656_988_671));
    }
}
