//! User variables: which names are allowed, and how the sources are merged (C-6 to C-8, I-8 to
//! I-13).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;

use super::json::Json;
use super::role::Role;
use crate::api::keys::labels;

/// Names that Terraform reserves inside a module block (C-7).
const META_ARGUMENTS: [&str; 8] = [
    "source",
    "version",
    "providers",
    "count",
    "for_each",
    "depends_on",
    "lifecycle",
    "locals",
];

/// Why a name cannot be a user variable (C-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// The pattern does not match.
    #[error("is not a Terraform name (letters, digits, _ and -, not starting with a digit or -)")]
    Pattern,
    /// The prefix is reserved.
    #[error("starts with captf_, which is reserved")]
    Prefix,
    /// Terraform gives the name a meaning inside a module block.
    #[error("is a module meta-argument")]
    MetaArgument,
    /// The operator sets this input itself.
    #[error("is a contract input of the role {0}")]
    ContractInput(Role),
}

/// Checks the name of a user variable in this order: pattern `^[a-zA-Z_][a-zA-Z0-9_-]*$`, reserved
/// prefix, meta-argument, contract input of the object's own role (C-7).
///
/// # Errors
/// The first rule that the name breaks.
pub fn check_variable_name(role: Role, name: &str) -> Result<(), NameProblem> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name
        .bytes()
        .next()
        .is_some_and(|byte| word(byte) && !byte.is_ascii_digit());
    if !starts_well || !name.bytes().all(|byte| word(byte) || byte == b'-') {
        return Err(NameProblem::Pattern);
    }
    if name.starts_with("captf_") {
        return Err(NameProblem::Prefix);
    }
    if META_ARGUMENTS.contains(&name) {
        return Err(NameProblem::MetaArgument);
    }
    if role.inputs().iter().any(|input| input.name == name) {
        return Err(NameProblem::ContractInput(role));
    }
    Ok(())
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `configMapRef`
    ConfigMap,
    /// `secretRef`
    Secret,
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

/// How a source's values are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    /// Each value becomes a JSON string.
    #[default]
    String,
    /// Each value is JSON.
    Json,
}

/// One entry of `spec.variablesFrom` with what was read live for it.
#[derive(Clone)]
pub struct VariableSource {
    /// ConfigMap or Secret.
    pub kind: SourceKind,
    /// Its name, in the object's namespace.
    pub name: String,
    /// How its values are read.
    pub format: ValueFormat,
    /// A missing or unlabelled source contributes nothing instead of closing the gate.
    pub optional: bool,
    /// What was found, `None` when it does not exist.
    pub content: Option<SourceContent>,
}

/// The content of a ConfigMap or Secret.
#[derive(Clone, Default)]
pub struct SourceContent {
    /// It carries the label `captf.io/variables` with the value `true`.
    pub labelled: bool,
    /// `data` and `binaryData`.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// Where a variable came from, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `spec.variables`
    Inline,
    /// An entry of `spec.variablesFrom`.
    Source(SourceKind, String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline => f.write_str("spec.variables"),
            Self::Source(kind, name) => write!(f, "{kind} {name}"),
        }
    }
}

/// Why the variables are not usable: a closed gate on `DependenciesReady`. Messages name source
/// and key, never a value (I-11).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariablesError {
    /// A source does not exist.
    #[error(
        "{kind} {name} of spec.variablesFrom does not exist: create it with the label \
         {}=true, or mark it optional",
        labels::VARIABLES
    )]
    SourceMissing {
        /// ConfigMap or Secret.
        kind: SourceKind,
        /// Its name.
        name: String,
    },
    /// A source does not carry the label.
    #[error(
        "{kind} {name} of spec.variablesFrom lacks the label {}=true: set it, \
         or mark the source optional",
        labels::VARIABLES
    )]
    SourceUnlabelled {
        /// ConfigMap or Secret.
        kind: SourceKind,
        /// Its name.
        name: String,
    },
    /// A key is no allowed variable name.
    #[error("key {key:?} of {origin} {problem}")]
    Name {
        /// Where the key is.
        origin: Origin,
        /// The key.
        key: String,
        /// Which rule it breaks.
        problem: NameProblem,
    },
    /// A value is not UTF-8.
    #[error("the value of key {key:?} of {origin} is not UTF-8 text")]
    NotUtf8 {
        /// Where the key is.
        origin: Origin,
        /// The key.
        key: String,
    },
    /// A value of a source with format JSON is not JSON.
    #[error(
        "the value of key {key:?} of {origin} is not valid JSON, which its format JSON asks for"
    )]
    NotJson {
        /// Where the key is.
        origin: Origin,
        /// The key.
        key: String,
    },
    /// `spec.variables` is something else than an object.
    #[error("spec.variables must be a JSON object")]
    NotAnObject,
}

