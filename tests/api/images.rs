//! The example images carry the labels of the module contract (contract.md §7.3).

use std::fs;
use std::path::Path;

/// The labels of a Containerfile, as `(key, value)`.
fn labels(folder: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(folder)
        .join("Containerfile");
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("LABEL ")?.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn label(folder: &str, key: &str) -> Option<String> {
    let of_key = |(found, value)| (found == key).then_some(value);
    labels(folder).into_iter().find_map(of_key)
}

#[test]
fn each_module_image_names_its_role() {
    for role in ["cluster", "machine", "machinepool"] {
        assert_eq!(label(role, "io.captf.role").as_deref(), Some(role));
    }
}

#[test]
fn the_base_of_the_module_images_names_contract_and_runtime() {
    let found = |key| label("base", key);
    assert_eq!(found("io.captf.contract").as_deref(), Some("v1alpha1"));
    assert_eq!(
        found("io.captf.runtime").as_deref(),
        Some("${RUNTIME_NAME}")
    );
    assert_eq!(
        found("io.captf.runtime.version").as_deref(),
        Some("${RUNTIME_VERSION}")
    );
}
