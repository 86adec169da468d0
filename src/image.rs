//! Image references: pinning a digest, and the images a Job may run (jobs.md §9).

/// A digest is `sha256:` and 64 hexadecimal digits.
const DIGEST_HEX: usize = 64;

/// The reference that pins what a pod really ran: `<repository>@sha256:<64 hex>`.
///
/// The digest is the end of the container's `imageID` (any `scheme://` before it removed); the
/// repository is the image in the pod spec without tag and digest. A bare `sha256:…` id names a local
/// image and pins nothing (jobs.md §9).
#[must_use]
pub fn pin(image_id: &str, pod_image: &str) -> Option<String> {
    let image_id = image_id.split_once("://").map_or(image_id, |(_, id)| id);
    let (_, digest) = image_id.rsplit_once('@')?;
    let repository = repository(pod_image);
    (is_digest(digest) && !repository.is_empty()).then(|| format!("{repository}@{digest}"))
}

/// A reference without its tag and digest; a colon before the last `/` belongs to a registry's port.
#[must_use]
pub fn repository(reference: &str) -> &str {
    let untagged = reference
        .split_once('@')
        .map_or(reference, |(name, _)| name);
    let last_segment = untagged.rfind('/').map_or(0, |slash| slash + 1);
    match untagged[last_segment..].find(':') {
        Some(colon) => &untagged[..last_segment + colon],
        None => untagged,
    }
}

/// Whether a reference names its content: it ends in `@sha256:<64 hex>`.
#[must_use]
pub fn is_pinned(reference: &str) -> bool {
    reference
        .rsplit_once('@')
        .is_some_and(|(_, digest)| is_digest(digest))
}

fn is_digest(digest: &str) -> bool {
    digest.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == DIGEST_HEX && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The image a Job runs and what is tried after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageChoice {
    /// Reference the Job runs.
    pub image: String,
    /// Further references, for the Job's annotation `captf.io/image-fallbacks`.
    pub fallbacks: Vec<String>,
    /// Whether the Job runs a digest; if not, the pass emits `DigestUnknown`.
    pub pinned: bool,
}

/// Where a Job that renders a record takes its image from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageSources<'a> {
    /// Digest reference of the record.
    pub record_digest: Option<&'a str>,
    /// Image of the record as it was written.
    pub record_image: Option<&'a str>,
    /// `spec.source.image`; nothing for a destroy, which never falls back to it because it may be
    /// another release (jobs.md §9).
    pub spec_image: Option<&'a str>,
}

