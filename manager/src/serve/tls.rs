//! TLS configuration: a certificate from files, or a self-signed one in memory.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, InconsistentKeys, RootCertStore, ServerConfig, WantsVerifier};
use tokio_rustls::TlsAcceptor;

/// Errors in the TLS configuration. All but [`TlsError::Generate`] are configuration errors.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; {flag} must name a readable file", path = .path.display())]
    Read {
        path: PathBuf,
        flag: &'static str,
        source: io::Error,
    },
    /// A file does not contain the expected PEM item.
    #[error("{path} contains no {expected}: {source}; {flag} must name a PEM file with one", path = .path.display())]
    Pem {
        path: PathBuf,
        flag: &'static str,
        expected: &'static str,
        source: pem::Error,
    },
    /// The private key does not match the certificate.
    #[error(
        "the private key in {key} does not match the certificate in {certificate}; --tls-private-key-file must name the \
         key of this certificate", key = .key.display(), certificate = .certificate.display()
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
    /// The certificate or its key is not supported.
    #[error(
        "invalid certificate in {certificate} or private key in {key}: {source}; --tls-cert-file and \
         --tls-private-key-file must name a certificate and its key (RSA, ECDSA or Ed25519)",
        key = .key.display(), certificate = .certificate.display()
    )]
    Rejected {
        certificate: PathBuf,
        key: PathBuf,
        source: rustls::Error,
    },
    /// The file of client CAs is invalid.
    #[error(
        "invalid client CA file {path}: {reason}; --webhook-client-ca-file must name a PEM file of CA certificates",
        path = .path.display()
    )]
    ClientCa { path: PathBuf, reason: String },
    /// The self-signed certificate cannot be generated.
    #[error("failed to generate a certificate: {0}; use --tls-cert-file and --tls-private-key-file")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A server configuration for TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ServerConfig>);

impl Tls {
    /// Generates a self-signed certificate for `localhost`, the loopback addresses and `hosts`, kept in memory only.
    /// Clients cannot verify it, but the connection is encrypted.
    pub fn self_signed(hosts: impl IntoIterator<Item = String>) -> Result<Self, TlsError> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut names: Vec<String> = names.into_iter().chain(hosts).collect();
        // An unspecified address (0.0.0.0) is never the address of a connection.
        names.retain(|name| !name.parse().is_ok_and(|address: IpAddr| address.is_unspecified()));
        names.sort_unstable();
        names.dedup();
        generate(names).map_err(TlsError::Generate)
    }

    /// Loads a certificate chain and its private key from PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = pem_file(certificate, "--tls-cert-file", "certificate", |text| {
            let chain = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>()?;
            if chain.is_empty() {
                return Err(pem::Error::NoItemsFound);
            }
            Ok(chain)
        })?;
        let private = pem_file(
            key,
            "--tls-private-key-file",
            "private key without a passphrase",
            PrivateKeyDer::from_pem_slice,
        )?;
        config(chain, private).map_err(|source| {
            let (certificate, key) = (certificate.to_owned(), key.to_owned());
            match source {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::Mismatch { certificate, key }
                }
                source => TlsError::Rejected {
                    certificate,
                    key,
                    source,
                },
            }
        })
    }

    /// Uses the certificate that `resolver` returns at each handshake. With `client_ca`, a PEM file of CAs, clients must
    /// present a certificate that one of them has signed.
    pub fn resolving(
        resolver: Arc<dyn ResolvesServerCert>,
        client_ca: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let generate = |error: rustls::Error| TlsError::Generate(error.into());
        let builder = match client_ca {
            None => builder().map_err(generate)?,
            Some(path) => versions()
                .map_err(generate)?
                .with_client_cert_verifier(client_verifier(path)?),
        };
        let mut config = builder.with_cert_resolver(resolver);
        // A resumed session would keep a certificate that may have been replaced.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(finish(config))
    }

    /// Returns the acceptor of TLS handshakes.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}

fn pem_file<T>(
    path: &Path,
    flag: &'static str,
    expected: &'static str,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> Result<T, TlsError> {
    let text = std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        flag,
        source,
    })?;
    parse(&text).map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        flag,
        expected,
        source,
    })
}

fn generate(names: Vec<String>) -> Result<Tls, Box<dyn std::error::Error + Send + Sync>> {
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "coxswain-self-signed");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(config(vec![certificate.der().clone()], key)?)
}

pub(super) fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Tls, rustls::Error> {
    Ok(finish(builder()?.with_single_cert(chain, key)?))
}

fn builder() -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, rustls::Error> {
    Ok(versions()?.with_no_client_auth())
}

fn versions() -> Result<ConfigBuilder<ServerConfig, WantsVerifier>, rustls::Error> {
    ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
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
    let authorities = pem_file(
        path,
        "--webhook-client-ca-file",
        "certificate authority",
        |text| CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>(),
    )?;
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| invalid(error.to_string()))?;
    }
    // Fails without any CA.
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| invalid(error.to_string()))
}

fn finish(mut config: ServerConfig) -> Tls {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Tls(Arc::new(config))
}
