//! One event, as it is sent.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::env::Rng;
use crate::object::{Meta, Resource, Text, Uid, Version};
use crate::time::rfc3339;

/// The longest message, in bytes: what the newer API of events would take.
const MAX_MESSAGE: usize = 1024;
/// The longest name of an object.
const MAX_NAME: usize = 253;
/// What the message of an event that stands for many begins with, as other tools know it.
const COMBINED: &str = "(combined from similar events): ";

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Group and version, or the version alone for the core group.
    pub api_version: Text,
    /// The kind.
    pub kind: Text,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Text,
    /// The name.
    pub name: Text,
    /// The identity.
    pub uid: Uid,
    /// The version that the event was found at.
    pub resource_version: Version,
}

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something was done.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Who says so.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) component: Text,
    pub(super) instance: Text,
}

/// An event that is ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) namespace: Text,
    pub(super) name: String,
    pub(super) body: Value,
    /// When it happened, as it is written.
    pub(super) at: String,
    pub(super) message: String,
    /// The object and the type.
    pub(super) about: String,
    /// What similar events have in common: all but the message.
    pub(super) like: String,
    /// What equal events have in common.
    pub(super) same: String,
}

impl Event {
    /// One that stands for all that are like it.
    pub(super) fn combine(&mut self) {
        let message = format!("{COMBINED}{}", self.message);
        cut(&message).clone_into(&mut self.message);
        self.body["message"] = json!(self.message);
        self.same = self.like.clone();
    }
}

impl ObjectRef {
    /// An object of `resource`.
    #[must_use]
    pub fn of(resource: &Resource, meta: &Meta) -> Self {
        Self {
            api_version: resource.api_version().into(),
            kind: Text::from(&*resource.kind),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        }
    }
}

/// Makes an event. `nanos` tells events about one object apart.
#[expect(
    clippy::too_many_arguments,
    reason = "what an event is made of, named one by one"
)]
pub(super) fn event(
    object: &ObjectRef,
    type_: EventType,
    reason: &str,
    message: &str,
    source: &Source,
    at: Timestamp,
    nanos: u64,
    rng: &Rng,
) -> Event {
    let namespace = match &*object.namespace {
        "" => Text::from("default"),
        _ => object.namespace.clone(),
    };
    let name = name(&object.name, nanos).unwrap_or_else(|| random_name(rng));
    let type_ = match type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    let (at, message) = (rfc3339(at), cut(message));
    let ObjectRef {
        api_version,
        kind,
        name: named,
        uid,
        ..
    } = object;
    let about = json!([api_version, kind, namespace, named, uid, type_]).to_string();
    let like = json!([about, reason]).to_string();
    let same = json!([about, reason, message]).to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": namespace, "name": name},
        "involvedObject": {
            "apiVersion": object.api_version,
            "kind": object.kind,
            "namespace": object.namespace,
            "name": object.name,
            "uid": object.uid,
            "resourceVersion": object.resource_version,
        },
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": source.component},
        "reportingComponent": source.component,
        "reportingInstance": source.instance,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    });
    Event {
        namespace,
        name,
        body,
        at,
        message: message.to_owned(),
        about,
        like,
        same,
    }
}

fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_MESSAGE)]
}

/// The object's name and the time; none if that is no name, because the object's is one that events may not have.
fn name(object: &str, nanos: u64) -> Option<String> {
    let name = format!("{object}.{nanos:x}");
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    (name.len() <= MAX_NAME && name.split('.').all(is_label)).then_some(name)
}

fn random_name(rng: &Rng) -> String {
    let (a, b) = (rng.number(), rng.number());
    let (low, high) = (a & 0xffff_ffff, b & 0xffff_ffff_ffff);
    format!(
        "{low:08x}-{:04x}-4{:03x}-8{:03x}-{high:012x}",
        a >> 48,
        a >> 36 & 0xfff,
        b >> 52
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_replaced() {
        assert_eq!(name("web-1", 0x1a2b).as_deref(), Some("web-1.1a2b"));
        assert_eq!(name("a.b", 1).as_deref(), Some("a.b.1"));
        for bad in ["system:node", "Web", "", "-a", "a-", "a..b", &"a".repeat(253)] {
            assert_eq!(name(bad, 1), None, "{bad}");
        }
        let rng = Rng::from_seed(1);
        for _ in 0..1000 {
            let random = random_name(&rng);
            assert!(random.len() == 36 && name(&random, 0).is_some(), "{random}");
        }
    }
}