impl VariablesError {
    /// The reason of `DependenciesReady=False` (conditions-events.md §3.3).
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::SourceMissing { .. } | Self::SourceUnlabelled { .. } => "VariablesSourceNotFound",
            Self::Name { .. } | Self::NotUtf8 { .. } | Self::NotJson { .. } | Self::NotAnObject => {
                "VariablesInvalid"
            }
        }
    }
}

/// A user variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its value.
    pub value: Json,
    /// The value came from a Secret (I-10).
    pub sensitive: bool,
}

/// The merged user variables, by name.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<String, Variable>);

impl Variables {
    /// Merges the sources in list order and `spec.variables` on top: a later source wins per key,
    /// inline wins over all (I-8), and a variable is sensitive when its winning value came from a
    /// Secret (I-10).
    ///
    /// # Errors
    /// The first source that is missing without being optional, or the first key or value that is
    /// not allowed, in that order of the list (I-11).
    pub fn merge(
        role: Role,
        sources: &[VariableSource],
        inline: Option<&serde_json::Value>,
    ) -> Result<Self, VariablesError> {
        let mut merged = Self::default();
        for source in sources {
            merged.add_source(role, source)?;
        }
        if let Some(inline) = inline {
            merged.add_inline(role, inline)?;
        }
        Ok(merged)
    }

    fn add_source(&mut self, role: Role, source: &VariableSource) -> Result<(), VariablesError> {
        let (kind, name) = (source.kind, source.name.clone());
        let content = match &source.content {
            Some(content) if content.labelled => content,
            _ if source.optional => return Ok(()),
            Some(_) => return Err(VariablesError::SourceUnlabelled { kind, name }),
            None => return Err(VariablesError::SourceMissing { kind, name }),
        };
        let origin = Origin::Source(kind, name);
        for (key, bytes) in &content.data {
            let value = decode(source.format, &origin, key, bytes)?;
            self.insert(role, &origin, key, value)?;
        }
        Ok(())
    }

    fn add_inline(&mut self, role: Role, inline: &serde_json::Value) -> Result<(), VariablesError> {
        let entries = inline.as_object().ok_or(VariablesError::NotAnObject)?;
        for (key, value) in entries {
            self.insert(role, &Origin::Inline, key, Json::from(value))?;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        role: Role,
        origin: &Origin,
        key: &str,
        value: Json,
    ) -> Result<(), VariablesError> {
        check_variable_name(role, key).map_err(|problem| VariablesError::Name {
            origin: origin.clone(),
            key: key.to_owned(),
            problem,
        })?;
        let sensitive = matches!(origin, Origin::Source(SourceKind::Secret, _));
        self.0.insert(key.to_owned(), Variable { value, sensitive });
        Ok(())
    }

    /// There is no user variable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.0
            .iter()
            .map(|(name, variable)| (name.as_str(), variable))
    }

    /// Names of the sensitive variables, sorted.
    pub fn sensitive(&self) -> impl Iterator<Item = &str> {
        self.iter()
            .filter(|(_, variable)| variable.sensitive)
            .map(|(name, _)| name)
    }
}

/// A value is UTF-8 and, for format JSON, one JSON value, kept as it is written (I-9).
fn decode(
    format: ValueFormat,
    origin: &Origin,
    key: &str,
    bytes: &[u8],
) -> Result<Json, VariablesError> {
    let text = std::str::from_utf8(bytes).map_err(|_| VariablesError::NotUtf8 {
        origin: origin.clone(),
        key: key.to_owned(),
    })?;
    match format {
        ValueFormat::String => Ok(Json::from(text)),
        ValueFormat::Json => valid_json(text).ok_or_else(|| VariablesError::NotJson {
            origin: origin.clone(),
            key: key.to_owned(),
        }),
    }
}

fn valid_json(text: &str) -> Option<Json> {
    let raw: Box<RawValue> = serde_json::from_str(text).ok()?;
    // What cannot be followed could be neither hashed nor read by Terraform.
    Json::parse(&raw).ok()?;
    Some(Json::Raw(raw))
}

#[cfg(test)]
mod tests;
