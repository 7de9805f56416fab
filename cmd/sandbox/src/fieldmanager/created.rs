//! The fields of new objects of built-in kinds.
//!
//! Controllers create many objects from one template. These objects differ in values, not in fields, and share one field set.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::fieldmanager::compare::list;
use crate::fieldmanager::fields::Fields;
use crate::fieldmanager::shape::{Keys, Layout, Shape};
use crate::json::{Text, Value};
use crate::resource::Resource;

/// The last new object of each built-in kind, with its field set.
#[derive(Default)]
pub struct CreatedFields(RwLock<BTreeMap<&'static str, ObjectFields>>);

/// An object and its field set.
type ObjectFields = Arc<(Value, Fields)>;

impl Clone for CreatedFields {
    fn clone(&self) -> Self {
        Self(RwLock::new(
            self.0.read().unwrap_or_else(PoisonError::into_inner).clone(),
        ))
    }
}

impl CreatedFields {
    /// Returns the field set that `compute` returns for `new`, the first version of an object. `blank` is the object that a
    /// create starts from. If the last new object of the kind had the same fields, this is its set.
    pub(super) fn fields(
        &self,
        res: &Resource,
        blank: &Value,
        new: &Value,
        compute: impl FnOnce() -> Fields,
    ) -> Fields {
        let Some(schema) = res.schema else {
            return compute();
        };
        let last = self
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(schema.name())
            .cloned();
        if let Some(known) = last
            && have_same_fields(Shape::Object(schema), Some(blank), &known.0, new)
        {
            return known.1.clone();
        }
        let fields = compute();
        let known = ObjectFields::new((new.clone(), fields.clone()));
        let mut last = self.0.write().unwrap_or_else(PoisonError::into_inner);
        last.insert(schema.name(), known);
        fields
    }
}

/// Reports whether two values differ from `blank` in the same fields. May report `false` if they do.
fn have_same_fields(shape: Shape<'_>, blank: Option<&Value>, one: &Value, other: &Value) -> bool {
    let layout = shape.layout(one);
    if layout != shape.layout(other) {
        return false;
    }
    match (layout, one, other) {
        (Layout::Object, Value::Object(one), Value::Object(other)) => {
            let same = |((name, one), (other_name, other)): ((&Text, &Value), (&Text, &Value))| {
                let (inner, _) = shape.field(name).unwrap_or((Shape::Deduced, false));
                let blank = blank.and_then(|blank| blank.get(name));
                name == other_name && have_same_fields(inner, blank, one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        (Layout::Items(keys), Value::Array(_), Value::Array(_)) if blank.is_none_or(Value::is_null) => {
            let (one, other) = (list(Some(one)), list(Some(other)));
            let same = |(one, other): (&Value, &Value)| {
                let same_element = match &keys {
                    Keys::Set => one == other,
                    Keys::Fields(names) => names.iter().all(|name| one.get(name) == other.get(name)),
                };
                same_element && have_same_fields(shape.item(), None, one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(same)
        }
        (Layout::Leaf, ..) if blank.is_none() => true,
        // The value may be that of the blank object.
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fieldmanager::{Writer, changes, owned, shape};
    use crate::json::json;
    use crate::meta;
    use crate::registry::testing;

    #[test]
    fn only_objects_with_the_same_fields_share_a_set() {
        let writer = Writer {
            manager: String::new(),
            subresource: "",
            time: Text::new(),
        };
        let res = testing::resource("deployments.apps");
        let blank = shape::blank(&res);
        let set = |object: &Value| owned(changes(&res, &writer, &blank, object));
        let first = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"app": "a"}, "finalizers": ["x/y"]},
            "spec": {"paused": true, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}]},
            ]}}},
        });
        let containers = "spec.template.spec.containers";
        for (expected, path, value) in [
            (true, "metadata.name", json!("b")),
            (true, "metadata.labels", json!({"app": "b"})),
            (true, "spec.paused", json!(false)),
            (
                true,
                containers,
                json!([{"name": "c", "image": "j", "ports": [{"containerPort": 80}]}]),
            ),
            (false, "metadata.namespace", json!("n")),
            (false, "metadata.labels", json!({"b": "a"})),
            (false, "metadata.finalizers", json!(["y/z"])),
            (false, "spec.replicas", json!(1)),
            (false, "spec.selector", Value::Null),
            (
                false,
                containers,
                json!([{"name": "d", "image": "i", "ports": [{"containerPort": 80}]}]),
            ),
            (
                false,
                containers,
                json!([{"name": "c", "image": "i", "ports": [{"containerPort": 81}]}]),
            ),
            (
                false,
                containers,
                json!([{"name": "c", "image": "i", "ports": []}]),
            ),
            (false, containers, json!([{"name": "c", "image": "i"}])),
            (false, containers, json!([])),
        ] {
            let mut other = first.clone();
            meta::set_path(&mut other, path, value);
            let same = have_same_fields(shape::of(&res), Some(&blank), &first, &other);
            assert_eq!(same, expected, "{other}");
            let created = CreatedFields::default();
            let _ = created.fields(&res, &blank, &first, || set(&first));
            let found = created.fields(&res, &blank, &other, || set(&other));
            assert_eq!(found, set(&other), "{other}");
        }
    }
}
