//! The two files a Job is given: `main.tf.json` and `terraform.tfvars.json` (inputs.md §3).

use std::collections::BTreeMap;
use std::fmt;

use super::contract::{Inputs, View};
use super::json::Json;
use super::role::{Input, Role};
use super::variables::{NameProblem, Variables, check_variable_name};

/// File name and Secret key of the generated root module.
pub const MAIN_TF_JSON: &str = "main.tf.json";

/// File name and Secret key of the input values.
pub const TFVARS_JSON: &str = "terraform.tfvars.json";

/// Most bytes of both files together, below what one Secret can hold (I-28).
pub const RENDERED_MAX: usize = 1_000_000;

/// How many inputs the message about too large files names.
const LARGEST_SHOWN: usize = 3;

/// The generated files of one run. Their content is secret and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Content of [`MAIN_TF_JSON`].
    pub main: String,
    /// Content of [`TFVARS_JSON`].
    pub tfvars: String,
}

impl Rendered {
    /// The files of a restore: only the backend block, and no values (inputs.md §3.4).
    #[must_use]
    pub fn restore() -> Self {
        Self {
            main: file(&Json::object([terraform_block()])),
            tfvars: file(&Json::object::<&str>([])),
        }
    }

    /// Bytes of both files together: the gauge `captf_inputs_bytes`.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.main.len() + self.tfvars.len()
    }
}

impl fmt::Debug for Rendered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({} bytes)", self.bytes())
    }
}

/// Why there are no files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// More than 1,000,000 bytes: `ApplyJobSucceeded=False/InputsTooLarge` (I-28).
    #[error(
        "the rendered inputs are {bytes} bytes, more than the {RENDERED_MAX} that one Secret can \
         carry: make the largest smaller ({largest})"
    )]
    TooLarge {
        /// Bytes of both files together.
        bytes: usize,
        /// The largest inputs with their sizes; names only.
        largest: String,
    },
    /// A user variable slipped through with a name that is not allowed (I-21).
    #[error("variable {name:?} {problem}")]
    Name {
        /// The variable.
        name: String,
        /// Which rule it breaks.
        problem: NameProblem,
    },
}

/// Renders both files.
///
/// # Errors
/// When they are too large together, or a variable's name is not allowed.
pub fn render(inputs: &Inputs, variables: &Variables) -> Result<Rendered, RenderError> {
    for (name, _) in variables.iter() {
        check_variable_name(inputs.role(), name).map_err(|problem| RenderError::Name {
            name: name.to_owned(),
            problem,
        })?;
    }
    let values = values(inputs, variables);
    let rendered = Rendered {
        main: file(&root_module(inputs.role(), variables)),
        tfvars: file(&Json::object(values.iter().cloned())),
    };
    let bytes = rendered.bytes();
    if bytes > RENDERED_MAX {
        let largest = largest(&values);
        return Err(RenderError::TooLarge { bytes, largest });
    }
    Ok(rendered)
}

/// Keys in contract order; with at least one user variable all keys sorted by bytes (I-23, I-24).
fn values<'a>(inputs: &Inputs, variables: &'a Variables) -> Vec<(&'a str, Json)> {
    let mut values: Vec<(&'a str, Json)> = inputs.entries(View::Rendered);
    if !variables.is_empty() {
        values.extend(
            variables
                .iter()
                .map(|(name, variable)| (name, variable.value.clone())),
        );
        values.sort_by_key(|(name, _)| *name);
    }
    values
}

fn largest(values: &[(&str, Json)]) -> String {
    let mut sizes: Vec<(usize, &str)> = values
        .iter()
        .map(|(name, value)| (value.to_pretty().len(), *name))
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let shown: Vec<String> = sizes
        .into_iter()
        .take(LARGEST_SHOWN)
        .map(|(size, name)| format!("{name}: {size} bytes"))
        .collect();
    shown.join(", ")
}

fn file(value: &Json) -> String {
    let mut text = value.to_pretty();
    text.push('\n');
    text
}

fn terraform_block() -> (&'static str, Json) {
    let backend = Json::object([("kubernetes", Json::object::<&str>([]))]);
    ("terraform", Json::object([("backend", backend)]))
}

/// The root module: backend, one variable per input, the module call, every required output
/// re-exported as sensitive. It depends on role, variable names and sensitivity, never on a value
/// (I-19), and declares no provider (I-22).
fn root_module(role: Role, variables: &Variables) -> Json {
    let mut declared: BTreeMap<&str, Json> = BTreeMap::new();
    let mut call: BTreeMap<&str, Json> = BTreeMap::new();
    call.insert("source", Json::from("../../module"));
    for input in role.inputs() {
        declared.insert(input.name, contract_variable(input));
        call.insert(input.name, reference("var", input.name));
    }
    for (name, variable) in variables.iter() {
        declared.insert(name, user_variable(variable.sensitive));
        call.insert(name, reference("var", name));
    }
    let outputs: BTreeMap<&str, Json> = role
        .outputs()
        .iter()
        .map(|name| {
            let fields = [
                ("value", reference("module.role", name)),
                ("sensitive", Json::Bool(true)),
            ];
            (*name, Json::object(fields))
        })
        .collect();
    Json::object([
        terraform_block(),
        ("variable", Json::object(declared)),
        ("module", Json::object([("role", Json::object(call))])),
        ("output", Json::object(outputs)),
    ])
}

fn reference(scope: &str, name: &str) -> Json {
    Json::String(format!("${{{scope}.{name}}}"))
}

fn contract_variable(input: &Input) -> Json {
    let mut fields = vec![("type", Json::from(input.root_type))];
    if input.nullable {
        fields.push(("default", Json::Null));
    }
    if input.sensitive {
        fields.push(("sensitive", Json::Bool(true)));
    }
    Json::object(fields)
}

fn user_variable(sensitive: bool) -> Json {
    Json::object(sensitive.then_some(("sensitive", Json::Bool(true))))
}
