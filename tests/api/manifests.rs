//! The checked-in manifests, compared with the code they are generated from or must match.
//!
//! `UPDATE=1 cargo test --test it api::manifests` rewrites the generated ones.

use std::{
    fs,
    path::{Path, PathBuf},
};

use captf::api::crd;
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("operator/manifests")
}

/// JSON with plain numbers: `serde_json` hides exact ones behind a type of its own, which only it
/// can write, and bounds of schemas are floats that should read as integers.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => serializer.serialize_i64(integer(number)),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Plain)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, Plain(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

fn integer(number: &Number) -> i64 {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).parse().unwrap()
}

/// Compares a checked-in file with what it should hold, or writes it when `UPDATE` is set.
fn assert_generated(path: &Path, expected: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date: run UPDATE=1 cargo test --test it api::manifests",
        path.display()
    );
}

#[test]
fn crds_are_those_of_the_types() {
    for crd in crd::all().unwrap() {
        let path = manifests().join(format!("crds/{}.yaml", crd.spec.names.plural));
        let json = serde_json::to_value(&crd).unwrap();
        let yaml = serde_saphyr::to_string(&Plain(&json)).unwrap();
        assert_generated(
            &path,
            &format!("# Generated from src/api by the test api::manifests; do not edit.\n{yaml}"),
        );
    }
}
