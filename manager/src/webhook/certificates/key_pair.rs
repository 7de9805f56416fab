//! A certificate with its private key: issuing, parsing, verification.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret as _, SecretString};

use crate::serve::{KeyPairError, parse_key_pair};

pub(crate) const VALIDITY_PERIOD: Duration = Duration::from_hours(90 * 24);
/// A certificate is renewed this long before it expires.
pub(crate) const RENEW_BEFORE: Duration = Duration::from_hours(30 * 24);
/// Certificates are valid from this long before they are issued, to tolerate clock skew.
const BACKDATE: Duration = Duration::from_hours(1);

/// A certificate chain with its private key. The key is never printed, and is zeroed on drop.
#[derive(Clone)]
pub(crate) struct KeyPair {
    certificate: String,
    key: SecretString,
    certified: Arc<CertifiedKey>,
}

/// A CA certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority(CertificateDer<'static>);

/// A new certificate and its CA. The private key of the CA is discarded, so the CA never signs anything else, and
/// trusting it is equivalent to trusting this certificate.
pub(crate) struct Issued {
    pub(crate) pair: KeyPair,
    pub(crate) authority: Authority,
}

#[derive(Debug, thiserror::Error)]
#[error("failed to issue certificate: {0}")]
pub(crate) struct IssueError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl KeyPair {
    /// Parses a certificate chain and a private key in PEM form.
    pub(crate) fn read(certificate: &[u8], key: &[u8]) -> Result<Self, KeyPairError> {
        let certified = parse_key_pair(certificate, key)?;
        Ok(Self {
            certificate: String::from_utf8_lossy(certificate).into_owned(),
            key: SecretString::from(String::from_utf8_lossy(key).into_owned()),
            certified: Arc::new(certified),
        })
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the private key in PEM form, to be stored in the Secret only.
    pub(crate) fn key(&self) -> &str {
        self.key.expose_secret()
    }

    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Reports whether a client that trusts `authorities` accepts the certificate for `name` at the time `at`.
    pub(crate) fn verify(
        &self,
        authorities: &[Authority],
        name: &str,
        at: Timestamp,
    ) -> Result<(), rustls::Error> {
        let general = |error: String| rustls::Error::General(error);
        let mut roots = RootCertStore::empty();
        for Authority(authority) in authorities {
            roots.add(authority.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| general(error.to_string()))?;
        let name = ServerName::try_from(name).map_err(|error| general(error.to_string()))?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at.as_second().try_into().unwrap_or(0)));
        let [leaf, issuers @ ..] = &self.certified.cert[..] else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        verifier
            .verify_server_cert(leaf, issuers, &name, &[], at)
            .map(|_| ())
    }
}

impl Authority {
    /// Parses a PEM bundle and skips invalid certificates.
    pub(crate) fn read_all(bundle: &[u8]) -> Vec<Self> {
        let all = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok);
        all.filter(|it| RootCertStore::empty().add(it.clone()).is_ok())
            .map(Self)
            .collect()
    }

    fn pem(&self) -> String {
        let text = STANDARD.encode(&self.0);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = more;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

/// Encodes a PEM bundle, deterministically.
pub(crate) fn bundle(authorities: &[Authority]) -> String {
    authorities.iter().map(Authority::pem).collect()
}

/// Issues a certificate for `name`, valid from now on. The common name of its CA starts with `authority`.
pub(crate) fn issue(authority: &str, name: &str, now: Timestamp) -> Result<Issued, IssueError> {
    make(authority, name, now).map_err(IssueError)
}

fn make(
    authority: &str,
    name: &str,
    now: Timestamp,
) -> Result<Issued, Box<dyn std::error::Error + Send + Sync>> {
    let from = now.saturating_sub(BACKDATE).unwrap_or(now);
    let until = now.saturating_add(VALIDITY_PERIOD).unwrap_or(now);
    let params = |names: Vec<String>, common: String| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common);
        // Both expire together: the CA has signed nothing else.
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let since = |at: Timestamp| Duration::from_secs(at.as_second().try_into().unwrap_or(0));
        (params.not_before, params.not_after) = (epoch + since(from), epoch + since(until));
        Ok::<_, rcgen::Error>(params)
    };
    // A unique subject distinguishes the CAs in a bundle.
    let mut authority = params(Vec::new(), format!("{authority}@{}", now.as_second()))?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
    let mut leaf = params(vec![name.to_owned()], name.to_owned())?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = rcgen::KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &authority)?;
    let pem = SecretString::from(key.serialize_pem());
    let pair = KeyPair::read(certificate.pem().as_bytes(), pem.expose_secret().as_bytes())?;
    Ok(Issued {
        pair,
        authority: Authority(authority.der().clone()),
    })
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "hooks.system.svc";
    const SECOND: Duration = Duration::from_secs(1);

    fn now() -> Timestamp {
        "2026-02-03T04:05:06Z".parse().expect("a time")
    }

    #[test]
    fn key_pair_verifies_only_for_own_name_validity_and_authority() {
        let (one, two) = (
            issue("ca", NAME, now()).expect("made"),
            issue("ca", NAME, now()).expect("made"),
        );
        let ok = |authorities: &[Authority], name, at| one.pair.verify(authorities, name, at).is_ok();
        let own = [one.authority.clone()];
        assert!(ok(&own, NAME, now()));
        assert!(ok(&[two.authority.clone(), one.authority.clone()], NAME, now()));
        assert!(!ok(std::slice::from_ref(&two.authority), NAME, now()));
        assert!(!ok(&[], NAME, now()));
        assert!(!ok(&own, "hooks.other.svc", now()));
        assert!(ok(&own, NAME, now() - BACKDATE));
        assert!(!ok(&own, NAME, now() - BACKDATE - SECOND));
        assert!(ok(&own, NAME, now() + VALIDITY_PERIOD));
        assert!(!ok(&own, NAME, now() + VALIDITY_PERIOD + SECOND));
    }

    #[test]
    fn encoded_key_pair_and_bundle_parse_again() {
        let made = issue("ca", NAME, now()).expect("made");
        let read = KeyPair::read(made.pair.certificate().as_bytes(), made.pair.key().as_bytes());
        let authorities = Authority::read_all(bundle(std::slice::from_ref(&made.authority)).as_bytes());
        assert_eq!(authorities, [made.authority]);
        assert!(read.expect("a pair").verify(&authorities, NAME, now()).is_ok());
    }

    #[test]
    fn malformed_key_pair_is_rejected_without_quoting_it() {
        let (one, two) = (
            issue("ca", NAME, now()).expect("made"),
            issue("ca", NAME, now()).expect("made"),
        );
        let (certificate, key) = (one.pair.certificate(), one.pair.key());
        for (certificate, key, words) in [
            ("", key, "certificate is not valid PEM"),
            ("hunter2", key, "certificate is not valid PEM"),
            (certificate, "hunter2", "private key is not valid"),
            (certificate, certificate, "private key is not valid"),
            (certificate, two.pair.key(), "private key does not match"),
        ] {
            let error = KeyPair::read(certificate.as_bytes(), key.as_bytes()).expect_err(words);
            let text = error.to_string();
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
        assert!(!format!("{:?}", one.pair).contains("KEY"));
    }

    #[test]
    fn invalid_certificates_in_a_bundle_are_skipped() {
        let made = issue("ca", NAME, now()).expect("made");
        let mixed = format!(
            "nonsense\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{}",
            made.authority.pem()
        );
        assert_eq!(Authority::read_all(mixed.as_bytes()), [made.authority]);
        assert_eq!(Authority::read_all(&[0xff, 0x30]), []);
    }
}
