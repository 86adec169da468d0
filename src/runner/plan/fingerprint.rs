//! The fingerprint of a plan, `p2:…` (runner.md §6.3).
//!
//! An approval names the fingerprint of the plan that a person saw; an apply goes on only when it plans the same
//! effect again. It is keyed, so that it tells nothing about the values in the plan.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::effect::{self, Effect};
use super::{Change, Plan};
use crate::names::hex;
use crate::runner::gojson;
use crate::runner::hmac::hmac_sha256;

/// Least length of a plan key in bytes.
const KEY_BYTES: usize = 32;

/// The key of an object's plan fingerprints, at least 32 bytes. No plan is fingerprinted without one.
pub(crate) struct PlanKey(Vec<u8>);

impl fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanKey(..)")
    }
}

/// Why there is no usable plan key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanKeyError {
    /// The flag that names the key file is empty.
    #[error("this operation fingerprints its plan, but --plan-key-file names no file")]
    Unset,
    /// The file cannot be read.
    #[error("the plan key {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The key is too short.
    #[error("the plan key holds {0} bytes, at least 32 are needed")]
    Short(usize),
}

impl PlanKey {
    /// Reads the key file.
    ///
    /// # Errors
    /// When the path is empty, the file unreadable or the key shorter than 32 bytes.
    pub(crate) fn read(path: &Path) -> Result<Self, PlanKeyError> {
        if path.as_os_str().is_empty() {
            return Err(PlanKeyError::Unset);
        }
        let bytes = std::fs::read(path).map_err(|source| PlanKeyError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::from_bytes(bytes)
    }

    /// A key of these bytes.
    ///
    /// # Errors
    /// When there are fewer than 32.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, PlanKeyError> {
        if bytes.len() < KEY_BYTES {
            Err(PlanKeyError::Short(bytes.len()))
        } else {
            Ok(Self(bytes))
        }
    }
}

/// The fingerprint: one line per effective change, sorted, hashed.
///
/// # Errors
/// When an effect cannot be encoded; a plan without a fingerprint must not be applied.
pub(super) fn hash(plan: &Plan, key: &PlanKey) -> serde_json::Result<String> {
    let resources = plan
        .resource_changes
        .iter()
        .filter(|r| !r.change.is_no_op() || r.imports() || r.moves())
        .map(|r| line(&r.address, &r.change, &effect::of_resource(r), key));
    let outputs = plan
        .output_changes
        .iter()
        .filter(|(_, change)| !change.is_no_op())
        .map(|(name, change)| {
            line(
                &format!("output.{name}"),
                change,
                &effect::of_output(change),
                key,
            )
        });
    let mut lines: Vec<String> = resources.chain(outputs).collect::<Result<_, _>>()?;
    lines.sort_unstable();
    Ok(format!("p2:{}", hex(&Sha256::digest(lines.join("\n")))))
}

fn line(
    name: &str,
    change: &Change,
    effect: &Effect<'_>,
    key: &PlanKey,
) -> serde_json::Result<String> {
    let code = hmac_sha256(&key.0, &gojson::to_vec(effect)?);
    Ok(format!(
        "{name}|{}|{}",
        change.actions.join(","),
        hex(&code)
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::names::EMPTY_PLAN_HASH;

    fn key() -> PlanKey {
        PlanKey::from_bytes((0..32).collect()).unwrap()
    }

    fn fingerprint(document: &Value) -> String {
        hash(
            &Plan::parse(document.to_string().as_bytes()).unwrap(),
            &key(),
        )
        .unwrap()
    }

    fn delete() -> Value {
        json!({"address": "module.role.terraform_data.lb",
            "change": {"actions": ["delete"], "before": {"id": "x", "input": {"a": 1}}, "after": null}})
    }

    fn update(address: &str, before: &Value, after: &Value) -> Value {
        json!({"address": address, "change": {"actions": ["update"], "before": before, "after": after}})
    }

    #[test]
    fn worked_example_delete() {
        assert_eq!(
            fingerprint(&json!({"resource_changes": [delete()]})),
            "p2:75b6f4519491e5a5ecc11b1d3bcbf1c42e007c924b38cde2e385697d48603d9d"
        );
    }

    #[test]
    fn worked_example_delete_and_update() {
        let net = update(
            "module.role.terraform_data.net",
            &json!({"input": {"size": 1, "same": "x"}}),
            &json!({"input": {"size": 2, "same": "x"}}),
        );
        let line = line(
            "module.role.terraform_data.net",
            &serde_json::from_value(net["change"].clone()).unwrap(),
            &effect::of_output(&serde_json::from_value(net["change"].clone()).unwrap()),
            &key(),
        )
        .unwrap();
        assert_eq!(
            line,
            "module.role.terraform_data.net|update|71feec0092226adbb6f3af46d2f7cc907bee8aa145768d71b8a595dddb2c60d6"
        );
        let both = "p2:6ca3defc1ae19d9ac4f8ad7167650b4d18e0b5c63ce4a9ba4ead06fb15a48bea";
        assert_eq!(
            fingerprint(&json!({"resource_changes": [delete(), net]})),
            both
        );
        assert_eq!(
            fingerprint(&json!({"resource_changes": [net, delete()]})),
            both,
            "order does not matter"
        );
    }

    #[test]
    fn a_plan_of_no_ops_has_the_empty_hash() {
        let document = json!({
            "resource_changes": [{"address": "a", "change": {"actions": ["no-op"], "before": {}, "after": {}}}],
            "output_changes": {"o": {"actions": ["no-op"]}},
        });
        assert_eq!(fingerprint(&document), EMPTY_PLAN_HASH);
    }

    #[test]
    fn an_output_change_changes_the_hash() {
        let with = |after: Value| {
            fingerprint(
                &json!({"output_changes": {"o": {"actions": ["create"], "before": null, "after": after}}}),
            )
        };
        assert_ne!(with(json!(1)), EMPTY_PLAN_HASH);
        assert_ne!(with(json!(1)), with(json!(2)));
    }

    #[test]
    fn a_short_key_is_refused() {
        assert!(matches!(
            PlanKey::from_bytes(vec![0; 31]),
            Err(PlanKeyError::Short(31))
        ));
        assert!(matches!(
            PlanKey::read(Path::new("")),
            Err(PlanKeyError::Unset)
        ));
        assert!(matches!(
            PlanKey::read(Path::new("/nowhere/key")),
            Err(PlanKeyError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", key()), "PlanKey(..)");
    }
}
