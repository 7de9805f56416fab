//! What the server proves itself with: a certificate from files, or one made at its start and kept in memory.

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

/// Why there is no TLS. All but [`TlsError::Generate`] are mistakes in what was given.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; {flag} must name a file that this process may read", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file does not hold what its flag promises.
    #[error("{path} holds no {wanted}: {source}; {flag} must name one in PEM form", path = .path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The flag that names it.
        flag: &'static str,
        /// What was looked for.
        wanted: &'static str,
        /// The parser's reason.
        source: pem::Error,
    },
    /// Certificate and key are no pair.
    #[error(
        "the key in {key} does not belong to the certificate in {certificate}; give --tls-private-key-file the key \
         that this certificate was made for", key = .key.display(), certificate = .certificate.display()
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The TLS library does not take the pair.
    #[error(
        "cannot serve with the certificate in {certificate} and the key in {key}: {source}; give --tls-cert-file and \
         --tls-private-key-file a certificate and its key (RSA, ECDSA or Ed25519)",
        key = .key.display(), certificate = .certificate.display()
    )]
    Rejected {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The library's reason.
        source: rustls::Error,
    },
    /// Client certificates cannot be verified by the file.
    #[error(
        "cannot verify clients by {path}: {reason}; --webhook-client-ca-file must name certificate authorities in PEM form",
        path = .path.display()
    )]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// The library's reason.
        reason: String,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}; give one with --tls-cert-file and --tls-private-key-file")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A certificate with its key, ready to serve TLS 1.2 and 1.3 with, for HTTP/2 and HTTP/1.1.
#[derive(Clone)]
pub struct Tls(pub(super) Arc<ServerConfig>);

impl Tls {
    /// A new certificate for `localhost`, the loopback addresses, and `hosts`, signed by itself and kept in memory only.
    /// Clients cannot verify it; what they say is still private to whoever only listens.
    pub fn self_signed(hosts: impl IntoIterator<Item = String>) -> Result<Self, TlsError> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut names: Vec<String> = names.into_iter().chain(hosts).collect();
        // Nobody connects to 0.0.0.0: it says that all addresses are listened on, not which.
        names.retain(|name| !name.parse().is_ok_and(|address: IpAddr| address.is_unspecified()));
        names.sort_unstable();
        names.dedup();
        generate(names).map_err(TlsError::Generate)
    }

    /// The certificate, with its chain, and the key in these files.
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

    /// The certificate that `resolver` has when a client connects; without one the handshake fails. With `client_ca`, a file
    /// of certificate authorities, so does the handshake of a client without a certificate of one of them.
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
        // A session that is resumed would go on with a certificate that may no longer be the right one.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(finish(config))
    }

    /// The server's side of a handshake.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}

fn pem_file<T>(
    path: &Path,
    flag: &'static str,
    wanted: &'static str,
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
        wanted,
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

/// Named, not taken from the process: a second one in the same binary would make that panic.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |reason: String| TlsError::ClientCa {
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
        roots
            .add(authority)
            .map_err(|error| unusable(error.to_string()))?;
    }
    // Without any authority this fails.
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| unusable(error.to_string()))
}

fn finish(mut config: ServerConfig) -> Tls {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Tls(Arc::new(config))
}
