//! Conversion to `PartialObjectMetadata` and `PartialObjectMetadataList` (`handlers/response.go` of the API server).
//!
//! The result contains the complete metadata, including managedFields, and no other field of the object.

use crate::endpoints::negotiate::MetaVersion;
use crate::json::{Value, json};

/// Returns the `PartialObjectMetadata` of an object.
#[must_use]
pub fn object(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Returns the `PartialObjectMetadataList` of a list.
#[must_use]
pub fn list(items: &[Value], list_meta: Value, version: MetaVersion) -> Value {
    // The API server sends null instead of [] for an empty list; clients decode both to the same value.
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
    fn partial_object_contains_only_metadata() {
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
