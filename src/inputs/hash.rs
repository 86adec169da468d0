//! Inputs hash and approval hash (naming.md §7, inputs.md §4).

use super::canonical::{CanonicalError, Numbers, canonical};
use super::contract::{Inputs, View};
use super::json::Json;
use super::role::{CONTRACT_VERSION, Role};
use super::variables::Variables;
use crate::names::{InputsHash, sha256_hex};

/// The hash scheme in force. A recorded hash of another scheme simply differs.
const SCHEME: &str = "h2";

/// The inputs hash of what a Job of this object would be given now. `image` is
/// `spec.source.image` exactly as written; a digest, a policy or metadata never count (B7).
///
/// # Errors
/// When the cluster's exports hold a number with a fraction or an exponent (I-31).
pub fn inputs_hash(
    image: &str,
    inputs: &Inputs,
    variables: &Variables,
) -> Result<InputsHash, CanonicalError> {
    hash_view(image, inputs, View::Hashed, variables)
}

/// The hash that the approval of a destructive plan names: the inputs hash, for a pool of the inputs
/// without bootstrap data, so that a rotated token keeps an approval valid (inputs.md §4.3).
///
/// # Errors
/// As [`inputs_hash`].
pub fn approval_hash(
    image: &str,
    inputs: &Inputs,
    variables: &Variables,
) -> Result<InputsHash, CanonicalError> {
    hash_view(image, inputs, View::Approval, variables)
}

fn hash_view(
    image: &str,
    inputs: &Inputs,
    view: View,
    variables: &Variables,
) -> Result<InputsHash, CanonicalError> {
    let values = Json::object(inputs.entries(view));
    document_hash(inputs.role(), image, values, variables_text(variables)?)
}

/// Hashes the document of naming.md §7. Without user variables the key `variables` is absent, so
/// that objects without any keep the hash they always had (B10).
fn document_hash(
    role: Role,
    image: &str,
    inputs: Json,
    variables: Option<String>,
) -> Result<InputsHash, CanonicalError> {
    let mut document = vec![
        ("scheme", Json::from(SCHEME)),
        ("contract", Json::from(CONTRACT_VERSION)),
        ("role", Json::from(role.as_str())),
        ("image", Json::from(image)),
        ("inputs", inputs),
    ];
    document.extend(variables.map(|text| ("variables", Json::String(text))));
    let text = canonical(&Json::object(document), Numbers::Integers)?;
    Ok(InputsHash::new(sum(&text)))
}

pub(super) fn sum(text: &str) -> String {
    format!("{SCHEME}:{}", sha256_hex(text))
}

/// The text that stands for the user variables in the document: canonical with any number, values
/// and names of the sensitive ones, which count because they change the rendered root (I-29).
fn variables_text(variables: &Variables) -> Result<Option<String>, CanonicalError> {
    if variables.is_empty() {
        return Ok(None);
    }
    let values = variables
        .iter()
        .map(|(name, variable)| (name, variable.value.clone()));
    let text = Json::object([
        ("sensitive", Json::strings(variables.sensitive())),
        ("values", Json::object(values)),
    ]);
    canonical(&text, Numbers::Any).map(Some)
}
