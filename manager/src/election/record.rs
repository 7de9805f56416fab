//! The Lease object. It is written as a whole, so that fields of other clients are preserved.
//!
//! Fields are read leniently. A missing or malformed field gets the value that makes a candidate wait longer, never the one
//! that lets it act sooner.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::object::{Key, Version};

/// Returns the annotation with the identity and the term of the holder that released the Lease `name`.
#[must_use]
pub fn released_by_annotation(name: &str) -> String {
    format!("{name}/released-by")
}

/// Returns the annotation with the highest resourceVersion written before the release of the Lease `name`, per resource.
#[must_use]
pub fn written_versions_annotation(name: &str) -> String {
    format!("{name}/written-versions")
}

#[derive(Clone, Debug)]
pub(super) struct Record(Value);

/// The fields that a holder writes.
#[derive(Clone, Debug)]
pub(super) struct Claim<'a> {
    pub(super) identity: &'a str,
    pub(super) lease_duration: Duration,
    pub(super) acquired: Timestamp,
    pub(super) renewed: Timestamp,
    pub(super) transitions: i64,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct ReleasedBy {
    identity: String,
    transitions: i64,
}

impl Record {
    pub(super) fn new(lease: Value) -> Self {
        Self(lease)
    }

    /// Empty if the Lease has no holder.
    pub(super) fn holder(&self) -> &str {
        self.text("spec", "holderIdentity")
    }

    pub(super) fn version(&self) -> Version {
        Version::from(self.text("metadata", "resourceVersion"))
    }

    pub(super) fn uid(&self) -> &str {
        self.text("metadata", "uid")
    }

    pub(super) fn transitions(&self) -> i64 {
        self.number("spec", "leaseTransitions").unwrap_or(0)
    }

    pub(super) fn acquired(&self) -> Option<Timestamp> {
        self.text("spec", "acquireTime").parse().ok()
    }

    pub(super) fn lease_duration(&self) -> Option<Duration> {
        let seconds = self.number("spec", "leaseDurationSeconds")?;
        Some(Duration::from_secs(u64::try_from(seconds).ok()?))
    }

    /// Reports whether the Lease was created without a holder, for example by an installer.
    pub(super) fn was_never_held(&self) -> bool {
        let set = |name| self.field("spec", name).is_some_and(|value| !value.is_null());
        self.holder().is_empty() && !set("acquireTime") && !set("renewTime")
    }

    /// Reports whether both are the same Lease with the same spec; metadata may differ.
    pub(super) fn has_same_spec(&self, other: &Self) -> bool {
        self.uid() == other.uid() && self.0.get("spec") == other.0.get("spec")
    }

    /// Returns the identity that released the Lease, if it was the holder.
    pub(super) fn released_by(&self) -> Option<String> {
        let proof: ReleasedBy = serde_json::from_str(self.annotation(released_by_annotation)?).ok()?;
        let orderly =
            self.holder().is_empty() && !proof.identity.is_empty() && proof.transitions == self.transitions();
        orderly.then_some(proof.identity)
    }

    /// Returns the resourceVersions written before the release.
    pub(super) fn written_versions(&self) -> Option<BTreeMap<String, String>> {
        serde_json::from_str(self.annotation(written_versions_annotation)?).ok()
    }

    /// Returns a new Lease with this claim.
    pub(super) fn create(key: &Key, claim: &Claim<'_>) -> Value {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": &*key.namespace, "name": &*key.name},
        });
        write(&mut lease, claim);
        lease
    }

    /// Returns this Lease with another claim, without the annotations of a release.
    pub(super) fn claim(&self, claim: &Claim<'_>) -> Value {
        let mut lease = self.0.clone();
        write(&mut lease, claim);
        if let Some(Value::Object(annotations)) = lease.pointer_mut("/metadata/annotations") {
            annotations.remove(&released_by_annotation(self.name()));
            annotations.remove(&written_versions_annotation(self.name()));
        }
        lease
    }

    /// Returns this Lease released by its holder.
    pub(super) fn release(&self, now: Timestamp, versions: &BTreeMap<String, String>) -> Value {
        let mut lease = self.0.clone();
        let proof = ReleasedBy {
            identity: self.holder().to_owned(),
            transitions: self.transitions(),
        };
        let spec = section(&mut lease, "spec");
        spec.insert("holderIdentity".to_owned(), json!(""));
        spec.insert("leaseDurationSeconds".to_owned(), json!(1));
        spec.insert("renewTime".to_owned(), json!(micro_time(now)));
        let metadata = section(&mut lease, "metadata");
        let annotations = map(metadata.entry("annotations").or_insert(Value::Null));
        let (proof, versions) = (json!(proof).to_string(), json!(versions).to_string());
        annotations.insert(released_by_annotation(self.name()), json!(proof));
        annotations.insert(written_versions_annotation(self.name()), json!(versions));
        lease
    }

    fn field(&self, section: &str, name: &str) -> Option<&Value> {
        self.0.get(section)?.get(name)
    }

    fn text(&self, section: &str, name: &str) -> &str {
        let text = self.field(section, name).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    fn number(&self, section: &str, name: &str) -> Option<i64> {
        self.field(section, name)?.as_i64()
    }

    fn name(&self) -> &str {
        self.text("metadata", "name")
    }

    /// Returns an annotation, whose key depends on the name of the Lease.
    fn annotation(&self, key: fn(&str) -> String) -> Option<&str> {
        let annotations = self.0.get("metadata")?.get("annotations")?;
        annotations.get(key(self.name()))?.as_str()
    }
}

