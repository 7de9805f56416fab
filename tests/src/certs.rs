//! The secrets of one run: a certificate authority, the server certificate it signs for the loopback address, a token.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// All in PEM.
pub struct Certs {
    /// The authority's certificate, for clients.
    pub ca: String,
    /// The server's certificate.
    pub cert: String,
    /// The server's private key.
    pub key: String,
    /// The private key that signs service account tokens.
    pub service_account_key: String,
    /// Its public half, which verifies them.
    pub service_account_public: String,
    /// A bearer token that nobody can guess, as the server listens where every user of the machine can reach it.
    pub token: String,
}

/// Makes a new set; nothing of it is kept anywhere else.
pub fn generate() -> Result<Certs, rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority
        .distinguished_name
        .push(DnType::CommonName, "coxswain-tests");
    let ca_key = KeyPair::generate()?;
    let ca = authority.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(authority, ca_key);

    let mut server = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    server
        .distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let cert = server.signed_by(&key, &issuer)?.pem();
    let service_account = KeyPair::generate()?;
    Ok(Certs {
        ca,
        cert,
        key: key.serialize_pem(),
        service_account_key: service_account.serialize_pem(),
        service_account_public: service_account.public_key_pem(),
        // The public half of a key that is thrown away: as random as the key.
        token: BASE64_URL_SAFE_NO_PAD.encode(KeyPair::generate()?.public_key_raw()),
    })
}
