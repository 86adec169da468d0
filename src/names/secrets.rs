//! Names of the Secrets the operator writes and of TerraformPlans (naming.md §6, §8).

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::digest::{hex, sha256_hex, short_hash};
use super::job::JobName;
use super::object::Kind;
use crate::text::cut;

/// Longest object name Kubernetes allows.
pub const SECRET_NAME_MAX: usize = 253;

/// Data key of the plan key Secret; its value is 32 random bytes.
pub const PLAN_KEY_DATA_KEY: &str = "key";

/// Longest start of the target's name inside a plan's name: 253 less a dash and ten digits.
const PLAN_TARGET_MAX: usize = 242;

/// `prefix short-name`; beyond 253 bytes the head is cut, its trailing `-` and `.` trimmed, and
/// `-hex(sha256(name))[:16]` appended. The hash is over the object's name alone (naming.md §6).
#[must_use]
pub fn bounded_secret_name(prefix: &str, kind: Kind, name: &str) -> String {
    let full = format!("{prefix}{}-{name}", kind.short());
    if full.len() <= SECRET_NAME_MAX {
        return full;
    }
    let tail = format!("-{}", short_hash(name));
    let head = cut(&full, SECRET_NAME_MAX - tail.len());
    format!("{}{tail}", head.trim_end_matches(['-', '.']))
}

/// The attempt record ("durable inputs"): what the newest apply Job was given.
#[must_use]
pub fn attempt_inputs_secret(kind: Kind, name: &str) -> String {
    bounded_secret_name("captf-inputs-", kind, name)
}

/// The applied record: what the newest successful apply Job was given.
#[must_use]
pub fn applied_inputs_secret(kind: Kind, name: &str) -> String {
    bounded_secret_name("captf-applied-", kind, name)
}

/// The key that plan fingerprints are made with.
#[must_use]
pub fn plan_key_secret(kind: Kind, name: &str) -> String {
    bounded_secret_name("captf-plankey-", kind, name)
}

/// The per-run Secret of a Job; at most 67 characters, never cut.
#[must_use]
pub fn per_run_secret(job: &JobName) -> String {
    format!("captf-run-{job}")
}

/// The mirror of an identity's credentials, one per identity and namespace; an identity whose
/// mirror name would be longer than 253 bytes is replaced by its hash (naming.md §6, B12).
#[must_use]
pub fn credentials_mirror(identity: &str) -> String {
    let full = format!("captf-creds-{identity}");
    if full.len() <= SECRET_NAME_MAX {
        full
    } else {
        format!("captf-creds-{}", short_hash(identity))
    }
}

/// The annotation `captf.io/source-hash` of a mirror: SHA-256 over every key in byte order and its
/// value, each preceded by its length as a big-endian 64-bit number (naming.md §6).
#[must_use]
pub fn source_hash(data: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in data {
        for part in [key.as_bytes(), value.as_slice()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    hex(&hasher.finalize())
}

/// The name of the TerraformPlan that `job` made for `target`: the target's first 242 bytes, `-`, ten
/// hexadecimal digits over Job name and plan hash. A pass that reads the same Job again finds its
/// own plan (naming.md §8).
#[must_use]
pub fn plan_name(target: &str, job: &JobName, plan_hash: &str) -> String {
    let mut digest = sha256_hex(format!("{job}\n{plan_hash}"));
    digest.truncate(10);
    format!("{}-{digest}", cut(target, PLAN_TARGET_MAX))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn record_names_of_the_table() {
        let (cluster, machine) = (Kind::TerraformCluster, Kind::TerraformMachine);
        assert_eq!(
            attempt_inputs_secret(machine, "prod-md-0-abcde"),
            "captf-inputs-m-prod-md-0-abcde"
        );
        assert_eq!(
            attempt_inputs_secret(cluster, "prod"),
            "captf-inputs-c-prod"
        );
        assert_eq!(
            applied_inputs_secret(cluster, "prod"),
            "captf-applied-c-prod"
        );
        assert_eq!(plan_key_secret(cluster, "prod"), "captf-plankey-c-prod");
    }

    #[test]
    fn a_record_name_that_is_too_long_is_cut_and_hashed_to_253() {
        let name = attempt_inputs_secret(Kind::TerraformMachine, &"n".repeat(253));
        assert_eq!(
            name,
            format!("captf-inputs-m-{}-1f2036e55e5cabdd", "n".repeat(221))
        );
        assert_eq!(name.len(), 253);
        let name = attempt_inputs_secret(Kind::TerraformMachine, &"a".repeat(250));
        assert!(name.ends_with("aaa-3f3e35e0a775d9b1"));
        assert_eq!(name.len(), 253);
    }

    #[test]
    fn the_cut_head_ends_in_neither_dash_nor_dot() {
        let name = format!("{}{}", "n".repeat(219), ".-".repeat(17));
        let cut = attempt_inputs_secret(Kind::TerraformMachine, &name);
        assert_eq!(
            &cut[..cut.len() - 17],
            format!("captf-inputs-m-{}", "n".repeat(219))
        );
    }

    #[test]
    fn per_run_secret_is_the_job_name_with_a_prefix() {
        assert_eq!(
            per_run_secret(&JobName::new("captf-c-prod-apply-a1-dbb569")),
            "captf-run-captf-c-prod-apply-a1-dbb569"
        );
    }

    #[rstest]
    #[case("aws", "captf-creds-aws")]
    #[case(&"i".repeat(241), &format!("captf-creds-{}", "i".repeat(241)))]
    #[case(&"i".repeat(253), "captf-creds-d09f3254b336d8ae")]
    #[case(&"b".repeat(242), "captf-creds-6b8af27134702b69")]
    fn mirror_names(#[case] identity: &str, #[case] expected: &str) {
        assert_eq!(credentials_mirror(identity), expected);
    }

    #[test]
    fn source_hash_examples() {
        assert_eq!(
            source_hash(&BTreeMap::new()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let data = [
            ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
        .into();
        assert_eq!(
            source_hash(&data),
            "f5f95a22a12a084ded507edbebcc26bdbe35a1362bad65e95a6b465097991745"
        );
    }

    #[test]
    fn plan_name_example() {
        let hash = format!("p1:{}", "0123456789abcdef".repeat(4));
        let job = JobName::new("captf-c-prod-plan-a1-abcdef");
        assert_eq!(plan_name("prod", &job, &hash), "prod-f377e73fed");
        assert_eq!(plan_name(&"t".repeat(253), &job, &hash).len(), 253);
        assert_ne!(
            plan_name("prod", &JobName::new("captf-c-prod-plan-a2-abcdef"), &hash),
            "prod-f377e73fed"
        );
    }
}
