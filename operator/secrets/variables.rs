//! Reading the sources of user variables, live at each render (I-13).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::keys::{TRUE, labels};
use crate::api::{VariablesFormat, VariablesSource};
use crate::client::{Access, ApiError};
use crate::inputs::{SourceContent, SourceKind, ValueFormat, VariableSource};

/// Reads every entry of `spec.variablesFrom`, in list order, for
/// [`Variables::merge`](crate::inputs::Variables::merge). Missing and unlabelled sources are no errors
/// here: the merge decides what they mean.
///
/// # Errors
/// When a read fails.
pub async fn read(
    access: &Access,
    namespace: &str,
    entries: &[VariablesSource],
) -> Result<Vec<VariableSource>, ApiError> {
    let mut sources = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some((kind, name)) = reference(entry) else {
            continue;
        };
        let content = match kind {
            SourceKind::ConfigMap => access
                .get(&access.api(namespace), name)
                .await?
                .map(of_config_map),
            SourceKind::Secret => access
                .get(&access.api(namespace), name)
                .await?
                .map(of_secret),
        };
        sources.push(VariableSource {
            kind,
            name: name.to_owned(),
            format: match entry.format {
                Some(VariablesFormat::Json) => ValueFormat::Json,
                _ => ValueFormat::String,
            },
            optional: entry.optional.unwrap_or(false),
            content,
        });
    }
    Ok(sources)
}

/// What an entry names; the schema asks for exactly one.
fn reference(entry: &VariablesSource) -> Option<(SourceKind, &str)> {
    let config_map = entry
        .config_map_ref
        .as_ref()
        .map(|it| (SourceKind::ConfigMap, it.name.as_str()));
    config_map.or_else(|| {
        entry
            .secret_ref
            .as_ref()
            .map(|it| (SourceKind::Secret, it.name.as_str()))
    })
}

fn of_config_map(source: ConfigMap) -> SourceContent {
    let text = source
        .data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.into_bytes()));
    let binary = source
        .binary_data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.0));
    content(&source.metadata, text.chain(binary).collect())
}

fn of_secret(source: Secret) -> SourceContent {
    let data = source
        .data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.0))
        .collect();
    content(&source.metadata, data)
}

fn content(meta: &ObjectMeta, data: BTreeMap<String, Vec<u8>>) -> SourceContent {
    let label = meta
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::VARIABLES));
    SourceContent {
        labelled: label.is_some_and(|value| value == TRUE),
        data,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn binary_data_is_read_like_data_and_the_label_must_be_exactly_true() {
        let read = |label: &str| {
            let source: ConfigMap = serde_json::from_value(json!({
                "metadata": {"labels": {"captf.io/variables": label}},
                "data": {"a": "1"},
                "binaryData": {"b": "Mg=="}
            }))
            .unwrap_or_default();
            of_config_map(source)
        };
        let content = read("true");
        assert!(content.labelled);
        assert_eq!(
            content.data,
            BTreeMap::from([
                ("a".to_owned(), b"1".to_vec()),
                ("b".to_owned(), b"2".to_vec())
            ])
        );
        assert!(!read("yes").labelled);
    }
}
