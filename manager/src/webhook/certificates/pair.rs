//! A certificate with its key: made, or read, and for how long it is good for whom.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret as _, SecretString};

/// How long a certificate is good for.
pub(crate) const LIFE: Duration = Duration::from_hours(90 * 24);
/// So long before its end there should be another.
pub(crate) const EARLY: Duration = Duration::from_hours(30 * 24);
/// A certificate is good from this long before it was made: clocks differ.
const BACKDATED: Duration = Duration::from_hours(1);

/// A certificate, with its chain, and its key. The key is not printed, and wiped when it is dropped.
#[derive(Clone)]
pub(crate) struct Pair {
    certificate: String,
    key: SecretString,
    certified: Arc<CertifiedKey>,
}

/// Who signs: a certificate that clients are given to verify others with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority(CertificateDer<'static>);

/// A new pair, and the only certificate with which it can be verified. The key that signed it is gone: nothing else will ever
/// be signed by that authority, so that to trust it is to trust this pair.
pub(crate) struct Issue {
    pub(crate) pair: Pair,
    pub(crate) authority: Authority,
}

/// Why there is no pair. It quotes nothing of what was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PairError {
    #[error("the certificate is not in PEM form: {0}")]
    Certificate(pem::Error),
    #[error("the private key is not in PEM form, without a passphrase: {0}")]
    Key(pem::Error),
    #[error("certificate and private key cannot be used: {0}")]
    Rejected(rustls::Error),
}

/// No certificate could be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate: {0}")]
pub(crate) struct IssueError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl Pair {
    /// From what files or a Secret hold.
    pub(crate) fn read(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(PairError::Certificate)?;
        if chain.is_empty() {
            return Err(PairError::Certificate(pem::Error::NoItemsFound));
        }
        let private = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, private, &provider).map_err(PairError::Rejected)?;
        Ok(Self {
            certificate: String::from_utf8_lossy(certificate).into_owned(),
            key: SecretString::from(String::from_utf8_lossy(key).into_owned()),
            certified: Arc::new(certified),
        })
    }

    pub(crate) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// In the clear: only for the Secret.
    pub(crate) fn key(&self) -> &str {
        self.key.expose_secret()
    }

    /// What a handshake needs.
    pub(crate) fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Whether a client that trusts `authorities` takes it for `name` at that time.
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
    /// All that can be used of a bundle in PEM form; the rest is left out.
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

/// A bundle in PEM form, always the same for the same authorities.
pub(crate) fn bundle(authorities: &[Authority]) -> String {
    authorities.iter().map(Authority::pem).collect()
}

/// Makes a pair for `name`, good from now on.
pub(crate) fn issue(name: &str, now: Timestamp) -> Result<Issue, IssueError> {
    make(name, now).map_err(IssueError)
}

fn make(name: &str, now: Timestamp) -> Result<Issue, Box<dyn std::error::Error + Send + Sync>> {
    let from = now.saturating_sub(BACKDATED).unwrap_or(now);
    let until = now.saturating_add(LIFE).unwrap_or(now);
    let params = |names: Vec<String>, common: String| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, common);
        // Both end at once: an authority that outlives what it has signed is good for nothing.
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let since = |at: Timestamp| Duration::from_secs(at.as_second().try_into().unwrap_or(0));
        (params.not_before, params.not_after) = (epoch + since(from), epoch + since(until));
        Ok::<_, rcgen::Error>(params)
    };
    // A subject of its own: two in one bundle are told apart by it.
    let mut authority = params(Vec::new(), format!("coxswain-webhook-ca@{}", now.as_second()))?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut leaf = params(vec![name.to_owned()], name.to_owned())?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &authority)?;
    let pem = SecretString::from(key.serialize_pem());
    let pair = Pair::read(certificate.pem().as_bytes(), pem.expose_secret().as_bytes())?;
    Ok(Issue {
        pair,
        authority: Authority(authority.der().clone()),
    })
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
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
    fn a_pair_is_good_for_its_name_and_its_time_by_its_own_authority_alone() {
        let (one, two) = (
            issue(NAME, now()).expect("made"),
            issue(NAME, now()).expect("made"),
        );
        let ok = |authorities: &[Authority], name, at| one.pair.verify(authorities, name, at).is_ok();
        let own = [one.authority.clone()];
        assert!(ok(&own, NAME, now()));
        assert!(ok(&[two.authority.clone(), one.authority.clone()], NAME, now()));
        assert!(!ok(std::slice::from_ref(&two.authority), NAME, now()));
        assert!(!ok(&[], NAME, now()));
        assert!(!ok(&own, "hooks.other.svc", now()));
        assert!(ok(&own, NAME, now() - BACKDATED));
        assert!(!ok(&own, NAME, now() - BACKDATED - SECOND));
        assert!(ok(&own, NAME, now() + LIFE));
        assert!(!ok(&own, NAME, now() + LIFE + SECOND));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let made = issue(NAME, now()).expect("made");
        let read = Pair::read(made.pair.certificate().as_bytes(), made.pair.key().as_bytes());
        let authorities = Authority::read_all(bundle(std::slice::from_ref(&made.authority)).as_bytes());
        assert_eq!(authorities, [made.authority]);
        assert!(read.expect("a pair").verify(&authorities, NAME, now()).is_ok());
    }

    #[test]
    fn what_is_broken_is_said_to_be_and_not_quoted() {
        let (one, two) = (
            issue(NAME, now()).expect("made"),
            issue(NAME, now()).expect("made"),
        );
        let (certificate, key) = (one.pair.certificate(), one.pair.key());
        for (certificate, key, words) in [
            ("", key, "the certificate is not in PEM form"),
            ("hunter2", key, "the certificate is not in PEM form"),
            (certificate, "hunter2", "the private key is not in PEM form"),
            (certificate, certificate, "the private key is not in PEM form"),
            (certificate, two.pair.key(), "cannot be used"),
        ] {
            let error = Pair::read(certificate.as_bytes(), key.as_bytes()).expect_err(words);
            let text = error.to_string();
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
        assert!(!format!("{:?}", one.pair).contains("KEY"));
    }

    #[test]
    fn of_a_bundle_what_can_be_used_is_used() {
        let made = issue(NAME, now()).expect("made");
        let mixed = format!(
            "nonsense\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{}",
            made.authority.pem()
        );
        assert_eq!(Authority::read_all(mixed.as_bytes()), [made.authority]);
        assert_eq!(Authority::read_all(&[0xff, 0x30]), []);
    }
}
