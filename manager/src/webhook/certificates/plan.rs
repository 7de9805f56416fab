//! Decides the leader's next write to the Secret and the webhook configurations.
//!
//! A renewal takes three writes. Between any two of them, and if any of them is late or lost, every replica serves a
//! certificate that every client can verify:
//!
//! 1. *Stage*: store a new certificate beside the serving one, and add its CA to the trusted CAs.
//! 2. *Inject*: write both CAs to the webhook configurations.
//! 3. *Promote*: make the staged certificate the serving one. The old CA stays trusted for replicas that have not reloaded
//!    yet, until a few newer CAs exist; by then its certificate has expired. Trusting it longer is harmless, because its
//!    private key is discarded.
//!
//! Promote requires that Inject has completed. Therefore the configurations are read *before* the Secret, and every write
//! carries the resourceVersion that was read. If another leader stages a different certificate in between, the promotion
//! fails with 409 Conflict. A leader that has not seen the staged certificate has read the configurations before the
//! injection, so its own write to them fails.
//!
//! Stage must keep the CAs of certificates that replicas may still serve from memory, even if the Secret is corrupted.
//! Therefore the configurations are read again *after* the Secret: every promoted certificate has its CA in them.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::configuration::Configuration;
use super::key_pair::{Authority, bundle};
use super::secret::{CertificateSecret, Validity};

/// The number of CAs that stay trusted beside a new one. A CA is created every two thirds of the validity period, or when
/// the Secret is invalid, and must stay trusted for one validity period.
const MAX_PREVIOUS_AUTHORITIES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    /// Creates the Secret with a staged certificate and no serving one.
    Create,
    /// Issues and stages a certificate.
    Stage {
        /// The reason why the serving certificate is invalid; none if it only expires soon.
        invalid: Option<String>,
    },
    /// Writes the CA bundle of the Secret to the configurations that differ.
    Inject,
    /// Makes the staged certificate the serving one.
    Promote,
}

/// Decides the next step. The configurations must have been read before the Secret.
pub(crate) fn decide(
    configurations: &[&Configuration],
    secret: Option<&CertificateSecret>,
    name: &str,
    now: Timestamp,
) -> Step {
    let Some(secret) = secret else {
        return Step::Create;
    };
    let current = secret.validity(&secret.current, name, now);
    let next = secret.validity(&secret.next, name, now);
    let trusted = bundle(&secret.authorities);
    // The bundle of an invalid Secret is not injected: the present one may still verify a served certificate.
    let useful = next == Validity::Fresh || !matches!(current, Validity::Invalid(_));
    if useful && !configurations.iter().all(|it| it.has_bundle(&trusted)) {
        return Step::Inject;
    }
    match (current, next) {
        (_, Validity::Fresh) => Step::Promote,
        (Validity::Fresh, _) => Step::Nothing,
        (Validity::Expiring, _) => Step::Stage { invalid: None },
        (Validity::Invalid(reason), _) => Step::Stage {
            invalid: Some(reason),
        },
    }
}

/// Returns the CAs to keep when a certificate is staged. The configurations must have been read after the Secret: if the
/// Secret is corrupted, replicas may still serve its last certificate, whose CA is only in the configurations.
///
/// Too many CAs mean that another client adds them, or corrupts the Secret repeatedly. The CA of the serving certificate
/// has precedence, then the CAs that most objects contain (they are not all corrupted at once), then the latest.
pub(crate) fn retained(
    secret: &CertificateSecret,
    configurations: &[&Configuration],
    name: &str,
    now: Timestamp,
) -> Vec<Authority> {
    let injected = configurations.iter().map(|it| it.authorities());
    let bundles: Vec<Vec<Authority>> = injected.chain([secret.authorities.clone()]).collect();
    let mut all: Vec<Authority> = Vec::new();
    for authority in bundles.iter().flatten() {
        if !all.contains(authority) {
            all.push(authority.clone());
        }
    }
    all.sort_by_key(|authority| {
        let agree = bundles.iter().filter(|it| it.contains(authority)).count();
        (secret.current.is_verified_by(authority, name, now), agree)
    });
    all.split_off(all.len().saturating_sub(MAX_PREVIOUS_AUTHORITIES))
}
