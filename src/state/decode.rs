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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use rstest::rstest;

    use super::*;
    use crate::names::Kind;

    const BASE: &str = "tfstate-default-f66792f9106e7299-c";

    const STATE: &str = r#"{
      "version": 4, "terraform_version": "1.16.4", "serial": 7,
      "lineage": "3f1a", "check_results": null,
      "outputs": {
        "health": {"value": {"state": "running", "healthy": true}, "type": ["object", {}]},
        "exports": {"value": {"z": 1, "a": 1.50}, "type": "dynamic", "sensitive": true}
      },
      "resources": [
        {"mode": "managed", "type": "terraform_data", "name": "x", "instances": [{"a": 1}, {}]},
        {"mode": "data", "type": "y", "name": "y", "instances": []},
        {"mode": "managed", "type": "z", "name": "z", "instances": []}
      ]
    }"#;

    fn suffix() -> Suffix {
        Suffix::new("team-a", Kind::TerraformCluster, "prod")
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn secret(name: &str, payload: &[u8]) -> StateSecret {
        StateSecret {
            meta: ObjectMeta {
                name: Some(name.into()),
                ..ObjectMeta::default()
            },
            payload: Some(payload.to_vec()),
        }
    }

    fn read_one(text: &str) -> Reading {
        read_state(&suffix(), &[secret(BASE, &gzip(text.as_bytes()))])
    }

    fn state(reading: Reading) -> State {
        match reading {
            Reading::State(state) => *state,
            other => panic!("expected a state, got {other:?}"),
        }
    }

    fn problem(reading: Reading) -> StateProblem {
        match reading {
            Reading::Unreadable(problem) => problem,
            other => panic!("expected a problem, got {other:?}"),
        }
    }

    #[test]
    fn no_secret_is_no_state() {
        assert!(matches!(read_state(&suffix(), &[]), Reading::NoState));
    }

    #[test]
    fn a_state_gives_serial_lineage_version_outputs_and_managed_count() {
        let mut base = secret(BASE, &gzip(STATE.as_bytes()));
        base.meta.annotations = Some([("captf.io/inputs-hash".into(), "h2:abc".into())].into());
        let state = state(read_state(&suffix(), &[base.clone()]));
        assert_eq!(state.serial, 7);
        assert_eq!(state.lineage, "3f1a");
        assert_eq!(state.terraform_version, "1.16.4");
        assert_eq!(state.managed_resources, 2);
        assert_eq!(state.inputs_hash.as_str(), "h2:abc");
        assert_eq!(state.compressed_bytes, base.payload.unwrap().len());
        assert_eq!(
            state.outputs["exports"].value.get(),
            r#"{"z": 1, "a": 1.50}"#
        );
        assert!(state.outputs["exports"].sensitive);
        assert!(!state.outputs["health"].sensitive);
    }

    #[test]
    fn chunks_are_read_in_order_of_their_number() {
        let bytes = gzip(STATE.as_bytes());
        let pieces: Vec<&[u8]> = bytes.chunks(bytes.len().div_ceil(12)).collect();
        let mut secrets: Vec<StateSecret> = pieces
            .iter()
            .enumerate()
            .map(|(index, piece)| secret(&suffix().state_secret(index), piece))
            .collect();
        assert!(secrets.len() > 10);
        // Sorted by name, part-10 comes before part-2.
        secrets.sort_by(|a, b| secret_name(&a.meta).cmp(secret_name(&b.meta)));
        let state = state(read_state(&suffix(), &secrets));
        assert_eq!(state.serial, 7);
        assert_eq!(secret_name(&state.chunks[0]), BASE);
        assert_eq!(secret_name(&state.chunks[10]), format!("{BASE}-part-10"));
    }

    #[test]
    fn s2_bytes_after_the_first_gzip_member_are_tolerated() {
        let secrets = [
            secret(BASE, &gzip(STATE.as_bytes())),
            secret(&format!("{BASE}-part-1"), b"left over from a longer state"),
        ];
        assert_eq!(state(read_state(&suffix(), &secrets)).serial, 7);
        let second = gzip(br#"{"version":4,"serial":9}"#);
        let secrets = [
            secret(BASE, &gzip(STATE.as_bytes())),
            secret(&format!("{BASE}-part-1"), &second),
        ];
        assert_eq!(state(read_state(&suffix(), &secrets)).serial, 7);
    }

    #[test]
    fn s4_an_empty_state_has_no_outputs() {
        let state = state(read_one(
            r#"{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"x","outputs":{},"resources":[],"check_results":null}"#,
        ));
        assert!(state.outputs.is_empty());
        assert_eq!((state.serial, state.managed_resources), (1, 0));
        assert!(state.inputs_hash.is_empty());
    }

    #[test]
    fn s5_a_null_output_is_not_known() {
        let state = state(read_one(
            r#"{"version":4,"serial":1,"outputs":{"a":{"value":null},"b":{}}}"#,
        ));
        assert!(
            state
                .outputs
                .values()
                .all(|output| output.known().is_none())
        );
        assert!(matches!(read_one(r#"{"version":4}"#), Reading::State(_)));
        assert!(matches!(
            read_one(r#"{"version":4,"outputs":null,"resources":null}"#),
            Reading::State(_)
        ));
    }

    #[rstest]
    #[case(&["-part-1"], "chunk tfstate-default-f66792f9106e7299-c is missing")]
    #[case(&["", "-part-2"], "chunk tfstate-default-f66792f9106e7299-c-part-1 is missing")]
    #[case(&["", ""], "chunk tfstate-default-f66792f9106e7299-c was found twice")]
    #[case(&["", "-part-01"],
           "Secret tfstate-default-f66792f9106e7299-c-part-01 carries the labels of this state and \
            is none of its chunks")]
    fn stray_missing_or_duplicate_chunks_are_inconsistent(
        #[case] names: &[&str],
        #[case] expected: &str,
    ) {
        let secrets: Vec<StateSecret> = names
            .iter()
            .map(|part| secret(&format!("{BASE}{part}"), &gzip(STATE.as_bytes())))
            .collect();
        let problem = problem(read_state(&suffix(), &secrets));
        assert_eq!(problem.verdict().reason(), "StateInconsistent");
        let message = problem.to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!message.starts_with("label "));
    }

    #[test]
    fn a_secret_without_the_data_key_is_inconsistent() {
        let mut empty = secret(BASE, b"");
        empty.payload = None;
        let problem = problem(read_state(&suffix(), &[empty]));
        assert_eq!(
            problem,
            StateProblem::Inconsistent(Inconsistency::NoPayload { name: BASE.into() })
        );
    }

    #[test]
    fn more_than_32_secrets_are_corrupt() {
        let secrets: Vec<StateSecret> = (0..33)
            .map(|index| secret(&suffix().state_secret(index), b""))
            .collect();
        let too_many = problem(read_state(&suffix(), &secrets));
        assert_eq!(too_many.verdict().reason(), "StateCorrupt");
        assert!(too_many.to_string().contains("33 Secrets, more than 32"));
        let allowed = problem(read_state(&suffix(), &secrets[..32]));
        assert!(matches!(
            allowed,
            StateProblem::Corrupt {
                corruption: Corruption::NotGzip,
                ..
            }
        ));
    }

    #[rstest]
    #[case(b"plain text".to_vec())]
    #[case(Vec::new())]
    #[case(gzip(STATE.as_bytes())[..60].to_vec())]
    fn a_payload_that_does_not_decompress_is_corrupt(#[case] payload: Vec<u8>) {
        let problem = problem(read_state(&suffix(), &[secret(BASE, &payload)]));
        assert_eq!(
            problem.to_string(),
            "the state in Secret tfstate-default-f66792f9106e7299-c cannot be decoded: it does not \
             decompress; restore a backup taken before (captf.io/restore-state)"
        );
    }

    #[test]
    fn a_damaged_checksum_is_corrupt() {
        let mut bytes = gzip(STATE.as_bytes());
        let crc = bytes.len() - 8;
        bytes[crc] ^= 0xff;
        assert!(matches!(
            problem(read_state(&suffix(), &[secret(BASE, &bytes)])),
            StateProblem::Corrupt {
                corruption: Corruption::NotGzip,
                ..
            }
        ));
    }

    #[rstest]
    #[case("planted-secret")]
    #[case(r#"{"version":4,"serial":"planted-secret"}"#)]
    #[case(r#"{"version":4} planted-secret"#)]
    #[case("[]")]
    #[case("")]
    fn content_that_is_no_state_is_corrupt_and_not_quoted(#[case] text: &str) {
        let problem = problem(read_one(text));
        assert_eq!(problem.verdict().reason(), "StateCorrupt");
        assert!(!format!("{problem} {problem:?}").contains("planted"));
    }

    #[test]
    fn the_limit_is_64_mib_inclusive() {
        let padded = |bytes: usize| {
            let mut text = br#"{"version":4,"serial":3}"#.to_vec();
            text.resize(bytes, b' ');
            gzip(&text)
        };
        let limit = 4096;
        let (fits, exceeds) = (padded(4096), padded(4097));
        assert_eq!(
            parse(&[fits.as_slice()], limit)
                .map(|document| document.serial)
                .ok(),
            Some(3)
        );
        assert_eq!(
            parse(&[exceeds.as_slice()], limit).err(),
            Some(Corruption::TooLarge)
        );
        assert_eq!(STATE_BYTES_MAX, 67_108_864);
    }

    #[rstest]
    #[case(r#"{"version":3,"serial":1}"#, "format version 3")]
    #[case(r#"{"serial":1}"#, "format version none")]
    fn another_version_is_unsupported_and_reported_as_corrupt(
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        let problem = problem(read_one(text));
        assert_eq!(problem.verdict().reason(), "StateCorrupt");
        assert!(problem.to_string().contains(expected));
    }

    #[test]
    fn encrypted_is_found_before_the_missing_version() {
        let problem = problem(read_one(
            r#"{"serial":2,"lineage":"x","meta":{},"encrypted_data":"AA==","encryption_version":"v0"}"#,
        ));
        assert_eq!(problem.verdict().reason(), "StateEncrypted");
    }

    #[test]
    fn s3_outputs_are_never_printed() {
        let state = state(read_one(
            r#"{"version":4,"serial":1,"outputs":{"a":{"value":"planted-secret"}}}"#,
        ));
        assert!(!format!("{state:?}").contains("planted"));
    }
}
