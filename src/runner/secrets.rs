//! Where secret values come from: the environment, the inputs, the plan (runner.md §11).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::plan::Plan;
use super::redact::Secrets;

/// Least length of a line that is hidden on its own, for values with many ordinary lines.
const LONG_LINE: usize = 16;
/// The variable with a machine's bootstrap data in base64.
const BOOTSTRAP_DATA: &str = "bootstrap_data";

/// Inputs that cannot be searched for secrets. Their content is secret, so it says no more than where.
#[derive(Debug, thiserror::Error)]
#[error("the inputs in {} cannot be read, so secrets in them could not be hidden; nothing was executed", .0.display())]
pub(super) struct UnreadableInputs(PathBuf);

/// Adds the values of variables that the generated root declares sensitive. A file that is not there holds none; one
/// that cannot be followed may be read by a runtime all the same, so it is an error.
pub(super) fn add_inputs(secrets: &mut Secrets, root: &Path) -> Result<(), UnreadableInputs> {
    let declared = read_object(root.join("main.tf.json"))?;
    let values = read_object(root.join("terraform.tfvars.json"))?;
    let is_sensitive =
        |name: &str| declared.pointer(&["variable", name, "sensitive"]) == Some(&Value::Bool(true));
    for (name, value) in &values.0 {
        if name == BOOTSTRAP_DATA {
            add_bootstrap_data(secrets, value);
        } else if is_sensitive(name) {
            each_string(value, &mut |text| secrets.add(text));
        }
    }
    Ok(())
}

/// Bootstrap data is a secret as given and as what it encodes.
fn add_bootstrap_data(secrets: &mut Secrets, value: &Value) {
    let Some(encoded) = value.as_str() else {
        return;
    };
    secrets.add_with_lines_of(encoded, LONG_LINE);
    let decoded = BASE64_STANDARD
        .decode(encoded)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(decoded) = decoded {
        secrets.add_with_lines_of(&decoded, LONG_LINE);
    }
}

/// Adds what the plan marks as sensitive: in the changes of all resources and in the data that it read. Output changes
/// repeat what resources and variables hold.
pub(super) fn add_plan(secrets: &mut Secrets, plan: &Plan) {
    let mut add = |text: &str| secrets.add_with_lines_of(text, LONG_LINE);
    for change in plan.changes() {
        each_marked(&change.before, &change.before_sensitive, &mut add);
        each_marked(&change.after, &change.after_sensitive, &mut add);
    }
    for data in plan.data_resources() {
        each_marked(&data.values, &data.sensitive_values, &mut add);
    }
}

/// A JSON object.
struct Object(Map<String, Value>);

impl Object {
    fn pointer(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter()
            .try_fold(self.0.get(*first)?, |value, key| value.get(key))
    }
}

fn read_object(path: PathBuf) -> Result<Object, UnreadableInputs> {
    let read = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Map::new()),
        Err(_) => None,
    };
    read.map(Object).ok_or(UnreadableInputs(path))
}

/// Every string inside a value.
fn each_string(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, found)),
        Value::Object(members) => members
            .values()
            .for_each(|member| each_string(member, found)),
        _ => {}
    }
}

