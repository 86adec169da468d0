//! TLS of the manager's own servers: which certificate, which versions, suites and groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, SupportedCipherSuite, version};
use tokio::time::sleep;

use super::settings::{TlsSettings, TlsVersion};

/// How often certificate files are compared with what is served. Secret volumes swap a symlink, which
/// a watch of the file would miss (engineering.md §4.6).
const POLL: Duration = Duration::from_secs(10);

/// A certificate that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file holds no certificate or key in PEM form.
    #[error("{}: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not fit, or the TLS settings leave nothing to offer.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("no self-signed certificate could be made: {0}")]
    SelfSigned(#[from] rcgen::Error),
}

/// Certificate and key files in one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Files of these names in `folder`.
    #[must_use]
    pub fn in_folder(folder: &Path, certificate: &str, key: &str) -> Self {
        Self {
            certificate: folder.join(certificate),
            key: folder.join(key),
        }
    }

    /// Whether both files are there.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.certificate.is_file() && self.key.is_file()
    }

    fn read(&self) -> Result<(Vec<u8>, Vec<u8>), CertificateError> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|source| CertificateError::Read {
                path: path.clone(),
                source,
            })
        };
        Ok((read(&self.certificate)?, read(&self.key)?))
    }

    /// The configuration of a server with these files.
    ///
    /// # Errors
    /// When they cannot be read or do not fit.
    pub fn load(&self, settings: &TlsSettings) -> Result<ServerConfig, CertificateError> {
        let (certificate, key) = self.read()?;
        let pem = |path: &PathBuf| {
            let path = path.clone();
            move |source| CertificateError::Pem { path, source }
        };
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(pem(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(pem(&self.key))?;
        server_config(settings, chain, key)
    }

    /// Serves the files anew whenever they have changed, for ever. A pair that does not load leaves the
    /// old one in place.
    pub async fn follow(self, settings: TlsSettings, served: RustlsConfig) {
        let mut last = self.read().ok();
        loop {
            sleep(POLL).await;
            let now = self.read().ok();
            if now.is_none() || now == last {
                continue;
            }
            match self.load(&settings) {
                Ok(config) => {
                    served.reload_from_config(Arc::new(config));
                    tracing::info!(certificate = %self.certificate.display(), "serving the changed certificate");
                    last = now;
                }
                Err(error) => {
                    tracing::warn!(error = %error, "the changed certificate cannot be served; the old one stays")
                }
            }
        }
    }
}

/// The configuration of a server with a certificate made for this process.
///
/// # Errors
/// When none can be made.
pub fn self_signed(
    settings: &TlsSettings,
    names: Vec<String>,
) -> Result<ServerConfig, CertificateError> {
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    server_config(settings, vec![made.cert.der().clone()], key)
}

fn server_config(
    settings: &TlsSettings,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, CertificateError> {
    let versions: &[&rustls::SupportedProtocolVersion] = match settings.min_version {
        TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12],
        TlsVersion::Tls13 => &[&version::TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider(settings)))
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The built-in provider, narrowed to what the settings name. A list that names nothing built in
/// narrows nothing: the start that it would prevent is one that the settings allow.
fn provider(settings: &TlsSettings) -> CryptoProvider {
    let mut provider = ring::default_provider();
    narrow(
        &mut provider.cipher_suites,
        "--tls-cipher-suites",
        &settings.cipher_suites,
        |suite, name| match suite {
            // TLS 1.3 suites cannot be chosen.
            SupportedCipherSuite::Tls13(_) => true,
            SupportedCipherSuite::Tls12(_) => suite_name(*suite) == without_alias(name),
        },
    );
    narrow(
        &mut provider.kx_groups,
        "--tls-curve-preferences",
        &settings.groups,
        |group: &&dyn SupportedKxGroup, number| u16::from(group.name()) == *number,
    );
    provider
}

fn narrow<T, N>(offered: &mut Vec<T>, flag: &str, wanted: &[N], is: impl Fn(&T, &N) -> bool) {
    if wanted.is_empty() {
        return;
    }
    if !wanted
        .iter()
        .any(|name| offered.iter().any(|one| is(one, name)))
    {
        tracing::warn!(
            flag,
            "nothing that the flag names is built in; the built-in choice is offered"
        );
        return;
    }
    offered.retain(|one| wanted.iter().any(|name| is(one, name)));
}

fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    suite.suite().as_str().unwrap_or_default()
}

/// Two suites have an older name.
fn without_alias(name: &str) -> &str {
    match name {
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        other => other,
    }
}
