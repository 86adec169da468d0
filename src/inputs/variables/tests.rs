#![allow(clippy::unwrap_used, clippy::expect_used)]

use rstest::rstest;
use serde_json::json;

use super::*;

fn source(kind: SourceKind, name: &str, data: &[(&str, &str)]) -> VariableSource {
    VariableSource {
        kind,
        name: name.into(),
        format: ValueFormat::String,
        optional: false,
        content: Some(SourceContent {
            labelled: true,
            data: data
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
                .collect(),
        }),
    }
}

fn as_json(source: VariableSource) -> VariableSource {
    VariableSource {
        format: ValueFormat::Json,
        ..source
    }
}

fn shown(variables: &Variables) -> Vec<(String, String, bool)> {
    variables
        .iter()
        .map(|(name, variable)| (name.into(), variable.value.to_pretty(), variable.sensitive))
        .collect()
}

use SourceKind::{ConfigMap, Secret};

#[test]
fn i8_later_source_wins_and_inline_wins_over_all() {
    let sources = [
        source(ConfigMap, "a", &[("x", "a"), ("y", "a"), ("z", "a")]),
        source(ConfigMap, "b", &[("x", "b"), ("y", "b")]),
    ];
    let merged = Variables::merge(Role::Machine, &sources, Some(&json!({"x": 1}))).unwrap();
    assert_eq!(
        shown(&merged),
        [
            ("x".into(), "1".into(), false),
            ("y".into(), "\"b\"".into(), false),
            ("z".into(), "\"a\"".into(), false),
        ]
    );
}

#[test]
fn i9_json_values_are_kept_as_written_and_strings_become_json_strings() {
    let sources = [
        as_json(source(
            ConfigMap,
            "j",
            &[("n", " 1.50 "), ("o", r#"{"b":1,"a":2}"#)],
        )),
        source(ConfigMap, "s", &[("t", "1.50")]),
    ];
    let merged = Variables::merge(Role::Cluster, &sources, None).unwrap();
    assert_eq!(
        shown(&merged),
        [
            ("n".into(), "1.50".into(), false),
            ("o".into(), "{\n  \"b\": 1,\n  \"a\": 2\n}".into(), false),
            ("t".into(), "\"1.50\"".into(), false),
        ]
    );
}

#[rstest]
#[case(&[(ConfigMap, "a"), (Secret, "b")], None, true)]
#[case(&[(Secret, "a"), (ConfigMap, "b")], None, false)]
#[case(&[(Secret, "a")], Some(json!({"x": 1})), false)]
#[case(&[(Secret, "a")], None, true)]
fn i10_sensitive_when_the_winning_value_came_from_a_secret(
    #[case] kinds: &[(SourceKind, &str)],
    #[case] inline: Option<serde_json::Value>,
    #[case] sensitive: bool,
) {
    let sources: Vec<_> = kinds
        .iter()
        .map(|(kind, name)| source(*kind, name, &[("x", "v")]))
        .collect();
    let merged = Variables::merge(Role::Cluster, &sources, inline.as_ref()).unwrap();
    assert_eq!(merged.sensitive().count() == 1, sensitive);
}

#[test]
fn i11_a_missing_source_closes_the_gate() {
    let missing = VariableSource {
        content: None,
        ..source(ConfigMap, "settings", &[])
    };
    let error = Variables::merge(Role::Cluster, &[missing], None).unwrap_err();
    assert_eq!(error.reason(), "VariablesSourceNotFound");
    assert_eq!(
        error.to_string(),
        "ConfigMap settings of spec.variablesFrom does not exist: create it with the label \
         captf.io/variables=true, or mark it optional"
    );
}

#[test]
fn i11_an_unlabelled_source_closes_the_gate() {
    let mut unlabelled = source(Secret, "db", &[("x", "v")]);
    unlabelled.content.as_mut().unwrap().labelled = false;
    let error = Variables::merge(Role::Cluster, &[unlabelled], None).unwrap_err();
    assert_eq!(error.reason(), "VariablesSourceNotFound");
    assert!(error.to_string().starts_with("Secret db "));
}

#[rstest]
#[case(None)]
#[case(Some(SourceContent { labelled: false, data: BTreeMap::new() }))]
fn i11_an_optional_source_contributes_nothing(#[case] content: Option<SourceContent>) {
    let optional = VariableSource {
        optional: true,
        content,
        ..source(Secret, "db", &[])
    };
    assert!(
        Variables::merge(Role::Cluster, &[optional], None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn i11_messages_name_source_and_key_and_never_the_value() {
    let hidden = "planted{secret";
    let errors = [
        Variables::merge(
            Role::Cluster,
            &[as_json(source(Secret, "db", &[("password", hidden)]))],
            None,
        ),
        Variables::merge(
            Role::Cluster,
            &[source(Secret, "db", &[("captf_x", hidden)])],
            None,
        ),
        Variables::merge(Role::Cluster, &[], Some(&json!({"9x": hidden}))),
        Variables::merge(Role::Cluster, &[], Some(&json!(hidden))),
    ]
    .map(Result::unwrap_err);
    let messages = errors.map(|error| {
        assert_eq!(error.reason(), "VariablesInvalid");
        error.to_string()
    });
    assert_eq!(
        messages,
        [
            "the value of key \"password\" of Secret db is not valid JSON, which its format \
             JSON asks for",
            "key \"captf_x\" of Secret db starts with captf_, which is reserved",
            "key \"9x\" of spec.variables is not a Terraform name (letters, digits, _ and -, \
             not starting with a digit or -)",
            "spec.variables must be a JSON object",
        ]
    );
}

#[test]
fn i11_a_value_that_is_not_utf8_is_invalid() {
    let mut binary = source(ConfigMap, "c", &[]);
    let data = &mut binary.content.as_mut().unwrap().data;
    data.insert("x".into(), vec![0xff]);
    let error = Variables::merge(Role::Cluster, &[binary], None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the value of key \"x\" of ConfigMap c is not UTF-8 text"
    );
}

#[rstest]
#[case(json!(null))]
#[case(json!([1]))]
fn c8_variables_must_be_a_json_object(#[case] inline: serde_json::Value) {
    assert_eq!(
        Variables::merge(Role::Cluster, &[], Some(&inline)).unwrap_err(),
        VariablesError::NotAnObject
    );
}

#[rstest]
#[case(Role::Cluster, "my-name", None)]
#[case(Role::Cluster, "_x9", None)]
#[case(Role::Cluster, "machine_name", None)]
#[case(
    Role::Machine,
    "machine_name",
    Some(NameProblem::ContractInput(Role::Machine))
)]
#[case(Role::Cluster, "captf_tags", Some(NameProblem::Prefix))]
#[case(Role::Cluster, "captf_anything", Some(NameProblem::Prefix))]
#[case(Role::Cluster, "source", Some(NameProblem::MetaArgument))]
#[case(Role::Cluster, "locals", Some(NameProblem::MetaArgument))]
#[case(Role::Cluster, "", Some(NameProblem::Pattern))]
#[case(Role::Cluster, "-x", Some(NameProblem::Pattern))]
#[case(Role::Cluster, "9x", Some(NameProblem::Pattern))]
#[case(Role::Cluster, "a.b", Some(NameProblem::Pattern))]
#[case(Role::Cluster, "é", Some(NameProblem::Pattern))]
fn c7_variable_names(#[case] role: Role, #[case] name: &str, #[case] problem: Option<NameProblem>) {
    assert_eq!(check_variable_name(role, name).err(), problem);
}
