//! Tells whether a state changed without reading it (S-7).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Sorted `name/uid/resourceVersion` of the state Secrets, joined by commas. While it stays the same
/// the state read before may be answered from memory (S-7).
#[must_use]
pub fn fingerprint<'a>(secrets: impl IntoIterator<Item = &'a ObjectMeta>) -> String {
    let mut parts: Vec<String> = secrets
        .into_iter()
        .map(|meta| {
            let [name, uid, version] = [&meta.name, &meta.uid, &meta.resource_version]
                .map(|field| field.as_deref().unwrap_or_default());
            format!("{name}/{uid}/{version}")
        })
        .collect();
    parts.sort_unstable();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_the_order_of_the_list_does_not_matter_and_every_version_does() {
        let meta = |name: &str, version: &str| ObjectMeta {
            name: Some(name.into()),
            uid: Some("u".into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        let (a, b) = (meta("a", "1"), meta("b", "2"));
        assert_eq!(fingerprint([&b, &a]), "a/u/1,b/u/2");
        assert_ne!(fingerprint([&a, &meta("b", "3")]), fingerprint([&a, &b]));
    }
}
