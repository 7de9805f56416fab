//! Verifies client certificates against a bundle of CAs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::super::tls;

/// A longer chain is invalid. It bounds the signatures to verify.
const CHAIN_MAX: usize = 8;

/// A bundle of CAs.
pub(super) struct Authority(Arc<dyn ClientCertVerifier>);

/// The subject of a verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// The last common name; empty without one.
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

impl Authority {
    /// Parses a bundle of PEM certificates. The error does not quote it.
    pub(super) fn parse(bundle: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        // Fails without any CA.
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider())
            .build()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// Verifies a chain, leaf first, at the time `at`. Returns none if it is not valid for a client.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], at: Timestamp) -> Option<Subject> {
        let [leaf, issuers @ ..] = chain else { return None };
        if chain.len() > CHAIN_MAX {
            return None;
        }
        let seconds = u64::try_from(at.as_second()).ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if let Err(error) = self.0.verify_client_cert(leaf, issuers, at) {
            tracing::debug!(%error, "Client certificate is invalid");
            return None;
        }
        subject(leaf)
    }
}

/// Returns none if the subject is not text.
fn subject(certificate: &CertificateDer<'_>) -> Option<Subject> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let name = parsed.subject();
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    Some(Subject {
        common_name: name.iter_common_name().last().map_or(Some(String::new()), text)?,
        organizations: name.iter_organization().map(text).collect::<Option<_>>()?,
    })
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}
