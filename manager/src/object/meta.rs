//! Object metadata.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::decode::{null_is_default, shared_list, time};
use super::{Interner, Key, Text, Uid, Version};

/// The metadata of an object, without fields that no controller reads: `managedFields` never enters memory.
///
/// Equality ignores the resourceVersion: an update of fields that a projection omits must not look like a change.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub resource_version: Version,
    /// Incremented by the API server at each change of the desired state; 0 for kinds without a generation.
    #[serde(deserialize_with = "null_is_default")]
    pub generation: i64,
    #[serde(deserialize_with = "time")]
    pub creation_timestamp: Option<Timestamp>,
    /// The time at which the object is deleted, including its grace period. Set while it is terminating.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "null_is_default")]
    pub labels: StringMap,
    /// The annotations that the projection keeps.
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: StringMap,
    /// Objects of one cache with the same owners share them.
    #[serde(deserialize_with = "shared_list")]
    pub owner_references: Arc<[OwnerRef]>,
    #[serde(deserialize_with = "null_is_default")]
    pub finalizers: Box<[Text]>,
}

/// An ownerReference.
#[expect(missing_docs, reason = "as in the API")]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    pub api_version: Text,
    pub kind: Text,
    pub name: Text,
    pub uid: Uid,
    #[serde(deserialize_with = "null_is_default")]
    pub controller: bool,
    #[serde(deserialize_with = "null_is_default")]
    pub block_owner_deletion: bool,
}

/// Labels or annotations, ordered by key. Clones share them, and so do the objects of one cache with the same labels.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StringMap(Arc<[(Text, Text)]>);

impl Meta {
    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Returns the controller reference.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Returns true if the object has a deletionTimestamp.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }

    /// Returns the `metadata` of a patch that fails with 409 Conflict unless the object has this uid and resourceVersion.
    #[must_use]
    pub fn preconditions(&self) -> Value {
        json!({"uid": self.uid, "resourceVersion": self.resource_version})
    }

    /// Drops the annotations that are not in `kept`, unless it contains `*`.
    pub fn keep_annotations(&mut self, kept: &[&str]) {
        if !kept.contains(&"*")
            && self
                .annotations
                .iter()
                .any(|(key, _)| !kept.contains(&key.as_ref()))
        {
            let pairs = self
                .annotations
                .iter()
                .filter(|(key, _)| kept.contains(&key.as_ref()));
            self.annotations = pairs.cloned().collect();
        }
    }

    /// Interns labels, owner references, and all strings but names and annotation values, which few objects have in common.
    pub fn intern(&mut self, interner: &mut Interner) {
        interner.intern(&mut self.namespace);
        interner.intern_map(&mut self.labels.0);
        for (key, _) in Arc::get_mut(&mut self.annotations.0).into_iter().flatten() {
            interner.intern(key);
        }
        interner.intern_owners(&mut self.owner_references);
        for finalizer in &mut self.finalizers {
            interner.intern(finalizer);
        }
    }

    /// Returns the approximate heap size, without interned strings, labels and owner references.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        // An `Arc<str>` stores two reference counts with the text.
        let name = self.name.len() + 2 * size_of::<usize>();
        let annotations: usize = self.annotations.iter().map(|(_, value)| value.len()).sum();
        name + self.uid.heap_bytes()
            + size_of_val(&*self.annotations.0)
            + annotations
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

impl StringMap {
    #[expect(missing_docs, reason = "as of a map")]
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        let at = self.0.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Iterates in the order of the keys.
    pub fn iter(&self) -> std::slice::Iter<'_, (Text, Text)> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a StringMap {
    type Item = &'a (Text, Text);
    type IntoIter = std::slice::Iter<'a, (Text, Text)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for StringMap {
    /// The last value of a key wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Text, Text)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        if pairs.is_empty() {
            return Self::default();
        }
        Self(pairs.into())
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(k, v)| (k, v))).finish()
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = StringMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
                let mut pairs: Vec<(Text, Text)> = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(json: &str) -> Meta {
        serde_json::from_str(json).expect("metadata")
    }

    #[test]
    fn nulls_and_unknown_fields_are_ignored() {
        let json = r#"{"name":"a","labels":null,"annotations":null,"ownerReferences":null,"finalizers":null,
            "namespace":null,"generation":null,"creationTimestamp":null,"managedFields":[{"x":1}]}"#;
        assert_eq!(meta(json), meta(r#"{"name":"a"}"#));
    }

    #[test]
    fn equality_ignores_only_the_resource_version() {
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
    fn labels_and_annotations_are_found_by_key() {
        let meta =
            meta(r#"{"name":"a","labels":{"z":"1","a":"2","m":"3"},"annotations":{"keep":"x","drop":"y"}}"#);
        assert_eq!(meta.labels.get("m").map(|v| &**v), Some("3"));
        assert_eq!(meta.labels.get("b"), None);
        let mut kept = meta.clone();
        kept.keep_annotations(&["keep", "other"]);
        assert_eq!(kept.annotations, [("keep", "x")].into_iter().collect());
        let mut all = meta.clone();
        all.keep_annotations(&["*"]);
        assert_eq!(all.annotations, meta.annotations);
        let twice: StringMap = [("a", "1"), ("a", "2")].into_iter().collect();
        assert_eq!(twice.get("a").map(|v| &**v), Some("2"));
    }

    #[test]
    fn heap_bytes_count_strings_that_are_not_interned() {
        let counts = 2 * size_of::<usize>();
        for (json, bytes) in [
            ("{}", 0),
            (r#"{"name":"abc"}"#, 3),
            (r#"{"uid":"not-a-uuid"}"#, 10),
            (r#"{"uid":"11111111-2222-3333-4444-555555555555"}"#, 0),
            (r#"{"annotations":{"a":"12345"}}"#, size_of::<(Text, Text)>() + 5),
            (r#"{"finalizers":["a","b"]}"#, 2 * size_of::<Text>()),
            (r#"{"namespace":"default","labels":{"a":"b"}}"#, 0),
        ] {
            assert_eq!(meta(json).heap_bytes(), counts + bytes, "{json}");
        }
    }

    #[test]
    fn controller_is_the_owner_with_the_controller_flag() {
        let meta = meta(
            r#"{"name":"a","ownerReferences":[{"uid":"1","kind":"A"},{"uid":"2","kind":"B","controller":true}]}"#,
        );
        assert_eq!(meta.controller().map(|o| &*o.kind), Some("B"));
    }

    #[test]
    fn invalid_timestamp_is_rejected() {
        assert!(serde_json::from_str::<Meta>(r#"{"creationTimestamp":"yesterday"}"#).is_err());
    }
}
