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

/// An object and its field set.
type ObjectFields = Arc<(Value, Fields)>;

/// Returns the field set that `compute` returns for `new`, the first version of an object. `blank` is the object that a create
/// starts from. If the last new object of the kind had the same fields, this is its set.
pub(super) fn fields(res: &Resource, blank: &Value, new: &Value, compute: impl FnOnce() -> Fields) -> Fields {
    static LAST: RwLock<BTreeMap<&str, ObjectFields>> = RwLock::new(BTreeMap::new());
    let Some(schema) = res.schema else {
        return compute();
    };
    let last = LAST
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
    let mut last = LAST.write().unwrap_or_else(PoisonError::into_inner);
    last.insert(schema.name(), known);
    fields
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
        let object = |metadata: Value, container: Value, more: (&str, Value)| {
            let mut object = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [container]}}},
            });
            crate::meta::set_path(&mut object, more.0, more.1);
            object
        };
        let named = |name: &str| json!({"name": name, "labels": {"app": name}, "finalizers": ["x/y"]});
        let container = |image: &str| json!({"name": "c", "image": image, "ports": [{"containerPort": 80}]});
        let paused = ("spec.paused", json!(true));
        let first = object(named("a"), container("i"), paused.clone());
        for (expected, other) in [
            (
                true,
                object(named("b"), container("j"), ("spec.paused", json!(false))),
            ),
            (
                false,
                object(named("a"), container("i"), ("spec.replicas", json!(1))),
            ),
            (
                false,
                object(json!({"name": "a"}), container("i"), paused.clone()),
            ),
            (
                false,
                object(
                    json!({"name": "a", "labels": {"b": "c"}, "finalizers": ["x/y"]}),
                    container("i"),
                    paused.clone(),
                ),
            ),
            (
                false,
                object(
                    json!({"name": "a", "labels": {"app": "a"}, "finalizers": ["y/z"]}),
                    container("i"),
                    paused.clone(),
                ),
            ),
            (
                false,
                object(
                    named("a"),
                    json!({"name": "d", "image": "i", "ports": [{"containerPort": 80}]}),
                    paused.clone(),
                ),
            ),
            (
                false,
                object(
                    named("a"),
                    json!({"name": "c", "image": "i", "ports": [{"containerPort": 81}]}),
                    paused.clone(),
                ),
            ),
            (
                false,
                object(
                    named("a"),
                    json!({"name": "c", "image": "i", "ports": []}),
                    paused.clone(),
                ),
            ),
            (
                false,
                object(named("a"), json!({"name": "c", "image": "i"}), paused.clone()),
            ),
            (
                false,
                object(
                    named("a"),
                    container("i"),
                    ("spec.template.spec.containers", json!([])),
                ),
            ),
            (
                false,
                object(named("a"), container("i"), ("spec.selector", Value::Null)),
            ),
        ] {
            let set = |object: &Value| owned(changes(&res, &writer, &blank, object));
            assert_eq!(set(&first) == set(&other), expected, "{other}");
            let _ = fields(&res, &blank, &first, || set(&first));
            assert_eq!(
                fields(&res, &blank, &other, || set(&other)),
                set(&other),
                "{other}"
            );
            let same = have_same_fields(shape::of(&res), Some(&blank), &first, &other);
            assert_eq!(same, expected, "{other}");
        }
    }
}
