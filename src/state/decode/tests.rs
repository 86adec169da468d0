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
         decompress; put the Secret back from a copy taken before"
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