fn write(lease: &mut Value, claim: &Claim<'_>) {
    let spec = section(lease, "spec");
    spec.insert("holderIdentity".to_owned(), json!(claim.identity));
    spec.insert(
        "leaseDurationSeconds".to_owned(),
        json!(claim.lease_duration.as_secs()),
    );
    spec.insert("acquireTime".to_owned(), json!(micro_time(claim.acquired)));
    spec.insert("renewTime".to_owned(), json!(micro_time(claim.renewed)));
    // leaseTransitions is an int32.
    let transitions = claim.transitions.clamp(0, i64::from(i32::MAX));
    spec.insert("leaseTransitions".to_owned(), json!(transitions));
}

/// Returns a field that is an object, which is created if missing.
fn section<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    map(map(object).entry(name).or_insert(Value::Null))
}

fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("an object"),
    }
}

/// Formats a `metav1.MicroTime`.
fn micro_time(time: Timestamp) -> String {
    format!("{:.6}", micros(time))
}

/// Truncates a time to the precision of a Lease.
pub(super) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(identity: &str) -> Claim<'_> {
        Claim {
            identity,
            lease_duration: Duration::from_millis(15_900),
            acquired: "2026-01-02T03:04:05.000006789Z".parse().expect("a time"),
            renewed: "2026-01-02T03:04:07Z".parse().expect("a time"),
            transitions: 7,
        }
    }

    #[test]
    fn claim_round_trips_through_the_lease() {
        let lease = Record::create(&Key::new("kube-system", "steersman"), &claim("a"));
        assert_eq!(
            lease,
            json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"namespace": "kube-system", "name": "steersman"},
                "spec": {
                    "holderIdentity": "a",
                    "leaseDurationSeconds": 15,
                    "acquireTime": "2026-01-02T03:04:05.000006Z",
                    "renewTime": "2026-01-02T03:04:07.000000Z",
                    "leaseTransitions": 7,
                },
            })
        );
        let record = Record::new(lease);
        assert_eq!(record.acquired(), Some(micros(claim("a").acquired)));
        assert_eq!(record.lease_duration(), Some(Duration::from_secs(15)));
        assert!(!record.was_never_held());
    }

    #[test]
    fn foreign_fields_are_preserved() {
        let foreign = json!({
            "metadata": {
                "name": "x", "resourceVersion": "5",
                "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"], "new": 1,
            },
            "spec": {"holderIdentity": "a", "strategy": "g", "leaseTransitions": 3},
            "status": {"h": []},
        });
        let record = Record::new(foreign.clone());
        let released = record.release(Timestamp::UNIX_EPOCH, &BTreeMap::new());
        let back = Record::new(released).claim(&claim("b"));
        for field in [
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/finalizers",
            "/metadata/resourceVersion",
            "/metadata/new",
            "/spec/strategy",
            "/status",
        ] {
            assert_eq!(back.pointer(field), foreign.pointer(field), "{field}");
        }
    }

    #[test]
    fn release_names_the_holder_and_the_written_versions() {
        let versions = BTreeMap::from([("pods".to_owned(), "12".to_owned())]);
        let held = Record::new(Record::create(&Key::new("n", "x"), &claim("a")));
        let mut lease = held.release(Timestamp::UNIX_EPOCH, &versions);
        let released = Record::new(lease.clone());
        assert_eq!(
            (released.holder(), released.released_by().as_deref()),
            ("", Some("a"))
        );
        assert_eq!(released.transitions(), 7);
        assert_eq!(released.lease_duration(), Some(Duration::from_secs(1)));
        assert_eq!(released.written_versions(), Some(versions));
        assert_eq!(
            lease["metadata"]["annotations"],
            json!({
                "x/released-by": r#"{"identity":"a","transitions":7}"#,
                "x/written-versions": r#"{"pods":"12"}"#,
            })
        );
        lease["spec"]["leaseTransitions"] = json!(8);
        assert_eq!(Record::new(lease.clone()).released_by(), None, "of another term");
        lease["spec"]["leaseTransitions"] = json!(7);
        lease["spec"]["holderIdentity"] = json!("b");
        assert_eq!(Record::new(lease).released_by(), None, "acquired since");
    }

    #[test]
    fn lease_without_holder_and_times_was_never_held() {
        for (spec, expected) in [
            (json!({}), true),
            (json!({"holderIdentity": "", "acquireTime": null}), true),
            (json!({"holderIdentity": "a"}), false),
            (json!({"acquireTime": "2026-01-02T03:04:05.000000Z"}), false),
            (json!({"renewTime": "2026-01-02T03:04:05.000000Z"}), false),
        ] {
            let record = Record::new(json!({"spec": spec}));
            assert_eq!(record.was_never_held(), expected, "{spec}");
        }
    }

    #[test]
    fn malformed_lease_does_not_panic() {
        for odd in [
            json!(null),
            json!([1]),
            json!({"metadata": "x", "spec": 1}),
            json!({"metadata": {"annotations": "x"}}),
            json!({"metadata": {"annotations": null}, "spec": null}),
            json!({"metadata": {"annotations": {"/released-by": "{"}}, "spec": {"leaseDurationSeconds": -1}}),
            json!({"spec": {"holderIdentity": 3, "leaseTransitions": "x", "acquireTime": "then"}}),
        ] {
            let record = Record::new(odd);
            assert_eq!((record.holder(), record.transitions()), ("", 0));
            assert_eq!(
                (record.lease_duration(), record.acquired(), record.released_by()),
                (None, None, None)
            );
            let _ = record.claim(&claim("a"));
            let _ = record.release(Timestamp::UNIX_EPOCH, &BTreeMap::new());
        }
    }
}
