//! From state Secrets to what a pass needs of the state (state-secrets.md §2).

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::read::GzDecoder;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::problem::{Corruption, Inconsistency, StateProblem};
use super::secret::{StateSecret, chunk_index, secret_name};
use crate::api::keys::annotations;
use crate::names::{InputsHash, Suffix};

/// Most Secrets that one state may consist of.
pub const STATE_SECRETS_MAX: usize = 32;

/// Most bytes of a decompressed state: 64 MiB.
pub const STATE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The state format that is read.
const STATE_VERSION: u64 = 4;

/// What reading the state gave.
#[derive(Clone, Debug)]
pub enum Reading {
    /// There is no state Secret.
    NoState,
    /// The state.
    State(Box<State>),
    /// There is a state, and it cannot be read.
    Unreadable(StateProblem),
}

/// What a pass needs of a state.
#[derive(Clone, Debug)]
pub struct State {
    /// Counts the writes of one lineage.
    pub serial: u64,
    /// Identity of the state, made when it was first written.
    pub lineage: String,
    /// The runtime's version that wrote it; informational.
    pub terraform_version: String,
    /// The root outputs. Terraform writes no entry for a null one (S-5).
    pub outputs: BTreeMap<String, Output>,
    /// Resources with mode `managed`; one with `count` or `for_each` counts once.
    pub managed_resources: usize,
    /// Bytes of all payloads, compressed.
    pub compressed_bytes: usize,
    /// Hash of the inputs of the last successful apply; empty when none succeeded (S-6).
    pub inputs_hash: InputsHash,
    /// Metadata of the Secrets, in chunk order; the first is the base Secret.
    pub chunks: Vec<ObjectMeta>,
}

/// A root output. Its value is never printed.
#[derive(Clone, Deserialize)]
pub struct Output {
    /// The value as it is written in the state.
    #[serde(default = "null")]
    pub value: Box<RawValue>,
    /// The module calls it sensitive.
    #[serde(default)]
    pub sensitive: bool,
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

impl Output {
    /// The value, `None` when it is null.
    #[must_use]
    pub fn known(&self) -> Option<&RawValue> {
        Some(&*self.value).filter(|value| value.get() != "null")
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output(..)")
    }
}

/// Reads the state from the Secrets found with [`state_selector`](crate::names::state_selector), in
/// any order. At most 32 Secrets, at most 64 MiB decompressed, and only the first gzip member, since
/// a shrinking write may leave a surplus chunk behind (S-2). Resources are counted without being
/// kept.
#[must_use]
pub fn read_state(suffix: &Suffix, secrets: &[StateSecret]) -> Reading {
    if secrets.is_empty() {
        return Reading::NoState;
    }
    match decode(suffix, secrets) {
        Ok(state) => Reading::State(Box::new(state)),
        Err(problem) => Reading::Unreadable(problem),
    }
}

fn decode(suffix: &Suffix, secrets: &[StateSecret]) -> Result<State, StateProblem> {
    let corrupt = |corruption| StateProblem::Corrupt {
        secret: suffix.base_state_secret(),
        corruption,
    };
    if secrets.len() > STATE_SECRETS_MAX {
        let found = secrets.len();
        return Err(corrupt(Corruption::TooManySecrets { found }));
    }
    let chunks = in_order(suffix, secrets).map_err(StateProblem::Inconsistent)?;
    let payloads = payloads(&chunks).map_err(StateProblem::Inconsistent)?;
    let document = parse(&payloads, STATE_BYTES_MAX).map_err(corrupt)?;
    document.check(suffix)?;
    let base = &chunks[0].meta;
    Ok(State {
        serial: document.serial,
        lineage: document.lineage,
        terraform_version: document.terraform_version,
        outputs: document.outputs.unwrap_or_default(),
        managed_resources: managed(document.resources.as_deref().unwrap_or_default()),
        compressed_bytes: payloads.iter().map(|payload| payload.len()).sum(),
        inputs_hash: recorded_hash(base),
        chunks: chunks.into_iter().map(|chunk| chunk.meta.clone()).collect(),
    })
}

fn recorded_hash(base: &ObjectMeta) -> InputsHash {
    let recorded = base
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(annotations::INPUTS_HASH));
    InputsHash::new(recorded.map_or("", String::as_str))
}

