//! The Secret that stores the serving certificate, and the patches that change it.
//!
//! | key | |
//! |---|---|
//! | `tls.crt`, `tls.key` | the serving certificate; both empty at first |
//! | `ca.crt` | the CA bundle to inject |
//! | `next.crt`, `next.key` | the staged certificate, served once all clients trust its CA |

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::key_pair::{Authority, Issued, KeyPair, RENEW_BEFORE, bundle};
use crate::object::decode::null_is_default;
use crate::object::{Key, Meta, Version};
use crate::serve::KeyPairError;

/// The Secret as stored. It has no `Debug`: `data` holds private keys.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawSecret {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    data: BTreeMap<String, ByteString>,
}

pub(crate) struct CertificateSecret {
    metadata: Meta,
    pub(crate) current: Slot,
    pub(crate) next: Slot,
    pub(crate) authorities: Vec<Authority>,
}

pub(crate) enum Slot {
    Empty,
    Malformed(KeyPairError),
    Filled(Box<KeyPair>),
}

/// The validity of a certificate for clients that trust the CA bundle of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    Fresh,
    /// Valid, but due for renewal.
    Expiring,
    /// The reason why clients reject it.
    Invalid(String),
}

impl Slot {
    /// Reports whether a client that trusts only `authority` accepts the certificate.
    pub(crate) fn is_verified_by(&self, authority: &Authority, name: &str, now: Timestamp) -> bool {
        match self {
            Self::Filled(pair) => pair.verify(std::slice::from_ref(authority), name, now).is_ok(),
            Self::Empty | Self::Malformed(_) => false,
        }
    }
}

impl From<RawSecret> for CertificateSecret {
    fn from(RawSecret { metadata, data }: RawSecret) -> Self {
        let bytes = |key: &str| data.get(key).map_or(&[][..], |it| &it.0);
        let slot = |certificate, key| match (bytes(certificate), bytes(key)) {
            ([], []) => Slot::Empty,
            (certificate, key) => match KeyPair::read(certificate, key) {
                Ok(pair) => Slot::Filled(Box::new(pair)),
                Err(error) => Slot::Malformed(error),
            },
        };
        Self {
            current: slot("tls.crt", "tls.key"),
            next: slot("next.crt", "next.key"),
            authorities: Authority::read_all(bytes("ca.crt")),
            metadata,
        }
    }
}

impl CertificateSecret {
    pub(crate) fn version(&self) -> &Version {
        &self.metadata.resource_version
    }

    /// Returns the certificate to serve, or the reason why the stored one must not be served.
    pub(crate) fn to_serve(&self, name: &str, now: Timestamp) -> Result<Option<&KeyPair>, String> {
        match &self.current {
            Slot::Empty => Ok(None),
            Slot::Malformed(error) => Err(error.to_string()),
            Slot::Filled(pair) => match self.validity(&self.current, name, now) {
                Validity::Invalid(reason) => Err(reason),
                Validity::Fresh | Validity::Expiring => Ok(Some(pair)),
            },
        }
    }

    pub(crate) fn validity(&self, slot: &Slot, name: &str, now: Timestamp) -> Validity {
        let pair = match slot {
            Slot::Empty => return Validity::Invalid("no certificate".to_owned()),
            Slot::Malformed(error) => return Validity::Invalid(error.to_string()),
            Slot::Filled(pair) => pair,
        };
        if let Err(error) = pair.verify(&self.authorities, name, now) {
            return Validity::Invalid(error.to_string());
        }
        let later = now.saturating_add(RENEW_BEFORE).unwrap_or(Timestamp::MAX);
        match pair.verify(&self.authorities, name, later) {
            Ok(()) => Validity::Fresh,
            Err(_) => Validity::Expiring,
        }
    }

    /// Returns the patch that stages `issue` and trusts its CA in addition to `retained`.
    pub(crate) fn stage(&self, issue: &Issued, mut retained: Vec<Authority>) -> Value {
        retained.push(issue.authority.clone());
        self.patch(&json!({
            "next.crt": encoded(issue.pair.certificate()),
            "next.key": encoded(issue.pair.key()),
            "ca.crt": encoded(&bundle(&retained)),
        }))
    }

    /// Returns the patch that makes the staged certificate the serving one, if there is a staged one.
    pub(crate) fn promote(&self) -> Option<Value> {
        let Slot::Filled(next) = &self.next else {
            return None;
        };
        Some(self.patch(&json!({
            "tls.crt": encoded(next.certificate()),
            "tls.key": encoded(next.key()),
            "next.crt": null,
            "next.key": null,
        })))
    }

    /// Returns a merge patch that fails with 409 Conflict if the Secret has changed since it was read.
    fn patch(&self, data: &Value) -> Value {
        let Meta {
            uid,
            resource_version,
            ..
        } = &self.metadata;
        json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "data": data})
    }
}

/// Returns a Secret with `issue` staged and no serving certificate.
pub(crate) fn new_secret(key: &Key, labels: &BTreeMap<String, String>, issue: &Issued) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": labels,
        },
        "data": {
            // Required by the Secret type.
            "tls.crt": "",
            "tls.key": "",
            "next.crt": encoded(issue.pair.certificate()),
            "next.key": encoded(issue.pair.key()),
            "ca.crt": encoded(&bundle(std::slice::from_ref(&issue.authority))),
        },
    })
}

fn encoded(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}