/// The image of a destroy, refresh, drift or restore Job: the record's digest, else the record's
/// image, else (never for a destroy) the image of the spec; images known not to be pullable are left
/// out while another one remains (jobs.md §9). Nothing when there is no candidate at all.
#[must_use]
pub fn choose(sources: ImageSources<'_>, unpullable: &[String]) -> Option<ImageChoice> {
    let mut candidates: Vec<&str> = Vec::new();
    let all = [
        sources.record_digest,
        sources.record_image,
        sources.spec_image,
    ];
    for image in all.into_iter().flatten() {
        if !image.is_empty() && !candidates.contains(&image) {
            candidates.push(image);
        }
    }
    let usable: Vec<&str> = candidates
        .iter()
        .copied()
        .filter(|image| !unpullable.iter().any(|bad| bad == image))
        .collect();
    // The last candidate is never recorded as unpullable; a record edited by hand may still name
    // every one of them, and then trying the last one again is all that is left.
    let usable = if usable.is_empty() {
        candidates.last().copied().into_iter().collect()
    } else {
        usable
    };
    let (first, rest) = usable.split_first()?;
    Some(ImageChoice {
        image: (*first).to_owned(),
        fallbacks: rest.iter().map(|image| (*image).to_owned()).collect(),
        pinned: is_pinned(first),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    const HEX: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    #[rstest]
    #[case(
        "ghcr.io/example/module@sha256:HEX",
        "ghcr.io/example/module:v1",
        Some("ghcr.io/example/module@sha256:HEX")
    )]
    #[case(
        "docker-pullable://ghcr.io/x/y@sha256:HEX",
        "localhost:5000/x/y:v1",
        Some("localhost:5000/x/y@sha256:HEX")
    )]
    #[case(
        "ghcr.io/x/y@sha256:HEX",
        "localhost:5000/y",
        Some("localhost:5000/y@sha256:HEX")
    )]
    #[case("sha256:HEX", "ghcr.io/x/y:v1", None)]
    #[case("docker://sha256:HEX", "ghcr.io/x/y:v1", None)]
    #[case("ghcr.io/x/y@sha256:abc", "ghcr.io/x/y:v1", None)]
    #[case("", "ghcr.io/x/y:v1", None)]
    fn pin_takes_the_digest_that_ran_and_the_repository_of_the_spec(
        #[case] image_id: &str,
        #[case] pod_image: &str,
        #[case] expected: Option<&str>,
    ) {
        let expected = expected.map(|text| text.replace("HEX", HEX));
        assert_eq!(pin(&image_id.replace("HEX", HEX), pod_image), expected);
    }

    #[rstest]
    #[case("module", "module")]
    #[case("module:v1", "module")]
    #[case("localhost:5000/module", "localhost:5000/module")]
    #[case("localhost:5000/a/module:v1@sha256:ab", "localhost:5000/a/module")]
    #[case("ghcr.io/a/module@sha256:ab", "ghcr.io/a/module")]
    fn repository_is_the_reference_without_tag_and_digest(
        #[case] reference: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(repository(reference), expected);
    }

    fn destroy<'a>(digest: Option<&'a str>, image: Option<&'a str>) -> ImageSources<'a> {
        ImageSources {
            record_digest: digest,
            record_image: image,
            spec_image: None,
        }
    }

    #[test]
    fn a_destroy_runs_the_pinned_digest_and_falls_back_to_the_recorded_image() {
        let digest = format!("r/m@sha256:{HEX}");
        let choice = choose(destroy(Some(&digest), Some("r/m:v1")), &[]).unwrap();
        assert_eq!(choice.image, digest);
        assert_eq!(choice.fallbacks, ["r/m:v1"]);
        assert!(choice.pinned);
    }

    #[test]
    fn an_unpullable_digest_is_passed_over_and_nothing_is_pinned() {
        let digest = format!("r/m@sha256:{HEX}");
        let choice = choose(
            destroy(Some(&digest), Some("r/m:v1")),
            std::slice::from_ref(&digest),
        )
        .unwrap();
        assert_eq!(choice.image, "r/m:v1");
        assert_eq!(choice.fallbacks, Vec::<String>::new());
        assert!(!choice.pinned);
    }

    #[test]
    fn a_destroy_never_runs_the_image_of_the_spec() {
        assert_eq!(choose(destroy(None, None), &[]), None);
    }

    #[test]
    fn a_refresh_ends_at_the_image_of_the_spec() {
        let sources = ImageSources {
            record_digest: None,
            record_image: Some("r/m:v1"),
            spec_image: Some("r/m:v2"),
        };
        assert_eq!(choose(sources, &[]).unwrap().fallbacks, ["r/m:v2"]);
    }

    #[test]
    fn the_same_image_is_tried_once() {
        let sources = ImageSources {
            record_digest: None,
            record_image: Some("r/m:v1"),
            spec_image: Some("r/m:v1"),
        };
        assert_eq!(
            choose(sources, &[]).unwrap().fallbacks,
            Vec::<String>::new()
        );
    }

    #[test]
    fn with_every_image_unpullable_the_last_one_is_tried() {
        let bad = ["r/m:v1".to_owned(), "r/m:v2".to_owned()];
        let sources = ImageSources {
            record_digest: None,
            record_image: Some("r/m:v1"),
            spec_image: Some("r/m:v2"),
        };
        assert_eq!(choose(sources, &bad).unwrap().image, "r/m:v2");
    }
}
