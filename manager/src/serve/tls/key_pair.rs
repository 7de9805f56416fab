//! A certificate chain with its private key, from PEM files or self-signed.

use std::net::IpAddr;
use std::path::Path;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::InconsistentKeys;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::{CertificateFiles, TlsError, provider};

/// Errors do not quote the input, which holds a private key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyPairError {
    #[error("certificate is not valid PEM: {0}")]
    Certificate(pem::Error),
    #[error("private key is not valid unencrypted PEM: {0}")]
    Key(pem::Error),
    #[error("private key does not match the certificate")]
    Mismatch,
    #[error("invalid certificate or private key: {0}")]
    Rejected(rustls::Error),
}

/// Parses a certificate chain and a private key in PEM form.
pub(crate) fn parse(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, KeyPairError> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(KeyPairError::Certificate)?;
    if chain.is_empty() {
        return Err(KeyPairError::Certificate(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(KeyPairError::Key)?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => KeyPairError::Mismatch,
        error => KeyPairError::Rejected(error),
    })
}

/// Parses the contents of PEM files.
pub(super) fn parse_files(
    files: &CertificateFiles,
    certificate: &[u8],
    key: &[u8],
) -> Result<CertifiedKey, TlsError> {
    let pem = |path: &Path, expected, source| TlsError::Pem {
        path: path.to_owned(),
        expected,
        source,
    };
    parse(certificate, key).map_err(|error| {
        let (certificate, key) = (files.certificate.clone(), files.private_key.clone());
        match error {
            KeyPairError::Certificate(source) => pem(&certificate, "certificate", source),
            KeyPairError::Key(source) => pem(&key, "private key without a passphrase", source),
            KeyPairError::Mismatch => TlsError::Mismatch { certificate, key },
            KeyPairError::Rejected(source) => TlsError::Rejected {
                certificate,
                key,
                source: source.into(),
            },
        }
    })
}

/// Reads PEM files.
pub(super) fn load(files: &CertificateFiles) -> Result<CertifiedKey, TlsError> {
    let certificate = read(&files.certificate)?;
    let key = read(&files.private_key)?;
    parse_files(files, &certificate, &key)
}

/// Generates a self-signed certificate for `localhost`, the loopback addresses and `hosts`.
pub(super) fn self_signed(hosts: impl IntoIterator<Item = String>) -> Result<CertifiedKey, TlsError> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut names: Vec<String> = names.into_iter().chain(hosts).collect();
    // An unspecified address (0.0.0.0) is never the address of a connection.
    names.retain(|name| !name.parse().is_ok_and(|address: IpAddr| address.is_unspecified()));
    names.sort_unstable();
    names.dedup();
    generate(names).map_err(TlsError::Generate)
}

fn generate(names: Vec<String>) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(CertifiedKey::from_der(
        vec![certificate.der().clone()],
        key,
        &provider(),
    )?)
}

/// Reads and parses a PEM file.
pub(super) fn pem_file<T>(
    path: &Path,
    expected: &'static str,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> Result<T, TlsError> {
    parse(&read(path)?).map_err(|source| TlsError::Pem {
        path: path.to_owned(),
        expected,
        source,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}
