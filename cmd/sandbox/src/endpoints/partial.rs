//! Objects reduced to their metadata: `PartialObjectMetadata` and its list.
//!
//! The metadata is passed on whole, managed fields and all; everything else of the object is dropped.

use serde_json::{Value, json};

use crate::endpoints::negotiate::MetaVersion;

/// An object's metadata.
#[must_use]
pub fn object(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The metadata of all objects of a list, with the metadata of the list itself.
#[must_use]
pub fn list(items: &[Value], list_meta: Value, version: MetaVersion) -> Value {
    // The real server sends null for an empty list here; whoever takes that takes [] too.
    let items: Vec<Value> = items.iter().map(|item| object(item, version)).collect();
    let mut list = json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "items": items,
    });
    list["metadata"] = list_meta;
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_metadata_is_left() {
        let pod = json!({
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
            "spec": {"nodeName": "n"},
            "status": {},
        });
        let metadata = json!({"name": "a", "managedFields": [{"manager": "m"}]});
        let partial = json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
        });
        assert_eq!(object(&pod, MetaVersion::V1), partial);

        let all = list(
            std::slice::from_ref(&pod),
            json!({"resourceVersion": "7", "continue": "c"}),
            MetaVersion::V1,
        );
        assert_eq!(all["kind"], "PartialObjectMetadataList");
        assert_eq!(all["metadata"], json!({"resourceVersion": "7", "continue": "c"}));
        assert_eq!(all["items"], json!([partial]));
        assert_eq!(list(&[], json!({}), MetaVersion::V1)["items"], json!([]));
        assert_eq!(
            object(&pod, MetaVersion::V1Beta1)["apiVersion"],
            "meta.k8s.io/v1beta1"
        );
    }
}