/// Every string that a marker of the same shape marks.
fn each_marked(value: &Value, marker: &Value, found: &mut impl FnMut(&str)) {
    match (value, marker) {
        (_, Value::Bool(true)) => each_string(value, found),
        (Value::Array(items), Value::Array(markers)) => {
            items
                .iter()
                .zip(markers)
                .for_each(|(item, marker)| each_marked(item, marker, found));
        }
        (Value::Object(members), Value::Object(markers)) => {
            for (key, marker) in markers {
                if let Some(member) = members.get(key) {
                    each_marked(member, marker, found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::redact::Redactor;
    use super::*;

    fn inputs(declared: &Value, values: &Value) -> Redactor {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.tf.json"), declared.to_string()).unwrap();
        fs::write(
            folder.path().join("terraform.tfvars.json"),
            values.to_string(),
        )
        .unwrap();
        let mut secrets = Secrets::default();
        add_inputs(&mut secrets, folder.path()).unwrap();
        Redactor::new(&secrets)
    }

    #[test]
    fn strings_of_sensitive_variables_are_secrets() {
        let redactor = inputs(
            &json!({"variable": {"db": {"sensitive": true}, "size": {}, "region": {"sensitive": false}}}),
            &json!({"db": {"user": "planted-user", "list": ["planted-item", 4711]}, "size": "large", "region": "north"}),
        );
        assert_eq!(
            redactor.redact("planted-user planted-item 4711 large north"),
            "(sensitive) (sensitive) 4711 large north"
        );
    }

    #[test]
    fn bootstrap_data_is_a_secret_encoded_and_decoded() {
        // "#cloud-config\npassword: planted-secret\n"
        let encoded = "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogcGxhbnRlZC1zZWNyZXQK";
        let redactor = inputs(
            &json!({"variable": {"bootstrap_data": {"sensitive": true}}}),
            &json!({"bootstrap_data": encoded}),
        );
        assert_eq!(redactor.redact(&format!("<{encoded}>")), "<(sensitive)>");
        assert_eq!(
            redactor.redact("#cloud-config|password: planted-secret"),
            "#cloud-config|(sensitive)"
        );
    }

    #[test]
    fn inputs_that_are_not_there_hold_no_secrets() {
        let mut secrets = Secrets::default();
        add_inputs(&mut secrets, Path::new("/nowhere")).unwrap();
        assert_eq!(Redactor::new(&secrets).redact("text"), "text");
    }

    /// `{"db": <as many lists in each other>}` with this text in the innermost.
    fn nested(levels: usize, text: &str) -> String {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"db": {open}"{text}"{close}}}"#)
    }

    #[test]
    fn a_secret_in_the_deepest_list_that_inputs_may_have_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let declared = json!({"variable": {"db": {"sensitive": true}}});
        fs::write(folder.path().join("main.tf.json"), declared.to_string()).unwrap();
        let values = folder.path().join("terraform.tfvars.json");
        fs::write(values, nested(120, "planted-deep")).unwrap();
        let mut secrets = Secrets::default();
        add_inputs(&mut secrets, folder.path()).unwrap();
        assert_eq!(
            Redactor::new(&secrets).redact("planted-deep"),
            "(sensitive)"
        );
    }

    #[test]
    fn inputs_that_cannot_be_followed_are_an_error_that_shows_nothing_of_them() {
        for content in [
            nested(200, "planted-secret"),
            r#""planted-secret""#.to_owned(),
            "{planted-secret".to_owned(),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("terraform.tfvars.json"), content).unwrap();
            let error = add_inputs(&mut Secrets::default(), folder.path()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("terraform.tfvars.json"), "{text}");
            assert!(!text.contains("planted"), "{text}");
        }
    }

    #[test]
    fn what_a_plan_marks_is_a_secret() {
        let plan = json!({
            "resource_changes": [{"address": "a", "change": {
                "actions": ["no-op"],
                "before": {"old": "planted-before", "open": "visible-text"},
                "before_sensitive": {"old": true},
                "after": {"list": [{"x": "planted-after"}, "visible-item"]},
                "after_sensitive": {"list": [{"x": true}, false], "missing": true},
            }}],
            "prior_state": {"values": {"root_module": {"child_modules": [{"resources": [
                {"mode": "data", "values": {"token": "planted-data"}, "sensitive_values": {"token": true}},
                {"mode": "managed", "values": {"token": "managed-data"}, "sensitive_values": {"token": true}},
            ]}]}}},
            "output_changes": {"o": {"actions": ["create"], "after": "output-text", "after_sensitive": true}},
        });
        let mut secrets = Secrets::default();
        add_plan(
            &mut secrets,
            &Plan::parse(plan.to_string().as_bytes()).unwrap(),
        );
        let redactor = Redactor::new(&secrets);
        for hidden in ["planted-before", "planted-after", "planted-data"] {
            assert_eq!(redactor.redact(hidden), "(sensitive)", "{hidden}");
        }
        for open in [
            "visible-text",
            "visible-item",
            "managed-data",
            "output-text",
        ] {
            assert_eq!(redactor.redact(open), open);
        }
    }
}
