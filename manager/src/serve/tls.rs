//! TLS configuration.
//!
//! `certificates` selects the certificate of a handshake, `watcher` reloads files, `key_pair` loads a certificate with its
//! key, `options` are versions and cipher suites, `client` requests client certificates.

mod certificates;
mod client;
mod key_pair;
mod options;
mod watcher;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

pub use self::certificates::{ServingCertificates, SniCertificate};
use self::client::AnyCertificate;
use self::key_pair::pem_file;
#[cfg(feature = "webhook")]
pub(crate) use self::key_pair::{KeyPairError, parse as parse_key_pair};
pub use self::options::{TlsOptions, TlsVersion};
pub use self::watcher::{CertificateFiles, CertificateWatcher};

/// Errors in the TLS configuration. All but [`TlsError::Generate`] are configuration errors.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file does not contain the expected PEM item.
    #[error("{path} contains no {expected}: {source}", path = .path.display())]
    Pem {
        path: PathBuf,
        expected: &'static str,
        source: pem::Error,
    },
    /// The private key does not match the certificate.
    #[error(
        "the private key in {key} does not match the certificate in {certificate}",
        key = .key.display(), certificate = .certificate.display()
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
    /// The certificate or its key is not supported. Keys are RSA, ECDSA or Ed25519.
    #[error(
        "invalid certificate in {certificate} or private key in {key}: {source}",
        key = .key.display(), certificate = .certificate.display()
    )]
    Rejected {
        certificate: PathBuf,
        key: PathBuf,
        source: Box<rustls::Error>,
    },
    /// The file of client CAs is invalid.
    #[error("invalid client CA file {path}: {reason}", path = .path.display())]
    ClientCa { path: PathBuf, reason: String },
    /// A cipher suite is not supported.
    #[error("unknown cipher suite {name:?} in cipher_suites: must be one of {}", .known.join(","))]
    CipherSuite { name: String, known: Vec<String> },
    /// The self-signed certificate cannot be generated.
    #[error("failed to generate a certificate: {0}")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server configuration with HTTP/2 and HTTP/1.1.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ServerConfig>);

impl Tls {
    /// Generates a self-signed certificate for `localhost`, the loopback addresses and `hosts`, kept in memory only.
    /// Clients cannot verify it, but the connection is encrypted.
    pub fn self_signed(hosts: impl IntoIterator<Item = String>) -> Result<Self, TlsError> {
        ServingCertificates::self_signed(hosts)?.tls(&TlsOptions::default())
    }

    /// Loads a certificate chain and its private key from PEM files once.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let files = CertificateFiles {
            certificate: certificate.to_owned(),
            private_key: key.to_owned(),
        };
        ServingCertificates::from_files(files)?.tls(&TlsOptions::default())
    }

    /// Uses the certificate that `resolver` returns at each handshake. With `client_ca`, a PEM file of CAs, clients must
    /// present a certificate that one of them has signed.
    pub fn resolving(
        resolver: Arc<dyn ResolvesServerCert>,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let verifier = client_ca.map(client_verifier).transpose()?;
        Self::build(resolver, &TlsOptions::default(), verifier)
    }

    fn build(
        resolver: Arc<dyn ResolvesServerCert>,
        options: &TlsOptions,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Self, TlsError> {
        let builder = ServerConfig::builder_with_provider(options.provider()?)
            .with_protocol_versions(options.versions())
            .map_err(|error| TlsError::Generate(error.into()))?;
        let mut config = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(resolver);
        // A resumed session would keep a certificate that may have been replaced.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Returns the acceptor of TLS handshakes.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}

/// The process-wide default provider would panic if a second one is linked.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let invalid = |reason: String| TlsError::ClientCa {
        path: path.to_owned(),
        reason,
    };
    let authorities = pem_file(path, "certificate authority", |text| {
        CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>()
    })?;
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| invalid(error.to_string()))?;
    }
    // Fails without any CA.
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| invalid(error.to_string()))
}
