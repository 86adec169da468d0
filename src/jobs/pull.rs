//! An active Job whose module image cannot be pulled (jobs.md §9).

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::names::Op;

use super::facts::JobFacts;
use super::pod::{self, PodFacts, PodPhase};
use crate::api::keys::annotations as keys;

/// Job and pull must be at least this old before anything is said or done.
const GRACE: SignedDuration = SignedDuration::from_mins(2);

/// The kubelet's waiting reasons that mean "the image cannot be had" (jobs.md §9).
#[must_use]
pub fn is_pull_failure(reason: &str) -> bool {
    matches!(
        reason,
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName"
    )
}

/// Whether the registry said that the image does not exist, as opposed to a refusal or an outage.
fn is_missing(message: &str) -> bool {
    message.contains("code = NotFound") || message.contains("not found")
}

/// A failed pull as the kubelet reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFailure {
    /// The image of the pod spec.
    pub image: String,
    /// The kubelet's reason.
    pub reason: String,
    /// The kubelet's message.
    pub message: String,
}

/// What becomes of an active Job after its pods were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullAction {
    /// Nothing to say.
    None,
    /// The pod is ready and the Job still carries the mark of an earlier failure: remove the mark.
    Unmark,
    /// Report it on the operation's condition, mark the Job with the kubelet's reason, leave it to its
    /// deadline.
    Report(PullFailure),
    /// Record the image as unpullable, release `status.activeJob`, delete the Job, start again on the
    /// next image.
    FallBack(PullFailure),
    /// The object is paused: report it and delete the Job, which would hold up `clusterctl move` until
    /// its deadline.
    Delete(PullFailure),
}

/// What else the pull check depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullContext {
    /// Whether the object is paused.
    pub paused: bool,
    /// Whether the record Secret, where unpullable images are remembered, exists.
    pub record_exists: bool,
}

/// The pull check of an active Job (jobs.md §9, table).
///
/// Not before Job and pod are two minutes old, not when a pod is ready, only for pods this Job controls,
/// only for the module image: an init container stuck on the runner image is no reason to change it. An
/// apply or plan runs the image of the spec, always, so there is nothing to fall back to; the others
/// fall back when the registry says the image is gone and another one is left.
#[must_use]
pub fn check(
    job: &JobFacts,
    pods: &[PodFacts],
    now: Timestamp,
    context: PullContext,
) -> PullAction {
    let ours = || pods.iter().filter(|pod| pod.is_of(&job.uid));
    if ours().any(|pod| pod.ready) {
        return if job.is_marked(keys::PULL_FAILED) {
            PullAction::Unmark
        } else {
            PullAction::None
        };
    }
    if job.age(now) < GRACE {
        return PullAction::None;
    }
    let Some(failure) = pod::newest(pods, &job.uid).and_then(|pod| failure(pod, now)) else {
        return PullAction::None;
    };
    let falls_back = !matches!(job.op, None | Some(Op::Apply | Op::Plan))
        && is_missing(&failure.message)
        && has_fallback(job)
        && context.record_exists;
    if falls_back {
        PullAction::FallBack(failure)
    } else if context.paused && job.op != Some(Op::Apply) {
        PullAction::Delete(failure)
    } else {
        PullAction::Report(failure)
    }
}

