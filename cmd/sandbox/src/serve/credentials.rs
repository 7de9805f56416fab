//! The certificates and the token of one sandbox, made at its start and never written down but in the kubeconfig.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Why no credentials could be made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A certificate could not be made.
    #[error("could not make a certificate for the sandbox: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library did not take it.
    #[error("could not set up TLS for the sandbox: {0}")]
    Tls(#[from] rustls::Error),
}

/// The certificate of a server, and the token of its administrator.
pub struct Credentials {
    /// The authority that signed the server's certificate, PEM.
    pub ca_pem: String,
    /// The bearer token that clients show.
    pub token: String,
    pub(super) tls: Arc<ServerConfig>,
}

impl Credentials {
    /// Fresh credentials for a server that is reached at `host` or as `localhost`.
    pub fn generate(host: IpAddr) -> Result<Self, CredentialsError> {
        let mut ca = CertificateParams::default();
        ca.distinguished_name
            .push(DnType::CommonName, "steersman-sandbox-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

        let names = vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
            host.to_string(),
        ];
        let mut server = CertificateParams::new(names)?;
        server
            .distinguished_name
            .push(DnType::CommonName, "steersman-sandbox");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &ca)?;

        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        // The provider is named, not taken from the process: a second one in the same binary would make that panic.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            ca_pem: ca.pem(),
            token: token(),
            tls: Arc::new(tls),
        })
    }

    /// A kubeconfig with one context that leads to `url`.
    #[must_use]
    pub fn kubeconfig(&self, url: &str) -> String {
        let ca = STANDARD.encode(&self.ca_pem);
        let token = &self.token;
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {CONTEXT}\nclusters:\n- name: {CONTEXT}\n  cluster:\n    \
             server: {url}\n    certificate-authority-data: {ca}\nusers:\n- name: {CONTEXT}\n  user:\n    token: {token}\n\
             contexts:\n- name: {CONTEXT}\n  context:\n    cluster: {CONTEXT}\n    user: {CONTEXT}\n    namespace: default\n"
        )
    }
}

/// The name of the kubeconfig's context, and how a kubeconfig of ours is known again.
pub const CONTEXT: &str = "steersman-sandbox";

#[expect(
    clippy::disallowed_methods,
    reason = "a secret must not be derived from a known seed"
)]
fn token() -> String {
    let [a, b]: [u128; 2] = rand::rng().random();
    format!("{a:032x}{b:032x}")
}
