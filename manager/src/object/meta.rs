//! The metadata that any controller may read.

use std::fmt;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::decode::{null_is_default, time};
use super::{Interner, Key, Text, Uid, Version};

/// Metadata of an object, without what nobody reads (`managedFields` never enters memory).
///
/// Two are equal if a handler could not tell them apart: the resourceVersion does not count, or a change of a field that
/// is not kept would look like one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// The namespace; empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: Text,
    /// The name.
    pub name: Text,
    /// The identity.
    pub uid: Uid,
    /// The version of this state: what a write that depends on it is conditioned on.
    pub resource_version: Version,
    /// Counts changes of what is wanted; 0 for kinds that have none.
    #[serde(deserialize_with = "null_is_default")]
    pub generation: i64,
    /// When it was created.
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Timestamp>,
    /// It is being deleted, since or, with a grace period, by then.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period that it is being deleted with.
    pub deletion_grace_period_seconds: Option<i64>,
    /// All labels.
    #[serde(deserialize_with = "null_is_default")]
    pub labels: Pairs,
    /// Those annotations that the projection asks for.
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: Pairs,
    /// All owners.
    #[serde(deserialize_with = "null_is_default")]
    pub owner_references: Box<[OwnerRef]>,
    /// All finalizers, in order.
    #[serde(deserialize_with = "null_is_default")]
    pub finalizers: Box<[Text]>,
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// Group and version, or the version alone for the core group.
    pub api_version: Text,
    /// The kind.
    pub kind: Text,
    /// The name.
    pub name: Text,
    /// The identity.
    pub uid: Uid,
    /// The one that manages the object.
    #[serde(deserialize_with = "null_is_default")]
    pub controller: bool,
    /// A foreground deletion of the owner waits for the object.
    #[serde(deserialize_with = "null_is_default")]
    pub block_owner_deletion: bool,
}

/// Labels or annotations, ordered by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pairs(Box<[(Text, Text)]>);

impl Meta {
    /// Where the object is found.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The owner that manages the object, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether it carries this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }

    /// What a patch names under `metadata`, so that it changes this state of this object and no other.
    #[must_use]
    pub fn lock(&self) -> Value {
        json!({"uid": self.uid, "resourceVersion": self.resource_version})
    }

    /// Drops the annotations that are not in `kept`.
    pub fn keep_annotations(&mut self, kept: &[&str]) {
        if self
            .annotations
            .iter()
            .any(|(key, _)| !kept.contains(&key.as_ref()))
        {
            let pairs = self
                .annotations
                .iter()
                .filter(|(key, _)| kept.contains(&key.as_ref()));
            self.annotations = Pairs(pairs.cloned().collect());
        }
    }

    /// Shares what many objects have in common. Names and annotation values are mostly their own.
    pub fn intern(&mut self, interner: &mut Interner) {
        interner.intern(&mut self.namespace);
        for (key, value) in &mut self.labels.0 {
            interner.intern(key);
            interner.intern(value);
        }
        for (key, _) in &mut self.annotations.0 {
            interner.intern(key);
        }
        for owner in &mut self.owner_references {
            interner.intern(&mut owner.api_version);
            interner.intern(&mut owner.kind);
            interner.intern(&mut owner.name);
        }
        for finalizer in &mut self.finalizers {
            interner.intern(finalizer);
        }
    }

    /// About how much memory it takes beside itself. Shared strings count nowhere: they are few.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // An `Arc<str>` has two counts in front of the text.
        let name = self.name.len() + 2 * size_of::<usize>();
        let annotations: usize = self.annotations.iter().map(|(_, value)| value.len()).sum();
        let owners: usize = self.owner_references.iter().map(|o| o.uid.heap_bytes()).sum();
        name + self.uid.heap_bytes()
            + size_of_val(&*self.labels.0)
            + size_of_val(&*self.annotations.0)
            + annotations
            + size_of_val(&*self.owner_references)
            + owners
            + size_of_val(&*self.finalizers)
    }
}

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            namespace,
            name,
            uid,
            resource_version: _,
            generation,
            creation_timestamp,
            deletion_timestamp,
            deletion_grace_period_seconds,
            labels,
            annotations,
            owner_references,
            finalizers,
        } = self;
        *namespace == other.namespace
            && *name == other.name
            && *uid == other.uid
            && *generation == other.generation
            && *creation_timestamp == other.creation_timestamp
            && *deletion_timestamp == other.deletion_timestamp
            && *deletion_grace_period_seconds == other.deletion_grace_period_seconds
            && *labels == other.labels
            && *annotations == other.annotations
            && *owner_references == other.owner_references
            && *finalizers == other.finalizers
    }
}

impl Eq for Meta {}

impl Pairs {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        let at = self.0.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// All of them, ordered by key.
    pub fn iter(&self) -> std::slice::Iter<'_, (Text, Text)> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = &'a (Text, Text);
    type IntoIter = std::slice::Iter<'a, (Text, Text)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Pairs {
    /// Of several values for one key the last one counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Text, Text)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        Self(pairs.into())
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, v))).finish()
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs: Vec<(Text, Text)> = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(json: &str) -> Meta {
        serde_json::from_str(json).expect("metadata")
    }

    #[test]
    fn nulls_and_unknown_fields_are_nothing() {
        let json = r#"{"name":"a","labels":null,"annotations":null,"ownerReferences":null,"finalizers":null,
            "namespace":null,"generation":null,"creationTimestamp":null,"managedFields":[{"x":1}]}"#;
        assert_eq!(meta(json), meta(r#"{"name":"a"}"#));
    }

    #[test]
    fn the_version_makes_no_difference_and_anything_else_does() {
        let a = meta(r#"{"name":"a","resourceVersion":"1"}"#);
        assert_eq!(a, meta(r#"{"name":"a","resourceVersion":"2"}"#));
        for other in [
            r#"{"name":"b"}"#,
            r#"{"name":"a","uid":"u"}"#,
            r#"{"name":"a","labels":{"a":"b"}}"#,
            r#"{"name":"a","finalizers":["f"]}"#,
            r#"{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}"#,
            r#"{"name":"a","ownerReferences":[{"uid":"u"}]}"#,
        ] {
            assert_ne!(a, meta(other), "{other}");
        }
    }

    #[test]
    fn pairs_are_found_by_key() {
        let meta =
            meta(r#"{"name":"a","labels":{"z":"1","a":"2","m":"3"},"annotations":{"keep":"x","drop":"y"}}"#);
        assert_eq!(meta.labels.get("m").map(|v| &**v), Some("3"));
        assert_eq!(meta.labels.get("b"), None);
        let mut kept = meta.clone();
        kept.keep_annotations(&["keep", "other"]);
        assert_eq!(kept.annotations, [("keep", "x")].into_iter().collect());
        let twice: Pairs = [("a", "1"), ("a", "2")].into_iter().collect();
        assert_eq!(twice.get("a").map(|v| &**v), Some("2"));
    }

    #[test]
    fn the_controller_is_the_owner_that_says_so() {
        let meta = meta(
            r#"{"name":"a","ownerReferences":[{"uid":"1","kind":"A"},{"uid":"2","kind":"B","controller":true}]}"#,
        );
        assert_eq!(meta.controller().map(|o| &*o.kind), Some("B"));
    }

    #[test]
    fn a_time_that_is_none_is_an_error() {
        assert!(serde_json::from_str::<Meta>(r#"{"creationTimestamp":"yesterday"}"#).is_err());
    }
}