/// The pull failure a pod of at least two minutes waits on.
fn failure(pod: &PodFacts, now: Timestamp) -> Option<PullFailure> {
    if pod.phase != PodPhase::Pending || pod.age(now) < GRACE {
        return None;
    }
    let (reason, message) = pod.source.waiting()?;
    is_pull_failure(reason).then(|| PullFailure {
        image: pod.image.clone(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    })
}

/// Whether the Job names a further image to try; an annotation that does not parse names none.
fn has_fallback(job: &JobFacts) -> bool {
    job.annotation(keys::IMAGE_FALLBACKS)
        .and_then(|json| serde_json::from_str::<Vec<String>>(json).ok())
        .is_some_and(|images| !images.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;
    use crate::jobs::pod::ContainerFacts;
    use crate::jobs::testing::{JobBuilder, at, pod};

    const MISSING: &str =
        r#"rpc error: code = NotFound desc = failed to pull and unpack image: not found"#;
    const RECORDED: PullContext = PullContext {
        paused: false,
        record_exists: true,
    };

    fn destroy() -> JobBuilder {
        JobBuilder::new(Op::Destroy, 1)
            .uid("job-uid")
            .annotation("captf.io/image-fallbacks", r#"["r/m:v1"]"#)
    }

    fn waiting(reason: &str, message: &str) -> PodFacts {
        let mut pod = pod("job-uid");
        pod.source = ContainerFacts::Waiting {
            reason: reason.into(),
            message: message.into(),
        };
        pod
    }

    #[rstest]
    #[case("ErrImagePull")]
    #[case("ImagePullBackOff")]
    #[case("InvalidImageName")]
    fn a37_a_missing_image_of_a_destroy_falls_back(#[case] reason: &str) {
        let action = check(
            &destroy().build(),
            &[waiting(reason, MISSING)],
            at("12:02"),
            RECORDED,
        );
        assert!(matches!(action, PullAction::FallBack(failure) if failure.reason == reason));
    }

    #[test]
    fn a38_nothing_before_two_minutes() {
        let action = check(
            &destroy().build(),
            &[waiting("ErrImagePull", MISSING)],
            at("12:01:59"),
            RECORDED,
        );
        assert_eq!(action, PullAction::None);
    }

    #[test]
    fn a38_nothing_while_the_pull_is_young() {
        let mut pod = waiting("ErrImagePull", MISSING);
        pod.created = at("12:04");
        assert_eq!(
            check(&destroy().build(), &[pod], at("12:05"), RECORDED),
            PullAction::None
        );
    }

    #[test]
    fn a38_an_init_container_stuck_on_the_runner_image_is_no_reason() {
        let mut pod = pod("job-uid");
        pod.runner = ContainerFacts::Waiting {
            reason: "ErrImagePull".into(),
            message: MISSING.into(),
        };
        assert_eq!(
            check(&destroy().build(), &[pod], at("12:05"), RECORDED),
            PullAction::None
        );
    }

    #[test]
    fn a38_nothing_when_a_pod_is_ready() {
        let mut ready = pod("job-uid");
        ready.ready = true;
        let pods = [waiting("ErrImagePull", MISSING), ready];
        assert_eq!(
            check(&destroy().build(), &pods, at("12:05"), RECORDED),
            PullAction::None
        );
    }

    #[test]
    fn a_ready_pod_removes_the_mark() {
        let mut ready = pod("job-uid");
        ready.ready = true;
        let job = destroy()
            .annotation("captf.io/pull-failed", "ErrImagePull")
            .build();
        assert_eq!(
            check(&job, &[ready], at("12:05"), RECORDED),
            PullAction::Unmark
        );
    }

    #[test]
    fn j25_pods_of_an_earlier_job_of_the_same_name_do_not_count() {
        let mut old = waiting("ErrImagePull", MISSING);
        old.job_uid = Some("old-uid".into());
        assert_eq!(
            check(&destroy().build(), &[old], at("12:05"), RECORDED),
            PullAction::None
        );
    }

    #[test]
    fn an_outage_is_reported_and_left() {
        let pods = [waiting("ImagePullBackOff", "dial tcp: connection refused")];
        let action = check(&destroy().build(), &pods, at("12:05"), RECORDED);
        assert!(matches!(action, PullAction::Report(_)));
    }

    #[test]
    fn the_last_image_is_reported_and_left() {
        let job = JobBuilder::new(Op::Destroy, 1).uid("job-uid").build();
        let action = check(
            &job,
            &[waiting("ErrImagePull", MISSING)],
            at("12:05"),
            RECORDED,
        );
        assert!(matches!(action, PullAction::Report(_)));
    }

    #[test]
    fn without_a_record_it_is_reported_and_left() {
        let action = check(
            &destroy().build(),
            &[waiting("ErrImagePull", MISSING)],
            at("12:05"),
            PullContext::default(),
        );
        assert!(matches!(action, PullAction::Report(_)));
    }

    #[rstest]
    #[case(Op::Apply)]
    #[case(Op::Plan)]
    fn an_apply_or_plan_is_reported_and_left(#[case] op: Op) {
        let job = JobBuilder::new(op, 1).uid("job-uid").build();
        let action = check(
            &job,
            &[waiting("ErrImagePull", MISSING)],
            at("12:05"),
            RECORDED,
        );
        assert!(matches!(action, PullAction::Report(_)));
    }

    #[test]
    fn while_paused_a_job_that_would_be_left_is_deleted() {
        let job = JobBuilder::new(Op::Destroy, 1).uid("job-uid").build();
        let context = PullContext {
            paused: true,
            record_exists: true,
        };
        let action = check(
            &job,
            &[waiting("ErrImagePull", MISSING)],
            at("12:05"),
            context,
        );
        assert!(matches!(action, PullAction::Delete(_)));
    }
}
