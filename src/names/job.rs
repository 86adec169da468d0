//! Job names: how they are made, taken apart, and recognised in a pod's name (naming.md §5).

use std::fmt;

use jiff::Timestamp;

use super::digest::{sha256_hex, short_hash};
use super::object::{Kind, Op};
use super::time::stamp;

/// Longest Job name. Pods are named `<job>-<5 characters>`; 57 keeps that within a hostname's 63,
/// so that Terraform records the whole pod name as the holder of the state lock (naming.md §5.2).
pub const JOB_NAME_MAX: usize = 57;

/// Characters of the random part the Job controller appends to a pod's name.
const POD_SUFFIX_LEN: usize = 5;

/// An inputs hash with its scheme prefix (`h2:…`), or the empty string when there is none.
/// Opaque: another scheme's value is simply a different hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputsHash(String);

impl InputsHash {
    /// Takes the recorded or computed text as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The hash as text, empty when there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// No hash was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for InputsHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What else than inputs and attempt tells two Jobs of one operation apart (naming.md §5.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tick(String);

impl Tick {
    /// `apply`, `plan` and `destroy` have no tick.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// `refresh`: the time of the last refresh; `drift`: of the last drift check. A retry keeps the
    /// tick until the operation next succeeds (naming.md §5.3, B4).
    #[must_use]
    pub fn since(last: Option<Timestamp>) -> Self {
        Self(stamp(last))
    }

    /// The apply (or its plan) that remediates drift found by the last drift check, so that it does
    /// not collide with the retained first apply of the same inputs (naming.md B5).
    #[must_use]
    pub fn remediate(last_drift_check: Option<Timestamp>) -> Self {
        Self(format!("remediate/{}", stamp(last_drift_check)))
    }

    /// `restore`: the name of the backup that is pushed.
    #[must_use]
    pub fn restore(backup: &str) -> Self {
        Self(format!("restore/{backup}"))
    }

    /// The tick as it is hashed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Six hexadecimal digits over inputs hash, operation, attempt and tick.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hash6(String);

impl Hash6 {
    /// `hex(sha256(inputsHash NUL op NUL attempt NUL tick))[:6]`; an empty tick keeps its separator
    /// (naming.md §5.1).
    #[must_use]
    pub fn new(inputs: &InputsHash, op: Op, attempt: i32, tick: &Tick) -> Self {
        let mut digest = sha256_hex(format!("{inputs}\0{op}\0{attempt}\0{}", tick.as_str()));
        digest.truncate(6);
        Self(digest)
    }

    /// The six characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Everything a Job name is made from.
///
/// Image, digest, Job policy, account, credentials, lock, plan, UID, generation and time are
/// deliberately no part of it, so that a pass with a stale view finds the Job it already created
/// (naming.md §5.3).
#[derive(Clone, Debug)]
pub struct JobSeed<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: &'a str,
    /// What the Job runs.
    pub op: Op,
    /// Attempt number, from [`next_attempt`].
    pub attempt: i32,
    /// Hash of the inputs, chosen per operation by the table of naming.md §5.3.
    pub inputs: &'a InputsHash,
    /// Tick, chosen per operation by the same table.
    pub tick: &'a Tick,
}

impl JobSeed<'_> {
    /// The Job's name.
    #[must_use]
    pub fn job_name(&self) -> JobName {
        let hash6 = Hash6::new(self.inputs, self.op, self.attempt, self.tick);
        JobName::compose(self.kind, self.name, self.op, self.attempt, hash6.as_str())
    }
}

/// The name of a Job: `captf-<short>-<name>-<op>-a<attempt>-<hash6>`.
///
/// Also used for names read from leases and annotations, which may be anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(String);

impl JobName {
    /// Takes a recorded name as it is.
    pub fn new(recorded: impl Into<String>) -> Self {
        Self(recorded.into())
    }

