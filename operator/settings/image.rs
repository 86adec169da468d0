//! Image references and registry hosts, by the grammar of the distribution specification.

const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

/// Whether `text` is `[host[:port]/]path[:tag][@digest]`.
///
/// Errors continue the sentence "... is not an image reference:".
pub(super) fn check_reference(text: &str) -> Result<(), &'static str> {
    let (name_and_tag, digest) = match text.split_once('@') {
        Some((front, digest)) => (front, Some(digest)),
        None => (text, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err("what follows @ is not a digest such as sha256:<64 hex digits>");
    }
    let last_segment = name_and_tag.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name_and_tag[last_segment..].split_once(':') {
        Some((segment, tag)) => (&name_and_tag[..last_segment + segment.len()], Some(tag)),
        None => (name_and_tag, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("what follows : is not a tag");
    }
    if name.len() > MAX_NAME {
        return Err("its name is longer than 255 characters");
    }
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
            (Some(first), rest)
        }
        _ => (None, name),
    };
    if host.is_some_and(|host| !is_host(host)) {
        return Err("its registry is not a host or host:port");
    }
    if path.split('/').all(is_path_component) {
        Ok(())
    } else {
        Err(
            "its path may have lower-case letters, digits and single separators (. _ __ -) between them only",
        )
    }
}

/// A registry host as the allow list keeps it: trimmed, lower case, `docker.io` as `index.docker.io`; nothing for an
/// empty entry (manager.md §1.1).
///
/// Errors continue the sentence "... is not a registry host:".
pub(super) fn registry_host(entry: &str) -> Result<Option<String>, &'static str> {
    let host = entry.trim().to_ascii_lowercase();
    if host.is_empty() {
        return Ok(None);
    }
    if host.contains('/') {
        return Err("it has a path; give the host only");
    }
    if host.contains('@') {
        return Err("it has an @; give the host only");
    }
    if !is_host(&host) {
        return Err("write host or host:port");
    }
    Ok(Some(if host == "docker.io" {
        "index.docker.io".to_owned()
    } else {
        host
    }))
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port_is_valid = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let host_is_valid = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(is_host_label),
    };
    port_is_valid && host_is_valid
}

fn is_host_label(label: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    edge(label.chars().next())
        && edge(label.chars().last())
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn is_path_component(component: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let edge = |c: Option<char>| c.is_some_and(is_word);
    edge(component.chars().next())
        && edge(component.chars().last())
        && component.split(is_word).all(|separator| {
            matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= MAX_TAG
        && tag.starts_with(is_word)
        && tag.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        let algorithm_is_valid = algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
            && algorithm
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '_' | '-'));
        let length_is_valid = if algorithm == "sha256" {
            hex.len() == 64
        } else {
            hex.len() >= 32
        };
        algorithm_is_valid && length_is_valid && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("manager")]
    #[case("captf/manager:v1.2.3")]
    #[case("ghcr.io/captf-io/manager:v0.1.0")]
    #[case("localhost:5000/manager")]
    #[case("registry.example:5000/a/b__c/d-e.f:latest")]
    #[case("[::1]:5000/manager")]
    #[case(
        "ghcr.io/captf-io/manager@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    )]
    #[case(
        "ghcr.io/captf-io/manager:v1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    )]
    fn image_references_are_accepted(#[case] text: &str) {
        assert_eq!(check_reference(text), Ok(()));
    }

    #[rstest]
    #[case("")]
    #[case("Manager")]
    #[case("ghcr.io/Captf/manager")]
    #[case("ghcr.io//manager")]
    #[case("ghcr.io/manager:")]
    #[case("ghcr.io/manager:v1:v2")]
    #[case("ghcr.io/manager@sha256:12")]
    #[case("ghcr.io:port/manager")]
    #[case("https://ghcr.io/manager")]
    #[case("man ager")]
    fn other_text_is_refused(#[case] text: &str) {
        assert!(check_reference(text).is_err());
    }
}
