//! SHA-256 in the two lengths that names use.

use sha2::{Digest, Sha256};

/// Characters of a digest that go into a name where a full name does not fit.
const SHORT_HASH_LEN: usize = 16;

/// Fingerprint of a plan that changes nothing: `p2:` and the SHA-256 of no bytes (approvals.md §5).
///
/// The runner reports it and the decision expects it, so both take it from here.
pub const EMPTY_PLAN_HASH: &str =
    "p2:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Lower-case hexadecimal text of `bytes` (naming.md, notation `hex(x)`).
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0x0f])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

/// `hex(sha256(bytes))`: 64 characters.
#[must_use]
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// `hex(sha256(text))[:16]`: what stands for a name that is too long, and the body of suffixes and
/// cluster lease names (naming.md §2 to §6).
#[must_use]
pub fn short_hash(text: &str) -> String {
    let mut digest = sha256_hex(text);
    digest.truncate(SHORT_HASH_LEN);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_nothing_is_the_published_digest() {
        assert_eq!(
            sha256_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn short_hash_of_a_200_character_name() {
        assert_eq!(short_hash(&"n".repeat(200)), "1be63cc0bde6bd45");
    }
}
