//! The secrets of one run: a certificate authority, a server certificate for the loopback address, and a token.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SigningKey as _,
};
use serde_json::Value;

/// The length of each number of an ES256 signature.
const NUMBER: usize = 32;

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
    /// A random bearer token. Every user of the machine can connect to the server.
    pub token: String,
}

/// An administrator: a client certificate of the group `system:masters`, in PEM.
pub struct Client {
    /// The certificate of the authority.
    pub ca: String,
    /// The client certificate.
    pub cert: String,
    /// The private key.
    pub key: String,
}

/// Issues a client certificate by a new authority.
pub fn client() -> Result<Client, rcgen::Error> {
    let (ca, issuer) = authority()?;
    let mut client = CertificateParams::default();
    let name = &mut client.distinguished_name;
    name.push(DnType::CommonName, "steersman-tests");
    name.push(DnType::OrganizationName, "system:masters");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    Ok(Client {
        ca,
        cert: client.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    })
}

/// Generates a new set for the loopback address.
pub fn generate() -> Result<Certs, rcgen::Error> {
    generate_for(&["127.0.0.1", "localhost"])
}

/// Generates a new set with a server certificate for other names.
pub fn generate_for(names: &[&str]) -> Result<Certs, rcgen::Error> {
    let (ca, issuer) = authority()?;
    let names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
    let mut server = CertificateParams::new(names)?;
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
        // The public half of an unused key is random.
        token: BASE64_URL_SAFE_NO_PAD.encode(KeyPair::generate()?.public_key_raw()),
    })
}

/// The certificate of a new authority in PEM, and its signing half.
fn authority() -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority
        .distinguished_name
        .push(DnType::CommonName, "steersman-tests");
    let key = KeyPair::generate()?;
    let ca = authority.self_signed(&key)?.pem();
    Ok((ca, Issuer::new(authority, key)))
}

/// Signs a token of a service account again, with other claims. `key` is [`Certs::service_account_key`].
pub fn with_claims(token: &str, key: &str, change: impl FnOnce(&mut Value)) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(parts[1]).expect("base64");
    let mut claims = serde_json::from_slice(&claims).expect("claims");
    change(&mut claims);
    let signed = format!(
        "{}.{}",
        parts[0],
        BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let key = KeyPair::from_pem(key).expect("a private key");
    let signature = key.sign(signed.as_bytes()).expect("a signature");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(fixed_length(&signature));
    format!("{signed}.{signature}")
}

/// Converts an ECDSA signature from DER, a sequence of two integers, to two numbers of a fixed length, as a JWT has it.
fn fixed_length(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut fixed = Vec::new();
    while let [_, length, tail @ ..] = rest {
        let (integer, tail) = tail.split_at(usize::from(*length));
        // An integer has no leading zeros but one before a set highest bit.
        let digits = &integer[integer.len().saturating_sub(NUMBER)..];
        fixed.resize(fixed.len() + NUMBER - digits.len(), 0);
        fixed.extend(digits);
        rest = tail;
    }
    fixed
}
