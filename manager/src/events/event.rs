//! The content of one event.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::env::Rng;
use crate::object::{Meta, Resource, Text, Uid, Version};
use crate::time::rfc3339;

/// The limit of events.k8s.io for messages, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The limit of object names, in bytes.
const MAX_NAME: usize = 253;
/// The message prefix of an aggregated event, as in client-go.
const AGGREGATE_PREFIX: &str = "(combined from similar events): ";

/// A reference to the object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct ObjectRef {
    pub api_version: Text,
    pub kind: Text,
    /// Empty for cluster-scoped objects.
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub resource_version: Version,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub enum EventType {
    Normal,
    Warning,
}

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
    /// `lastTimestamp`.
    pub(super) at: String,
    pub(super) message: String,
    /// The key of the spam filter: object and type.
    pub(super) spam_key: String,
    /// The key of the aggregator: all but the message.
    pub(super) group_key: String,
    /// The key of the event cache: identical events have the same.
    pub(super) key: String,
}

impl Event {
    /// Turns the event into an aggregate of its group.
    pub(super) fn aggregate(&mut self) {
        let message = format!("{AGGREGATE_PREFIX}{}", self.message);
        truncated(&message).clone_into(&mut self.message);
        self.body["message"] = json!(self.message);
        self.key = self.group_key.clone();
    }
}

impl ObjectRef {
    /// Returns the reference to an object of `resource`.
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

/// Builds an event. `nanos` makes its name unique.
#[expect(clippy::too_many_arguments, reason = "the fields of an event")]
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
    let (at, message) = (rfc3339(at), truncated(message));
    let ObjectRef {
        api_version,
        kind,
        name: named,
        uid,
        ..
    } = object;
    let spam_key = json!([api_version, kind, namespace, named, uid, type_]).to_string();
    let group_key = json!([spam_key, reason]).to_string();
    let key = json!([spam_key, reason, message]).to_string();
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
        spam_key,
        group_key,
        key,
    }
}

fn truncated(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_MESSAGE)]
}

/// Returns the object's name with the time; none if that is not a valid name for an event.
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
    fn invalid_event_name_is_replaced_by_a_random_one() {
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
