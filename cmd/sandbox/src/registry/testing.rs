//! Helpers of the tests of this folder.

use crate::json::{Value, json};
use crate::resource::Resource;

/// A resource by version and name.
pub(crate) fn versioned(res: &Resource) -> String {
    format!("{}/{}", res.version, res.qualified())
}

/// The built-in resource of this qualified name, in the preferred version unless it begins with one.
pub(crate) fn resource(qualified: &str) -> Resource {
    crate::registry::all()
        .iter()
        .find(|res| res.qualified() == qualified || versioned(res) == qualified)
        .expect("a built-in resource")
        .clone()
}

/// An object of the kind with a name, a namespace if it needs one, a uid, and the given top-level fields; defaulted.
pub(crate) fn object(qualified: &str, fields: Value) -> Value {
    let res = resource(qualified);
    let mut obj = json!({
        "apiVersion": res.api_version(),
        "kind": res.kind,
        "metadata": {"name": "web", "uid": "u1"},
    });
    if let (Some(obj), Value::Object(fields)) = (obj.as_object_mut(), fields) {
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("metadata", Value::Object(meta)) => {
                    if let Some(into) = obj.get_mut("metadata").and_then(Value::as_object_mut) {
                        into.extend(meta);
                    }
                }
                (_, value) => {
                    obj.insert(key, value);
                }
            }
        }
    }
    if let Some(meta) = obj.get_mut("metadata").and_then(Value::as_object_mut)
        && res.namespaced
    {
        meta.get_or_insert_with("namespace", || "default".into());
    }
    let kind = crate::schema::builtin(&res.api_version(), &res.kind).expect("a schema");
    crate::schema::conform(kind, &mut obj).expect("an object of the kind");
    crate::registry::default(&res, &mut obj, None);
    obj
}

/// The same, as it is stored after a create.
pub(crate) fn created(qualified: &str, fields: Value) -> Value {
    let mut obj = object(qualified, fields);
    crate::registry::prepare_create(&resource(qualified), &mut obj);
    obj
}

/// A template of one container, with these labels.
pub(crate) fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}