/// The Secrets in chunk order; a foreign name, a duplicate or a gap is an inconsistency.
fn in_order<'a>(
    suffix: &Suffix,
    secrets: &'a [StateSecret],
) -> Result<Vec<&'a StateSecret>, Inconsistency> {
    let mut chunks = BTreeMap::new();
    for secret in secrets {
        let name = secret_name(&secret.meta);
        let index = chunk_index(suffix, name).ok_or_else(|| Inconsistency::Stray {
            name: name.to_owned(),
        })?;
        if chunks.insert(index, secret).is_some() {
            let name = name.to_owned();
            return Err(Inconsistency::Duplicate { name });
        }
    }
    let gap = (0..)
        .zip(chunks.keys())
        .find(|(expected, index)| expected != *index);
    if let Some((missing, _)) = gap {
        let name = suffix.state_secret(missing);
        return Err(Inconsistency::Gap { name });
    }
    Ok(chunks.into_values().collect())
}

fn payloads<'a>(chunks: &[&'a StateSecret]) -> Result<Vec<&'a [u8]>, Inconsistency> {
    chunks
        .iter()
        .map(|chunk| {
            chunk
                .payload
                .as_deref()
                .ok_or_else(|| Inconsistency::NoPayload {
                    name: secret_name(&chunk.meta).to_owned(),
                })
        })
        .collect()
}

/// The parts of a state file that are read; the instances of resources are skipped.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    version: Option<u64>,
    #[serde(default)]
    encryption_version: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    serial: u64,
    #[serde(default)]
    lineage: String,
    #[serde(default)]
    terraform_version: String,
    #[serde(default)]
    outputs: Option<BTreeMap<String, Output>>,
    #[serde(default)]
    resources: Option<Vec<ResourceDocument>>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Managed,
    #[default]
    #[serde(other)]
    Other,
}

impl Document {
    /// Encrypted is looked for first, because the envelope of an encrypted state has no version
    /// (state-secrets.md §2.7, §2.8).
    fn check(&self, suffix: &Suffix) -> Result<(), StateProblem> {
        let secret = suffix.base_state_secret();
        if self.encryption_version.is_some() {
            return Err(StateProblem::Encrypted { secret });
        }
        if self.version != Some(STATE_VERSION) {
            let version = self
                .version
                .map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(StateProblem::Unsupported { secret, version });
        }
        Ok(())
    }
}

fn managed(resources: &[ResourceDocument]) -> usize {
    resources
        .iter()
        .filter(|resource| resource.mode == Mode::Managed)
        .count()
}

/// Decompresses and parses in one stream, so that neither the decompressed text nor the resources
/// are ever in memory.
fn parse(payloads: &[&[u8]], limit: u64) -> Result<Document, Corruption> {
    let member = GzDecoder::new(Concat::new(payloads));
    let mut limited = Limited {
        inner: member,
        left: limit,
        exceeded: false,
    };
    let parsed = serde_json::from_reader(BufReader::new(&mut limited));
    parsed.map_err(|error: serde_json::Error| {
        if limited.exceeded {
            Corruption::TooLarge
        } else if error.is_io() {
            Corruption::NotGzip
        } else {
            // The parser's own text may quote content of the state.
            Corruption::NotJson {
                line: error.line(),
                column: error.column(),
            }
        }
    })
}

/// Reads several slices as one.
struct Concat<'a> {
    chunks: &'a [&'a [u8]],
    current: &'a [u8],
}

impl<'a> Concat<'a> {
    const fn new(chunks: &'a [&'a [u8]]) -> Self {
        Self {
            chunks,
            current: &[],
        }
    }
}

impl Read for Concat<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            let Some((next, rest)) = self.chunks.split_first() else {
                return Ok(0);
            };
            (self.current, self.chunks) = (next, rest);
        }
        self.current.read(buffer)
    }
}

/// Fails when `inner` has more than `left` bytes.
struct Limited<R> {
    inner: R,
    left: u64,
    exceeded: bool,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.exceeded = true;
                return Err(io::Error::other("state too large"));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
