//! Builders for the tests of this module and of those that use it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::names::{Op, key};

use super::facts::{JobFacts, JobState};
use super::outcome::Reading;
use super::pod::{ContainerFacts, PodFacts, PodPhase};
use super::result::RunResult;

/// UID of the object that the built Jobs belong to.
pub(crate) const OWNER: &str = "owner-uid";

/// A time on the day of the tests: `12:10` or `12:10:30`.
pub(crate) fn at(clock: &str) -> Timestamp {
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    format!("2026-10-01T{clock}{seconds}Z").parse().unwrap()
}

/// A Job of the cluster `prod`, created at 12:00.
#[derive(Clone)]
pub(crate) struct JobBuilder(JobFacts);

impl JobBuilder {
    pub(crate) fn new(op: Op, attempt: i32) -> Self {
        let name = format!("captf-c-prod-{op}-a{attempt}-abcdef");
        Self(JobFacts {
            uid: format!("uid-{name}"),
            name,
            resource_version: "1".into(),
            op: Some(op),
            attempt: Some(attempt),
            labels: BTreeMap::from([
                (key::OP.to_owned(), op.to_string()),
                (key::ATTEMPT.to_owned(), attempt.to_string()),
            ]),
            annotations: BTreeMap::new(),
            created: at("12:00"),
            controller: Some(OWNER.into()),
            deleting: false,
            started: None,
            state: JobState::Unfinished,
        })
    }

    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.0.uid = uid.into();
        self
    }

    pub(crate) fn created(mut self, clock: &str) -> Self {
        self.0.created = at(clock);
        self
    }

    pub(crate) fn controller(mut self, uid: &str) -> Self {
        self.0.controller = Some(uid.into());
        self
    }

    pub(crate) fn deleting(mut self) -> Self {
        self.0.deleting = true;
        self
    }

    pub(crate) fn complete(mut self, clock: &str) -> Self {
        self.0.state = JobState::Complete { at: at(clock) };
        self
    }

    pub(crate) fn failed(mut self, clock: &str) -> Self {
        self.0.state = JobState::Failed {
            at: at(clock),
            reason: "BackoffLimitExceeded".into(),
        };
        self
    }

    pub(crate) fn deadline(mut self, clock: &str) -> Self {
        self.0.state = JobState::Failed {
            at: at(clock),
            reason: "DeadlineExceeded".into(),
        };
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.annotations.insert(key.into(), value.into());
        self
    }

    pub(crate) fn bookkept(self) -> Self {
        self.annotation("captf.io/bookkept", "true")
    }

    pub(crate) fn build(self) -> JobFacts {
        self.0
    }
}

/// A Pending pod of the Job with this UID, created at 12:00, of which nothing is reported.
pub(crate) fn pod(job_uid: &str) -> PodFacts {
    PodFacts {
        name: "captf-c-prod-apply-a1-abcdef-x7k2p".into(),
        uid: "pod-uid".into(),
        job_uid: Some(job_uid.into()),
        created: at("12:00"),
        phase: PodPhase::Pending,
        ready: false,
        deleting: false,
        source: ContainerFacts::Unreported,
        runner: ContainerFacts::Unreported,
        image_id: String::new(),
        image: "ghcr.io/example/module:v1".into(),
    }
}

/// A container that ended with this termination message.
pub(crate) fn ended(message: &str) -> ContainerFacts {
    ContainerFacts::Terminated {
        started: Some(at("12:00:05")),
        finished: Some(at("12:09")),
        exit_code: 1,
        reason: "Error".into(),
        message: message.into(),
    }
}

/// A container whose result shows a failed apply step.
pub(crate) fn apply_step_failed() -> ContainerFacts {
    ended(
        r#"{"version":1,"steps":[{"name":"apply","exit":1}],"error":{"kind":"step","step":"apply","tail":"Error: boom"}}"#,
    )
}

/// The reading of a Job whose pod left this termination message.
pub(crate) fn reading(message: &str) -> Reading {
    let mut pod = pod("job-uid");
    pod.phase = PodPhase::Failed;
    pod.source = ended(message);
    Reading::of("job-uid", &[pod])
}

/// A parsed result document.
pub(crate) fn result(message: &str) -> RunResult {
    RunResult::parse(message).unwrap()
}
