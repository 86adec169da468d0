//! Randomness of an election: a name for the process, and times that do not meet.

/// A random UUID (version 4).
pub(super) fn uuid() -> String {
    let mut bytes: [u8; 16] = random();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// A random number from 0 to below 1.
pub(super) fn fraction() -> f64 {
    f64::from(u32::from_be_bytes(random())) / 4_294_967_296.0
}

/// Random bytes of the operating system; zeros if it has none, which costs the jitter but no safety: the
/// host name still tells managers apart.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_of_version_4_and_never_the_same() {
        let uuid = uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(
            matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
            "{uuid}"
        );
        assert_ne!(uuid, super::uuid());
    }

    #[test]
    fn a_fraction_is_below_one() {
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&fraction()));
        }
    }
}
