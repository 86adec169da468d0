//! Which proxy stands between the client and the API server (cli.md §16).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::uri::{Scheme, Uri};
use percent_encoding::percent_decode_str;

/// The variables that name a proxy, the first that is set wins.
const PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// The variables that name the hosts without one.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The proxy that the environment names, for a configuration without a kubeconfig.
#[must_use]
pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Uri> {
    first(PROXY, &variable)?.parse().ok()
}

/// The proxy to use: the kubeconfig's, else the environment's; only the latter has exceptions.
///
/// kube leaves the environment's proxy in `proxy_url` where the kubeconfig names none.
pub(super) fn proxy_of(
    config: &kube::Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Uri> {
    let proxy = config.proxy_url.clone()?;
    let by_environment = of_environment(&variable).as_ref() == Some(&proxy);
    let exceptions = first(NO_PROXY, &variable).unwrap_or_default();
    (!by_environment || !is_excepted(&config.cluster_url, &exceptions)).then_some(proxy)
}

/// The proxy in use as a message names it, without user and password: `http://proxy:3128 (from
/// HTTPS_PROXY)`.
#[must_use]
pub fn proxy_in_use(config: &kube::Config) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let url = proxy_of(config, variable)?;
    let from = if of_environment(variable).as_ref() == Some(&url) {
        PROXY[0]
    } else {
        "the kubeconfig"
    };
    Some(format!("{} (from {from})", bare(&url)))
}

/// The URL without user and password.
pub(super) fn bare(url: &Uri) -> String {
    let scheme = url.scheme_str().map(|scheme| format!("{scheme}://"));
    let port = url.port_u16().map(|port| format!(":{port}"));
    format!(
        "{}{}{}",
        scheme.unwrap_or_default(),
        url.host().unwrap_or_default(),
        port.unwrap_or_default()
    )
}

fn first(names: [&str; 2], variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    names
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty())
}

/// Whether the environment's proxy is passed by: for this machine always, else for what `NO_PROXY`
/// lists (hosts, suffixes, addresses, CIDRs, each with a port if need be, or `*`).
fn is_excepted(server: &Uri, list: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let host = host.to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let port = server.port_u16().unwrap_or_else(|| {
        if server.scheme() == Some(&Scheme::HTTP) {
            80
        } else {
            443
        }
    });
    list.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| names(&entry.to_ascii_lowercase(), &host, address, port))
}

/// Whether an entry of the list names the host.
fn names(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        return address
            .zip(network.parse().ok())
            .zip(bits.parse().ok())
            .is_some_and(|((address, network), bits)| contains(network, bits, address));
    }
    if let Ok(entry) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(entry);
    }
    let (entry, wanted) = match entry.rsplit_once(':') {
        Some((entry, wanted)) => (entry, wanted.parse::<u16>().ok()),
        None => (entry, Some(port)),
    };
    if wanted != Some(port) {
        return false;
    }
    if let Ok(entry) = entry.trim_matches(['[', ']']).parse::<IpAddr>() {
        return address == Some(entry);
    }
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    match entry.strip_prefix('.') {
        Some(_) => host.ends_with(entry),
        None => host == entry || host.ends_with(&format!(".{entry}")),
    }
}

/// Whether the network of this many leading bits contains the address.
fn contains(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let differs = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) if bits <= 32 => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.checked_shr(32 - bits).map(u128::from)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if bits <= 128 => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.checked_shr(128 - bits)
        }
        _ => return false,
    };
    // A shift by the whole width leaves nothing to differ in.
    differs.unwrap_or(0) == 0
}

/// The user and password in the proxy's URL, which are percent-encoded there, as a header value.
pub(super) fn authorization(proxy: &Uri) -> Option<HeaderValue> {
    let (user, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let user: Vec<u8> = percent_decode_str(user).collect();
    HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(user))).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;

    use super::{authorization, is_excepted, proxy_of};

    #[rstest]
    #[case::everything("https://api.example.com:6443", "*", true)]
    #[case::host("https://api.example.com:6443", "other, api.example.com", true)]
    #[case::subdomain_of_a_host("https://api.example.com", "example.com", true)]
    #[case::suffix("https://api.example.com", ".example.com", true)]
    #[case::suffix_is_not_the_domain("https://example.com", ".example.com", false)]
    #[case::wildcard_suffix("https://api.example.com", "*.example.com", true)]
    #[case::no_part_of_a_label("https://myexample.com", "example.com", false)]
    #[case::case("https://API.example.com", "api.EXAMPLE.com", true)]
    #[case::port("https://api.example.com:6443", "api.example.com:6443", true)]
    #[case::other_port("https://api.example.com:6443", "api.example.com:443", false)]
    #[case::default_port("https://api.example.com", "api.example.com:443", true)]
    #[case::address("https://10.0.0.7:6443", "10.0.0.7", true)]
    #[case::network("https://10.0.0.7:6443", "10.0.0.0/8", true)]
    #[case::other_network("https://11.0.0.7:6443", "10.0.0.0/8", false)]
    #[case::every_address("https://11.0.0.7:6443", "0.0.0.0/0", true)]
    #[case::one_address("https://10.0.0.7:6443", "10.0.0.8/32", false)]
    #[case::network_v6("https://[fd00::7]:6443", "fd00::/8", true)]
    #[case::not_listed("https://api.example.com", "", false)]
    #[case::this_machine("https://127.0.0.1:6443", "", true)]
    #[case::this_machine_v6("https://[::1]:6443", "", true)]
    #[case::this_machine_by_name("https://localhost:6443", "", true)]
    fn no_proxy_lists_hosts_suffixes_and_networks(
        #[case] server: &str,
        #[case] list: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_excepted(&server.parse().unwrap(), list), expected);
    }

    #[test]
    fn the_kubeconfigs_proxy_has_no_exceptions() {
        let mut config = kube::Config::new("https://api.example.com:6443".parse().unwrap());
        let environment = |name: &str| match name {
            "https_proxy" => Some("http://env:3128".to_owned()),
            "NO_PROXY" => Some("example.com".to_owned()),
            _ => None,
        };
        config.proxy_url = Some("http://named:3128".parse().unwrap());
        assert_eq!(
            proxy_of(&config, environment).unwrap().host(),
            Some("named")
        );
        config.proxy_url = Some("http://env:3128".parse().unwrap());
        assert_eq!(proxy_of(&config, environment), None);
        let without_exceptions = |name: &str| environment(name).filter(|_| name != "NO_PROXY");
        assert_eq!(
            proxy_of(&config, without_exceptions).unwrap().host(),
            Some("env")
        );
    }

    #[test]
    fn user_and_password_of_the_proxy_are_decoded_before_they_are_sent() {
        let value = authorization(&"http://ann:p%40ss@proxy:3128".parse().unwrap()).unwrap();
        // base64 of "ann:p@ss".
        assert_eq!(value, "Basic YW5uOnBAc3M=");
    }
}
