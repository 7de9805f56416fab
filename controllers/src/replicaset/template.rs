//! The body of a new pod: the bytes of the template with a name, encoded once per sync.

use bytes::Bytes;
use coxswain_manager::owner::controller_ref;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Kind, Owner, naming};

/// The body of the pods of an owner, without their names.
#[derive(Clone, Debug)]
pub struct Body {
    before: &'static str,
    after: String,
}

/// Why no pods can be made from a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Nothing would select them.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// It is not the template of a pod.
    #[error("unable to create pods, the template cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PendingWrites<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// All that is taken over: a template's name, namespace and owners are its own.
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
    /// What the pods of `owner` are made of.
    pub fn of(kind: &Kind, owner: &Owner) -> Result<Self, TemplateError> {
        let template = owner.template();
        if template.labels.iter().next().is_none() {
            return Err(TemplateError::NoLabels);
        }
        let PendingWrites { metadata, spec } = serde_json::from_str(&template.text)?;
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

    /// The body of the pod with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Bytes {
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
    fn a_pod_has_what_the_template_gives_and_one_owner() {
        let owner = owner(&json!({
            "metadata": {"name": "no", "namespace": "no", "labels": {"app": "web"}, "annotations": {"a": "b"},
                         "finalizers": ["example.com/f"], "ownerReferences": [{"uid": "no"}]},
            "spec": {"containers": [{"name": "main", "unheard": 1.50}]},
        }));
        let body = Body::of(&REPLICA_SET, &owner).expect("a body").named("web-x");
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
    fn a_template_without_labels_makes_no_pods() {
        for template in [
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": {"labels": {}}}),
        ] {
            let made = Body::of(&REPLICA_SET, &owner(&template));
            assert!(matches!(made, Err(TemplateError::NoLabels)), "{template}");
        }
    }
}
