//! Tells whether a state changed without reading it (S-7).

use super::secret::SecretMeta;

/// Sorted `name/uid/resourceVersion` of the state Secrets, joined by commas. While it stays the same
/// the state read before may be answered from memory (S-7).
#[must_use]
pub fn fingerprint<'a>(secrets: impl IntoIterator<Item = &'a SecretMeta>) -> String {
    let mut parts: Vec<String> = secrets
        .into_iter()
        .map(|meta| format!("{}/{}/{}", meta.name, meta.uid, meta.resource_version))
        .collect();
    parts.sort_unstable();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_the_order_of_the_list_does_not_matter_and_every_version_does() {
        let meta = |name: &str, version: &str| SecretMeta {
            name: name.into(),
            uid: "u".into(),
            resource_version: version.into(),
            ..SecretMeta::default()
        };
        let (a, b) = (meta("a", "1"), meta("b", "2"));
        assert_eq!(fingerprint([&b, &a]), "a/u/1,b/u/2");
        assert_ne!(fingerprint([&a, &meta("b", "3")]), fingerprint([&a, &b]));
    }
}
