//! Whether the Job cache is behind the API server (jobs.md §12).

use crate::names::{Labels, ObjectKey};

/// A Job as read live by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveJob {
    /// It exists, with these labels.
    Found(Labels),
    /// NotFound.
    Absent,
}

/// What this pass knows of the object before it may clear block-move or `status.activeJob`, or drop the
/// finalizer.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Names of the Jobs in this pass's list.
    pub listed: &'a [&'a str],
    /// Name in `status.activeJob`.
    pub active_job: Option<&'a str>,
    /// Whether the object carries block-move.
    pub block_move: bool,
    /// Whether the object is being deleted.
    pub deleting: bool,
}

impl<'a> Situation<'a> {
    /// The Job to read live first: the one `status.activeJob` names, when the list lacks it. Found means
    /// lag, see [`active_is_behind`].
    #[must_use]
    pub fn active_to_read(&self) -> Option<&'a str> {
        self.active_job.filter(|name| !self.listed.contains(name))
    }

    /// Whether the run lease must be read live: only when block-move or `status.activeJob` is set, or the
    /// object is deleting. An idle object costs no read (J27, A30).
    #[must_use]
    pub fn needs_lease(&self) -> bool {
        self.block_move || self.active_job.is_some() || self.deleting
    }

    /// The Job to read live next: the holder of a live run lease, when the list lacks it. `holder` is
    /// nothing when the lease is free or missing.
    #[must_use]
    pub fn holder_to_read<'h>(&self, holder: Option<&'h str>) -> Option<&'h str> {
        holder.filter(|name| !name.is_empty() && !self.listed.contains(name))
    }
}

/// The Job of `status.activeJob` that the list lacks exists: the cache is behind (A28).
#[must_use]
pub fn active_is_behind(live: &LiveJob) -> bool {
    matches!(live, LiveJob::Found(_))
}

/// The holder of the live run lease that the list lacks exists and is this object's: the cache is behind.
/// NotFound (a crash before the create) or another object's Job is no lag (A29).
#[must_use]
pub fn holder_is_behind(live: &LiveJob, object: &ObjectKey) -> bool {
    matches!(live, LiveJob::Found(labels) if object.owns(labels))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::names::{Kind, Op};

    fn object() -> ObjectKey {
        ObjectKey::new(Kind::TerraformCluster, "team-a", "prod")
    }

    const IDLE: Situation<'_> = Situation {
        listed: &["a"],
        active_job: None,
        block_move: false,
        deleting: false,
    };

    #[test]
    fn j27_a30_an_idle_object_needs_no_read() {
        assert_eq!(IDLE.active_to_read(), None);
        assert!(!IDLE.needs_lease());
    }

    #[test]
    fn b11_a28_an_active_job_the_list_lacks_is_read_and_means_lag() {
        let situation = Situation {
            active_job: Some("b"),
            ..IDLE
        };
        assert_eq!(situation.active_to_read(), Some("b"));
        assert!(active_is_behind(&LiveJob::Found(Labels::new())));
        assert!(!active_is_behind(&LiveJob::Absent));
    }

    #[test]
    fn a_listed_active_job_is_not_read() {
        assert_eq!(
            Situation {
                active_job: Some("a"),
                ..IDLE
            }
            .active_to_read(),
            None
        );
    }

    #[test]
    fn the_lease_is_read_with_block_move_an_active_job_or_a_deletion() {
        assert!(
            Situation {
                block_move: true,
                ..IDLE
            }
            .needs_lease()
        );
        assert!(
            Situation {
                active_job: Some("a"),
                ..IDLE
            }
            .needs_lease()
        );
        assert!(
            Situation {
                deleting: true,
                ..IDLE
            }
            .needs_lease()
        );
    }

    #[test]
    fn a29_an_unlisted_live_holder_of_this_object_is_lag() {
        assert_eq!(IDLE.holder_to_read(Some("b")), Some("b"));
        let labels = object().job_labels("prod", Op::Apply, 1);
        assert!(holder_is_behind(&LiveJob::Found(labels), &object()));
    }

    #[test]
    fn c5_an_absent_holder_or_another_objects_job_is_no_lag() {
        assert!(!holder_is_behind(&LiveJob::Absent, &object()));
        let other = ObjectKey::new(Kind::TerraformMachine, "team-a", "prod").job_labels(
            "prod",
            Op::Apply,
            1,
        );
        assert!(!holder_is_behind(&LiveJob::Found(other), &object()));
    }

    #[test]
    fn a_listed_holder_or_a_free_lease_is_not_read() {
        assert_eq!(IDLE.holder_to_read(Some("a")), None);
        assert_eq!(IDLE.holder_to_read(None), None);
        assert_eq!(IDLE.holder_to_read(Some("")), None);
    }
}
