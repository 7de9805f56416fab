//! The one Secret: what it holds, and the writes that change it.
//!
//! | key | |
//! |---|---|
//! | `tls.crt`, `tls.key` | what is served; both empty before there is anything |
//! | `ca.crt` | the authorities that clients are to trust: what is injected |
//! | `next.crt`, `next.key` | what will be served once all clients trust its authority |

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pair::{Authority, EARLY, Issue, Pair, PairError, bundle};
use crate::object::decode::null_is_default;
use crate::object::{Key, Meta, Version};

/// The Secret as it is read. Not to be printed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stored {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    data: BTreeMap<String, ByteString>,
}

/// What it holds.
pub(crate) struct Held {
    metadata: Meta,
    pub(crate) current: Slot,
    pub(crate) next: Slot,
    pub(crate) authorities: Vec<Authority>,
}

/// A place for a pair.
pub(crate) enum Slot {
    Empty,
    Broken(PairError),
    Filled(Box<Pair>),
}

/// What a pair is good for, with the authorities beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    /// For some time.
    Fresh,
    /// For now.
    Old,
    /// For nothing, and why.
    Useless(String),
}

impl Slot {
    /// Whether what is in it is good for who trusts this authority alone.
    pub(crate) fn is_verified_by(&self, authority: &Authority, name: &str, now: Timestamp) -> bool {
        match self {
            Self::Filled(pair) => pair.verify(std::slice::from_ref(authority), name, now).is_ok(),
            Self::Empty | Self::Broken(_) => false,
        }
    }
}

impl From<Stored> for Held {
    fn from(Stored { metadata, data }: Stored) -> Self {
        let bytes = |key: &str| data.get(key).map_or(&[][..], |it| &it.0);
        let slot = |certificate, key| match (bytes(certificate), bytes(key)) {
            ([], []) => Slot::Empty,
            (certificate, key) => match Pair::read(certificate, key) {
                Ok(pair) => Slot::Filled(Box::new(pair)),
                Err(error) => Slot::Broken(error),
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

impl Held {
    pub(crate) fn version(&self) -> &Version {
        &self.metadata.resource_version
    }

    /// What a replica may serve; why not, if there is something that it must not.
    pub(crate) fn to_serve(&self, name: &str, now: Timestamp) -> Result<Option<&Pair>, String> {
        match &self.current {
            Slot::Empty => Ok(None),
            Slot::Broken(error) => Err(error.to_string()),
            Slot::Filled(pair) => match self.fitness(&self.current, name, now) {
                Fitness::Useless(reason) => Err(reason),
                Fitness::Fresh | Fitness::Old => Ok(Some(pair)),
            },
        }
    }

    pub(crate) fn fitness(&self, slot: &Slot, name: &str, now: Timestamp) -> Fitness {
        let pair = match slot {
            Slot::Empty => return Fitness::Useless("there is none".to_owned()),
            Slot::Broken(error) => return Fitness::Useless(error.to_string()),
            Slot::Filled(pair) => pair,
        };
        if let Err(error) = pair.verify(&self.authorities, name, now) {
            return Fitness::Useless(error.to_string());
        }
        let later = now.saturating_add(EARLY).unwrap_or(Timestamp::MAX);
        match pair.verify(&self.authorities, name, later) {
            Ok(()) => Fitness::Fresh,
            Err(_) => Fitness::Old,
        }
    }

    /// The write that makes `issue` the next, trusted beside `kept`.
    pub(crate) fn stage(&self, issue: &Issue, mut kept: Vec<Authority>) -> Value {
        kept.push(issue.authority.clone());
        self.patch(&json!({
            "next.crt": encoded(issue.pair.certificate()),
            "next.key": encoded(issue.pair.key()),
            "ca.crt": encoded(&bundle(&kept)),
        }))
    }

    /// The write that has the next served; none if there is no next.
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

    /// A merge patch, good for what was read and for nothing newer.
    fn patch(&self, data: &Value) -> Value {
        let Meta {
            uid,
            resource_version,
            ..
        } = &self.metadata;
        json!({"metadata": {"uid": uid, "resourceVersion": resource_version}, "data": data})
    }
}

/// The Secret with `issue` as the next, and nothing that is served.
pub(crate) fn created(key: &Key, issue: &Issue) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {"app.kubernetes.io/managed-by": "coxswain"},
        },
        "data": {
            // The type asks for them.
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
