//! The JSON body of new pods. The template is encoded once per sync, and each pod adds its name.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use steersman_manager::owner::controller_ref;

use super::{Owner, OwnerKind, naming};

/// The body of the pods of an owner, up to and after the name.
#[derive(Clone, Debug)]
pub(super) struct Body {
    before: &'static str,
    after: String,
}

/// Why a template cannot create pods.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("unable to create pods, no labels")]
    NoLabels,
    #[error("unable to create pods, the template cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateParts<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// The metadata that pods get from the template.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
}

impl Body {
    /// Encodes the template of `owner`.
    pub(super) fn new(kind: &OwnerKind, owner: &Owner) -> Result<Self, TemplateError> {
        let template = owner.template();
        if template.labels.iter().next().is_none() {
            return Err(TemplateError::NoLabels);
        }
        let TemplateParts { metadata, spec } = serde_json::from_str(&template.text)?;
        let metadata = metadata.unwrap_or_default();
        let generate_name = json!(naming::generate_name(&owner.metadata.name));
        let controller = controller_ref(&kind.resource, &owner.metadata);
        let mut after = format!(r#","generateName":{generate_name},"ownerReferences":[{controller}]"#);
        for (field, value) in [
            ("labels", metadata.labels),
            ("annotations", metadata.annotations),
            ("finalizers", metadata.finalizers),
        ] {
            if let Some(value) = value {
                after.extend([",\"", field, "\":", value.get()]);
            }
        }
        after.push('}');
        if let Some(spec) = spec {
            after.extend([",\"spec\":", spec.get()]);
        }
        after.push('}');
        Ok(Self {
            before: r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"#,
            after,
        })
    }

    /// Returns the body of the pod with this name.
    pub(super) fn named(&self, name: &str) -> Bytes {
        let name = json!(name).to_string();
        [self.before.as_bytes(), name.as_bytes(), self.after.as_bytes()]
            .concat()
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::Value;

    use crate::replicaset::REPLICA_SET;

    fn owner(template: &Value) -> Owner {
        let json = json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"template": template}});
        serde_json::from_value(json).expect("an owner")
    }

    #[test]
    fn pod_has_template_metadata_and_one_owner_reference() {
        let owner = owner(&json!({
            "metadata": {"name": "no", "namespace": "no", "labels": {"app": "web"}, "annotations": {"a": "b"},
                         "finalizers": ["example.com/f"], "ownerReferences": [{"uid": "no"}]},
            "spec": {"containers": [{"name": "main", "unheard": 1.50}]},
        }));
        let body = Body::new(&REPLICA_SET, &owner).expect("a body").named("web-x");
        let pod: Value = serde_json::from_slice(&body).expect("JSON");
        let controller = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u",
                                "controller": true, "blockOwnerDeletion": true});
        assert_eq!(
            pod,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web-x", "generateName": "web-", "labels": {"app": "web"},
                             "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                             "ownerReferences": [controller]},
                "spec": {"containers": [{"name": "main", "unheard": 1.50}]},
            })
        );
    }

    #[test]
    fn template_without_labels_is_rejected() {
        for template in [
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": {"labels": {}}}),
        ] {
            let body = Body::new(&REPLICA_SET, &owner(&template));
            assert!(matches!(body, Err(TemplateError::NoLabels)), "{template}");
        }
    }
}
