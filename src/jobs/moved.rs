//! A Job that goes on at the source of a move (README, decision 16).
//!
//! clusterctl reads block-move once, before it pauses. A Job armed in between runs on at the source
//! while the target already owns the object, and no lock is common to both.

use std::fmt;

use k8s_openapi::jiff::Timestamp;

/// The value of the annotation block-move: whose Job it is, and until when that Job can matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockMove {
    /// Uid of the object that the Job belongs to.
    pub uid: String,
    /// The backstop of the Job's lease.
    pub until: Timestamp,
}

impl BlockMove {
    /// Reads a value; one in another form (`true`, empty) says nothing.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (uid, until) = value.split_once(' ')?;
        Some(Self {
            uid: uid.to_owned(),
            until: until.parse().ok()?,
        })
    }
}

impl fmt::Display for BlockMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = Timestamp::from_second(self.until.as_second()).unwrap_or(self.until);
        write!(f, "{} {whole}", self.uid)
    }
}

/// Until when a Job of another object of this name may run at the source of a move; nothing when the
/// value is this object's own, in another form, or past.
#[must_use]
pub fn moved_job(value: Option<&str>, uid: &str, now: Timestamp) -> Option<Timestamp> {
    let mark = BlockMove::parse(value?)?;
    (mark.uid != uid && now < mark.until).then_some(mark.until)
}

/// The message of the wait.
#[must_use]
pub fn message(until: Timestamp) -> String {
    format!(
        "a Job may still run where the object was moved from, until {until} at the latest; nothing starts here before"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;

    use super::*;

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn the_value_names_object_and_time_in_whole_seconds() {
        let mark = BlockMove {
            uid: "u-1".to_owned(),
            until: at("2026-10-01T13:15:00.7Z"),
        };
        assert_eq!(mark.to_string(), "u-1 2026-10-01T13:15:00Z");
        assert_eq!(
            BlockMove::parse("u-1 2026-10-01T13:15:00Z").unwrap().uid,
            "u-1"
        );
    }

    #[rstest]
    #[case(Some("source 2026-10-01T13:00:00Z"), true)]
    #[case(Some("source 2026-10-01T12:00:00Z"), false)]
    #[case(Some("own 2026-10-01T13:00:00Z"), false)]
    #[case(Some("true"), false)]
    #[case(Some(""), false)]
    #[case(Some("source soon"), false)]
    #[case(None, false)]
    fn only_another_objects_mark_holds_and_only_until_its_time(
        #[case] value: Option<&str>,
        #[case] holds: bool,
    ) {
        let now = at("2026-10-01T12:00:00Z");
        assert_eq!(moved_job(value, "own", now).is_some(), holds);
    }
}
