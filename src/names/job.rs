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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use Kind::{TerraformCluster as C, TerraformMachine as M, TerraformMachinePool as MP};

    const GOLDEN: &str = "h2:e10a5fcbec6ca2745898f8cae279211c217179b1d90afa7e2ce09fb3e24b64b4";
    const MACHINE: &str = "prod-md-0-abcde";

    fn job(kind: Kind, name: &str, op: Op, attempt: i32, hash: &str, tick: &Tick) -> String {
        JobSeed {
            kind,
            name,
            op,
            attempt,
            inputs: &InputsHash::new(hash),
            tick,
        }
        .job_name()
        .to_string()
    }

    #[rstest]
    #[case(
        M,
        MACHINE,
        Op::Apply,
        1,
        "h1:abc",
        "captf-m-prod-md-0-abcde-apply-a1-dbb569"
    )]
    #[case(
        M,
        MACHINE,
        Op::Apply,
        2,
        "h1:abc",
        "captf-m-prod-md-0-abcde-apply-a2-3489af"
    )]
    #[case(
        M,
        MACHINE,
        Op::Destroy,
        1,
        "h1:abc",
        "captf-m-prod-md-0-abcde-destroy-a1-ecb9e9"
    )]
    #[case(
        M,
        MACHINE,
        Op::Refresh,
        1,
        "h1:abc",
        "captf-m-prod-md-0-abcde-refresh-a1-432193"
    )]
    #[case(
        M,
        MACHINE,
        Op::Drift,
        1,
        "h1:abc",
        "captf-m-prod-md-0-abcde-drift-a1-8f220f"
    )]
    #[case(C, "prod", Op::Apply, 1, "h1:abc", "captf-c-prod-apply-a1-dbb569")]
    #[case(C, "prod", Op::Apply, 3, "h1:abc", "captf-c-prod-apply-a3-a77b01")]
    #[case(C, "prod", Op::Plan, 1, "h1:abc", "captf-c-prod-plan-a1-49ae0c")]
    #[case(
        M,
        MACHINE,
        Op::Apply,
        1,
        GOLDEN,
        "captf-m-prod-md-0-abcde-apply-a1-0dd3d7"
    )]
    #[case(
        MP,
        "prod-workers-eu-west-1-large-7d9f8-abcde",
        Op::Destroy,
        1,
        GOLDEN,
        "captf-mp-b2f5278399505546-destroy-a1-0e663d"
    )]
    fn job_name_worked_examples_without_a_tick(
        #[case] kind: Kind,
        #[case] name: &str,
        #[case] op: Op,
        #[case] attempt: i32,
        #[case] hash: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(job(kind, name, op, attempt, hash, &Tick::none()), expected);
    }

    #[rstest]
    #[case(
        M,
        MACHINE,
        Op::Restore,
        1,
        "h1:abc",
        Tick::restore("captf-state-backup-0123456789abcdef-m-7"),
        "captf-m-prod-md-0-abcde-restore-a1-158d59"
    )]
    #[case(
        M,
        MACHINE,
        Op::Drift,
        4,
        GOLDEN,
        Tick::since(Some(checked())),
        "captf-m-prod-md-0-abcde-drift-a4-54eba1"
    )]
    #[case(
        C,
        "prod",
        Op::Apply,
        2,
        GOLDEN,
        Tick::remediate(Some(checked())),
        "captf-c-prod-apply-a2-7b9f66"
    )]
    fn job_name_worked_examples_with_a_tick(
        #[case] kind: Kind,
        #[case] name: &str,
        #[case] op: Op,
        #[case] attempt: i32,
        #[case] hash: &str,
        #[case] tick: Tick,
        #[case] expected: &str,
    ) {
        assert_eq!(job(kind, name, op, attempt, hash, &tick), expected);
    }

    fn checked() -> Timestamp {
        "2026-10-01T12:00:00Z".parse().unwrap()
    }

    #[rstest]
    #[case('a', "captf-c-demo-apply-a3-b9e2b2")]
    #[case('b', "captf-c-demo-apply-a3-0c9bd9")]
    fn another_inputs_hash_gives_another_job_name(#[case] digit: char, #[case] expected: &str) {
        let hash = format!("h1:{}", digit.to_string().repeat(64));
        assert_eq!(job(C, "demo", Op::Apply, 3, &hash, &Tick::none()), expected);
    }

    #[test]
    fn a_name_that_does_not_fit_is_hashed() {
        let long = "a-very-long-machine-name-that-cannot-fit-in-a-job-name-0123456789";
        let hash = format!("h1:{}", "a".repeat(64));
        assert_eq!(
            job(M, long, Op::Apply, 1, &hash, &Tick::none()),
            "captf-m-783ecd3801659632-apply-a1-b50a1b"
        );
    }

    #[rstest]
    #[case("web", 3, "abcdef", "captf-m-web-apply-a3-abcdef")]
    #[case(&"x".repeat(33), 1, "aaaaaa", &format!("captf-m-{}-apply-a1-aaaaaa", "x".repeat(33)))]
    #[case(&"x".repeat(34), 1, "aaaaaa", "captf-m-b0b43789f1857820-apply-a1-aaaaaa")]
    #[case(&"n".repeat(200), 1, "aaaaaa", "captf-m-1be63cc0bde6bd45-apply-a1-aaaaaa")]
    fn job_name_at_57_is_kept_at_58_replaced(
        #[case] name: &str,
        #[case] attempt: i32,
        #[case] hash6: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(
            JobName::compose(M, name, Op::Apply, attempt, hash6).as_str(),
            expected
        );
    }

    #[rstest]
    #[case("web", "captf-m-web-apply-a1-abc123-x7k2p", true)]
    #[case("web-1", "captf-m-web-1-drift-a12-abc123-x7k2p", true)]
    #[case("web", "captf-m-web-restore-a2-abc123-x7k2p", true)]
    #[case("web", "captf-m-web-plan-a1-abc123-x7k2p", true)]
    #[case("web", "captf-c-web-apply-a1-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-1-apply-a1-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-apply-a1-abc123", false)]
    #[case("web", "captf-m-web-bogus-a1-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-apply-1-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-apply-ax-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-apply-a01-abc123-x7k2p", false)]
    #[case("web", "captf-m-web-apply-a+1-abc123-x7k2p", false)]
    #[case("web", "laptop", false)]
    #[case("web", "", false)]
    fn owns_pod_worked_examples(#[case] name: &str, #[case] pod: &str, #[case] expected: bool) {
        assert_eq!(owns_pod(M, name, pod), expected);
    }

    #[test]
    fn owns_pod_of_a_name_that_was_hashed() {
        let name = "n".repeat(60);
        let job = JobName::compose(M, &name, Op::Destroy, 3, "abc123");
        let parsed = own_pod(M, &name, &format!("{job}-x7k2p")).expect("own pod");
        assert_eq!((parsed.op, parsed.attempt), (Op::Destroy, 3));
        assert!(!owns_pod(M, &"m".repeat(60), &format!("{job}-x7k2p")));
    }

    #[test]
    fn a_holder_name_is_split_from_the_right() {
        let parsed = JobName::new("captf-mp-apply-a1-drift-a12-abc123").parse();
        assert_eq!(
            parsed,
            Some(ParsedJobName {
                kind: MP,
                name_part: "apply-a1".into(),
                op: Op::Drift,
                attempt: 12,
                hash6: "abc123".into(),
            })
        );
        assert_eq!(JobName::new("somebody-else").parse(), None);
    }

    #[rstest]
    #[case(&[], 1)]
    #[case(&["1"], 2)]
    #[case(&["3", "1", "2"], 4)]
    #[case(&["x", "", "99999999999", "2"], 3)]
    #[case(&["-5"], 1)]
    #[case(&["2147483647"], i32::MAX)]
    fn attempt_is_one_more_than_the_highest_retained(
        #[case] labels: &[&str],
        #[case] expected: i32,
    ) {
        assert_eq!(next_attempt(labels.iter().copied()), expected);
    }

    #[test]
    fn a_refresh_retry_keeps_its_tick_and_a_success_moves_it() {
        let since = |at: &str| Tick::since(Some(at.parse().unwrap()));
        let name = |tick: &Tick| job(M, "web", Op::Refresh, 1, "h1:abc", tick);
        let first = since("2026-10-01T12:00:00Z");
        assert_eq!(name(&first), name(&since("2026-10-01T12:00:00.4Z")));
        assert_ne!(name(&first), name(&since("2026-10-01T12:00:01Z")));
        assert_eq!(Tick::since(None), Tick::none());
    }

    fn is_dns1123_subdomain(name: &str) -> bool {
        !name.is_empty()
            && name.len() <= 253
            && name.split('.').all(|part| {
                let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                part.bytes().all(|byte| inner(byte) || byte == b'-')
                    && part.bytes().next().is_some_and(inner)
                    && part.bytes().last().is_some_and(inner)
            })
    }

    proptest! {
        #[test]
        fn every_job_name_fits_and_is_its_own(
            name in "[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])?",
            op in prop::sample::select(Op::ALL.to_vec()),
            kind in prop::sample::select(Kind::ALL.to_vec()),
            hash in "h2:[0-9a-f]{64}",
        ) {
            let seed = JobSeed {
                kind,
                name: &name,
                op,
                attempt: i32::MAX,
                inputs: &InputsHash::new(hash),
                tick: &Tick::none(),
            };
            let job = seed.job_name();
            prop_assert!(job.as_str().len() <= 57);
            prop_assert!(is_dns1123_subdomain(job.as_str()));
            let pod = format!("{job}-x7k2p");
            prop_assert!(pod.len() <= 63);
            prop_assert!(owns_pod(kind, &name, &pod));
            let other = Kind::ALL[(Kind::ALL.iter().position(|k| *k == kind).unwrap() + 1) % 3];
            prop_assert!(!owns_pod(other, &name, &pod));
        }

        #[test]
        fn hash6_changes_with_each_of_its_inputs(
            hash in "[a-z0-9]{1,70}",
            attempt in 1..i32::MAX,
            tick in "[0-9]{1,20}",
        ) {
            let inputs = InputsHash::new(&hash);
            let base = (Tick::restore(&tick), Op::Apply, attempt, inputs.clone());
            let seeds = [
                base.clone(),
                (Tick::restore(&format!("{tick}0")), Op::Apply, attempt, inputs.clone()),
                (Tick::restore(&tick), Op::Plan, attempt, inputs),
                (Tick::restore(&tick), Op::Apply, attempt - 1, InputsHash::new(&hash)),
                (Tick::restore(&tick), Op::Apply, attempt, InputsHash::new(format!("{hash}x"))),
            ];
            // The whole digest differs; its first 24 bits may, rarely, agree.
            let texts: BTreeSet<String> = seeds
                .iter()
                .map(|(tick, op, attempt, inputs)| {
                    Hash6::new(inputs, *op, *attempt, tick).as_str().to_owned()
                })
                .collect();
            prop_assert!(texts.len() >= 4);
        }

        #[test]
        fn two_different_long_names_differ(a in "[a-z]{58,200}", b in "[a-z]{58,200}") {
            prop_assume!(a != b);
            prop_assert_ne!(
                JobName::compose(M, &a, Op::Apply, 1, "aaaaaa"),
                JobName::compose(M, &b, Op::Apply, 1, "aaaaaa")
            );
        }
    }
}
