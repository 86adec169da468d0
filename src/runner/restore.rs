//! Restoring a state backup: putting its chunks together, and telling whether the restored state manages anything
//! (runner.md §8).

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::IgnoredAny;

use super::workdir::{WorkdirError, write_private};

/// Most chunks of a backup.
const MAX_CHUNKS: u32 = 32;
/// Most bytes of a state.
const MAX_STATE: u64 = 64 << 20;

/// The backup cannot be restored. Nothing was executed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadBackup {
    #[error("--restore-chunks is {0}, a backup has 1 to {MAX_CHUNKS} chunks")]
    ChunkCount(u32),
    #[error("chunk {} of the backup cannot be read: {source}", path.display())]
    Chunk { path: PathBuf, source: io::Error },
    #[error("the backup is not a whole gzip file: {0}")]
    Compression(io::Error),
    #[error("the backup holds more than 64 MiB of state")]
    TooLarge,
    #[error("the backup holds no JSON document")]
    NoState,
    #[error(transparent)]
    Write(#[from] WorkdirError),
}

/// Puts the chunks `<config>/restore/0` … together, decompresses the first gzip member and writes the state to `target`
/// (R-28).
pub(super) fn assemble(config: &Path, chunks: u32, target: &Path) -> Result<(), BadBackup> {
    if !(1..=MAX_CHUNKS).contains(&chunks) {
        return Err(BadBackup::ChunkCount(chunks));
    }
    let mut compressed = Vec::new();
    for index in 0..chunks {
        let path = config.join("restore").join(index.to_string());
        File::open(&path)
            .and_then(|mut chunk| chunk.read_to_end(&mut compressed))
            .map_err(|source| BadBackup::Chunk { path, source })?;
    }
    let mut state = Vec::new();
    GzDecoder::new(compressed.as_slice())
        .take(MAX_STATE + 1)
        .read_to_end(&mut state)
        .map_err(BadBackup::Compression)?;
    if state.len() as u64 > MAX_STATE {
        return Err(BadBackup::TooLarge);
    }
    if serde_json::from_slice::<IgnoredAny>(&state).is_err() {
        return Err(BadBackup::NoState);
    }
    write_private(target, &state)?;
    Ok(())
}

/// Whether a list of state addresses names a managed resource (R-29).
pub(super) fn lists_managed_resource(addresses: &str) -> bool {
    addresses
        .lines()
        .map(str::trim)
        .any(|line| !line.is_empty() && !resource_of(line).starts_with("data."))
}

/// The part of an address after its module path: `module.<name>[<key>].`, repeated. A key may hold dots, and quotes if
/// they are escaped.
fn resource_of(address: &str) -> &str {
    let mut rest = address;
    while let Some(after) = rest.strip_prefix("module.") {
        let name = after.find(['.', '[']).unwrap_or(after.len());
        let after = skip_key(&after[name..]);
        rest = after.strip_prefix('.').unwrap_or("");
    }
    rest
}

/// What follows the key in brackets at the start of a text, if there is one.
fn skip_key(text: &str) -> &str {
    if !text.starts_with('[') {
        return text;
    }
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use rstest::rstest;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Assembles these chunks and returns the state.
    fn assembled(chunks: &[&[u8]], count: u32) -> Result<Vec<u8>, BadBackup> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("restore")).unwrap();
        for (index, chunk) in chunks.iter().enumerate() {
            fs::write(folder.path().join("restore").join(index.to_string()), chunk).unwrap();
        }
        let target = folder.path().join("restore.tfstate");
        assemble(folder.path(), count, &target)?;
        Ok(fs::read(target).unwrap())
    }

    #[test]
    fn chunks_are_joined_in_order() {
        let backup = gzip(b"{\"serial\": 7}");
        let (first, second) = backup.split_at(9);
        assert_eq!(assembled(&[first, second], 2).unwrap(), b"{\"serial\": 7}");
        assert!(assembled(&[second, first], 2).is_err());
    }

    #[test]
    fn only_the_first_member_counts() {
        let two = [gzip(b"{}"), gzip(b"rest")].concat();
        assert_eq!(assembled(&[&two], 1).unwrap(), b"{}");
    }

    #[test]
    fn what_is_no_backup_is_refused() {
        let backup = gzip(b"{}");
        assert!(matches!(
            assembled(&[&backup], 0),
            Err(BadBackup::ChunkCount(0))
        ));
        assert!(matches!(
            assembled(&[&backup], 33),
            Err(BadBackup::ChunkCount(33))
        ));
        assert!(matches!(
            assembled(&[&backup], 2),
            Err(BadBackup::Chunk { .. })
        ));
        assert!(matches!(
            assembled(&[b"{}"], 1),
            Err(BadBackup::Compression(_))
        ));
        assert!(matches!(
            assembled(&[&backup[..backup.len() - 4]], 1),
            Err(BadBackup::Compression(_))
        ));
        assert!(matches!(
            assembled(&[&gzip(b"{} {}")], 1),
            Err(BadBackup::NoState)
        ));
        assert!(matches!(
            assembled(&[&gzip(&vec![b' '; (64 << 20) + 1])], 1),
            Err(BadBackup::TooLarge)
        ));
    }

    #[rstest]
    #[case("terraform_data.lb", true)]
    #[case("data.http.x", false)]
    #[case("  data.http.x\n\n", false)]
    #[case("module.role.data.http.x", false)]
    #[case("module.role.terraform_data.lb", true)]
    #[case(r#"module.a["x.y"].module.b[0].data.http.x"#, false)]
    #[case(r#"module.a["q\"].data."].terraform_data.x"#, true)]
    #[case(r#"module.a["terraform_data"].data.http.x"#, false)]
    #[case("", false)]
    fn a_managed_address_is_not_one_of_data(#[case] list: &str, #[case] managed: bool) {
        assert_eq!(lists_managed_resource(list), managed);
    }

    #[test]
    fn long_addresses_are_read() {
        let long = format!(
            "module.a[\"{}\"].data.http.x\nterraform_data.x",
            "k.".repeat(1 << 20)
        );
        assert!(lists_managed_resource(&long));
    }
}
