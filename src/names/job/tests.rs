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
fn attempt_is_one_more_than_the_highest_retained(#[case] labels: &[&str], #[case] expected: i32) {
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