    /// Puts a name together; when it is longer than 57 bytes the object's name is replaced by the
    /// first 16 hexadecimal digits of its SHA-256 (naming.md §5.2).
    #[must_use]
    pub fn compose(kind: Kind, name: &str, op: Op, attempt: i32, hash6: &str) -> Self {
        let with = |name: &str| format!("captf-{}-{name}-{op}-a{attempt}-{hash6}", kind.short());
        let plain = with(name);
        if plain.len() <= JOB_NAME_MAX {
            Self(plain)
        } else {
            Self(with(&short_hash(name)))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes the name apart; `None` when it does not have the form of an operator's Job name.
    #[must_use]
    pub fn parse(&self) -> Option<ParsedJobName> {
        ParsedJobName::parse(&self.0)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for JobName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The parts of a Job name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedJobName {
    /// Kind of the object the Job runs for.
    pub kind: Kind,
    /// The object's name, or its hash when the name was too long: compare with
    /// [`ParsedJobName::belongs_to`], do not print it as the object's name.
    pub name_part: String,
    /// What the Job runs.
    pub op: Op,
    /// Attempt number.
    pub attempt: i32,
    /// The six hexadecimal digits.
    pub hash6: String,
}

impl ParsedJobName {
    /// Splits from the right: hash6, `a<attempt>`, operation; what is left is `captf-<short>-<name>`
    /// (cli.md §1.2). An attempt that is not written as the operator writes it is no match.
    #[must_use]
    pub fn parse(job: &str) -> Option<Self> {
        let (rest, hash6) = job.rsplit_once('-')?;
        let (rest, attempt) = rest.rsplit_once('-')?;
        let (rest, op) = rest.rsplit_once('-')?;
        let (short, name_part) = rest.strip_prefix("captf-")?.split_once('-')?;
        let digits = attempt.strip_prefix('a')?;
        let attempt: i32 = digits.parse().ok()?;
        if attempt.to_string() != digits || hash6.is_empty() || name_part.is_empty() {
            return None;
        }
        Some(Self {
            kind: Kind::from_short(short)?,
            name_part: name_part.to_owned(),
            op: op.parse().ok()?,
            attempt,
            hash6: hash6.to_owned(),
        })
    }

    /// Whether the name is exactly the one a Job of this object would have.
    #[must_use]
    pub fn belongs_to(&self, kind: Kind, name: &str) -> bool {
        let theirs = format!(
            "captf-{}-{}-{}-a{}-{}",
            self.kind.short(),
            self.name_part,
            self.op,
            self.attempt,
            self.hash6
        );
        JobName::compose(kind, name, self.op, self.attempt, &self.hash6).as_str() == theirs
    }
}

/// The parsed Job name when `pod` is a pod of one of this object's own Jobs, whatever operation and
/// attempt; anything else is `None` (naming.md §5.6).
#[must_use]
pub fn own_pod(kind: Kind, name: &str, pod: &str) -> Option<ParsedJobName> {
    let (job, random) = pod.rsplit_once('-')?;
    if random.len() != POD_SUFFIX_LEN {
        return None;
    }
    ParsedJobName::parse(job).filter(|parsed| parsed.belongs_to(kind, name))
}

/// Whether `pod` is a pod of one of this object's own Jobs (naming.md §5.6, `ownsPod`).
#[must_use]
pub fn owns_pod(kind: Kind, name: &str, pod: &str) -> bool {
    own_pod(kind, name, pod).is_some()
}

/// One more than the highest attempt label among all retained Jobs of the same object and
/// operation, whatever their outcome; labels that are not numbers are ignored, no Job gives 1
/// (naming.md §5.4). Counting failures instead would use names again after pruning.
#[must_use]
pub fn next_attempt<'a>(attempt_labels: impl IntoIterator<Item = &'a str>) -> i32 {
    attempt_labels
        .into_iter()
        .filter_map(|label| label.parse::<i32>().ok())
        .fold(0, i32::max)
        .saturating_add(1)
}

#[cfg(test)]
mod tests;
