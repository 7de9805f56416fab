//! Whole objects of a type, as a cache stores them.

use std::fmt;
use std::hash::BuildHasher as _;
use std::ops::Deref;

use foldhash::quality::FixedState;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Meta, MetaObject, Object};

/// An object of type `K`, without its `managedFields`. It dereferences to `K`.
///
/// It decodes from JSON only. Two are equal if their JSON was the same: every write of the object is a change.
pub struct Typed<K> {
    object: K,
    meta: Meta,
    digest: u64,
    /// The length of the JSON, an approximation of the size in memory.
    length: usize,
}

impl<K> Deref for Typed<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K> PartialEq for Typed<K> {
    fn eq(&self, other: &Self) -> bool {
        (self.digest, self.length) == (other.digest, other.length)
    }
}

/// Shows the key only: the object may be a Secret.
impl<K> fmt::Debug for Typed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Typed")
            .field(&format_args!("{}", self.meta.key()))
            .finish()
    }
}

impl<'de, K: kube::Resource + DeserializeOwned> Deserialize<'de> for Typed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        let mut object: K = serde_json::from_str(json).map_err(D::Error::custom)?;
        object.meta_mut().managed_fields = None;
        let MetaObject { metadata } = serde_json::from_str(json).map_err(D::Error::custom)?;
        Ok(Self {
            object,
            meta: metadata,
            digest: FixedState::default().hash_one(json),
            length: json.len(),
        })
    }
}

impl<K: kube::Resource + DeserializeOwned + Send + Sync + 'static> Object for Typed<K> {
    const ANNOTATIONS: &'static [&'static str] = &["*"];

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    fn map(data: &str, version: &str) -> Typed<ConfigMap> {
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": version,
                "managedFields": [{"manager": "m"}], "annotations": {"x": "y"},
            },
            "data": {"key": data},
        });
        serde_json::from_str(&object.to_string()).expect("a ConfigMap")
    }

    #[test]
    fn object_is_decoded_without_managed_fields() {
        let map = map("v", "7");
        assert_eq!(map.data.as_ref().map(|data| data["key"].as_str()), Some("v"));
        assert_eq!(map.metadata.managed_fields, None);
        assert_eq!(
            map.metadata.annotations.as_ref().map(|it| it["x"].as_str()),
            Some("y")
        );
        assert_eq!(map.meta().key().to_string(), "n/a");
    }

    #[test]
    fn every_write_is_a_change() {
        assert_eq!(map("v", "7"), map("v", "7"));
        assert_ne!(map("v", "7"), map("v", "8"));
        // A restored store assigns a resourceVersion again.
        assert_ne!(map("v", "7"), map("w", "7"));
    }

    #[test]
    fn debug_output_does_not_contain_the_object() {
        let json = json!({"metadata": {"name": "a", "uid": "u"}, "stringData": {"password": "hunter2"}});
        let secret: Typed<Secret> = serde_json::from_str(&json.to_string()).expect("a Secret");
        assert_eq!(format!("{secret:?}"), "Typed(a)");
    }
}
