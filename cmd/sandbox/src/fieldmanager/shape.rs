//! The type of a value and its merge behavior, for built-in kinds, for CRD schemas and for values without a schema.
//!
//! Without a schema, maps merge by key and lists are atomic.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::fieldmanager::lists::Topology;
use crate::fieldmanager::{element, lists};
use crate::json::{Map, Text, Value, json};
use crate::resource::Resource;
use crate::schema::{Field, Type, TypeRef};
use crate::{registry, schema};

/// The type of one value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    /// An object of a built-in type.
    Object(TypeRef),
    /// A map of a built-in type; the flag says whether it is atomic.
    Map(&'static Type, bool),
    /// A list of a built-in type.
    List(&'static Type, Topology),
    /// Any other value of a built-in type.
    Scalar(&'static Type),
    /// A value of a CRD schema; the flag says whether unknown fields are preserved.
    Custom(&'a Value, bool),
    /// An object of a CRD schema with its own metadata; the flag says whether unknown fields are preserved.
    CustomObject(&'a Value, bool),
    /// A value without a schema.
    Deduced,
}

/// The structure of a value for comparing and merging.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Layout<'a> {
    /// One atomic value.
    Leaf,
    /// An object, compared by field.
    Object,
    /// A list, compared by item.
    Items(Keys<'a>),
}

/// The identity of list items.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Keys<'a> {
    /// The value of an item identifies it.
    Set,
    /// These fields identify an item, sorted by name.
    Fields(Vec<Cow<'a, str>>),
}

/// Returns the shape of a kind.
pub(super) fn of(res: &Resource) -> Shape<'_> {
    if let Some(kind) = res.schema {
        return Shape::Object(kind);
    }
    match res.custom.as_ref().and_then(|custom| custom.openapi.as_ref()) {
        Some(schema) => Shape::CustomObject(schema, false),
        None => Shape::Deduced,
    }
}

impl<'a> Shape<'a> {
    /// Returns the layout of a value. The value determines the layout if the schema does not.
    pub(super) fn layout(self, value: &Value) -> Layout<'a> {
        match self {
            Self::Object(ty) if ty.is_atomic() => Layout::Leaf,
            Self::Object(_) | Self::Map(_, false) | Self::CustomObject(..) => Layout::Object,
            Self::List(_, Topology::Set) => Layout::Items(Keys::Set),
            Self::List(_, Topology::Keyed(keys)) => {
                Layout::Items(Keys::Fields(keys.iter().map(|key| Cow::Borrowed(*key)).collect()))
            }
            Self::Custom(schema, _) => custom_layout(schema, value),
            Self::Deduced if value.is_object() => Layout::Object,
            Self::Map(_, true) | Self::List(_, Topology::Atomic) | Self::Scalar(_) | Self::Deduced => {
                Layout::Leaf
            }
        }
    }

    /// Reports whether this is a built-in type, which always encodes its required fields.
    pub(super) fn is_typed(self) -> bool {
        !matches!(self, Self::Custom(..) | Self::CustomObject(..) | Self::Deduced)
    }

    /// Returns the shape of a field and whether the schema names it, or `None` if the field is unknown.
    pub(super) fn field(self, name: &str) -> Option<(Shape<'a>, bool)> {
        match self {
            Self::Object(ty) => {
                let field = ty.field(name)?;
                Some((typed(&field.ty, Some(field)), true))
            }
            Self::Map(inner, _) => Some((typed(inner, None), false)),
            Self::CustomObject(schema, preserve) => match name {
                "metadata" => Some((Shape::Object(schema::object_meta()?), true)),
                "apiVersion" | "kind" => Some((Shape::Scalar(&Type::String), true)),
                _ => custom_field(schema, preserve, name),
            },
            Self::Custom(schema, preserve) => custom_field(schema, preserve, name),
            Self::Deduced => Some((Shape::Deduced, false)),
            Self::List(..) | Self::Scalar(_) => None,
        }
    }

    /// Returns the shape of the items of a list.
    pub(super) fn item(self) -> Shape<'a> {
        match self {
            Self::List(inner, _) => typed(inner, None),
            Self::Custom(schema, preserve) => match schema.get("items") {
                Some(items) => custom(items, preserve || preserves(schema)),
                None => Shape::Deduced,
            },
            _ => Shape::Deduced,
        }
    }

    /// Returns the element of an item, or the reason why it has none.
    pub(super) fn element(self, keys: &Keys<'_>, item: &Value) -> Result<Text, String> {
        let Keys::Fields(names) = keys else {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(element::value(scalar)),
            };
        };
        let map = match item {
            Value::Object(map) => map,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let values: Vec<(&str, Value)> = names
            .iter()
            .filter_map(|name| {
                let value = map.get(name).cloned().or_else(|| self.key_default(name))?;
                Some((&**name, value))
            })
            .collect();
        if values.is_empty() {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(element::keyed(&values))
    }

    /// Returns the default of a key field.
    fn key_default(self, name: &str) -> Option<Value> {
        match self {
            Self::List(inner, _) => {
                let ty = inner.object()?;
                let field = ty.field(name)?;
                if let Some(default) = field.default {
                    return Some(default.trim_matches('"').into());
                }
                match field.ty {
                    _ if !field.required => None,
                    Type::String => Some("".into()),
                    Type::Int32 | Type::Int64 => Some(0.into()),
                    _ => None,
                }
            }
            Self::Custom(schema, _) => {
                let default = &schema["items"]["properties"][name]["default"];
                (!default.is_null()).then(|| default.clone())
            }
            _ => None,
        }
    }
}

/// Returns the shape of a built-in type. `field` is the field that has the type; items of lists and maps have none.
fn typed(ty: &'static Type, field: Option<&'static Field>) -> Shape<'static> {
    match ty {
        Type::Object(_) => ty.object().map_or(Shape::Scalar(ty), Shape::Object),
        Type::Map(inner) => Shape::Map(inner, field.is_some_and(|field| field.merge_type == "atomic")),
        Type::List(inner) => Shape::List(inner, field.map_or(Topology::Atomic, lists::of)),
        _ => Shape::Scalar(ty),
    }
}

fn custom(schema: &Value, preserve: bool) -> Shape<'_> {
    if schema["x-kubernetes-embedded-resource"] == true {
        Shape::CustomObject(schema, preserve)
    } else {
        Shape::Custom(schema, preserve)
    }
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn custom_field<'a>(schema: &'a Value, preserve: bool, name: &str) -> Option<(Shape<'a>, bool)> {
    let preserve = preserve || preserves(schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(property) = properties.and_then(|all| all.get(name)) {
        return Some((custom(property, preserve), true));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(values @ Value::Object(_)) => Some((custom(values, preserve), false)),
        Some(_) => Some((Shape::Deduced, false)),
        None if preserve || properties.is_none_or(Map::is_empty) => Some((Shape::Deduced, false)),
        None => None,
    }
}

fn custom_layout<'a>(schema: &'a Value, value: &Value) -> Layout<'a> {
    let kind = match (schema["type"].as_str(), value) {
        (Some(kind), _) => kind,
        (None, Value::Object(_)) => "object",
        (None, Value::Array(_)) => "array",
        (None, _) => "",
    };
    match (kind, schema["x-kubernetes-list-type"].as_str()) {
        ("object", _) if schema["x-kubernetes-map-type"] == "atomic" => Layout::Leaf,
        ("object", _) => Layout::Object,
        ("array", Some("set")) => Layout::Items(Keys::Set),
        ("array", Some("map")) => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let mut keys: Vec<Cow<'a, str>> = keys
                .into_iter()
                .flatten()
                .filter_map(|key| key.as_str().map(Cow::Borrowed))
                .collect();
            keys.sort_unstable();
            Layout::Items(Keys::Fields(keys))
        }
        _ => Layout::Leaf,
    }
}

/// Returns an empty object of the kind as the API server decodes it: with its required fields.
///
/// The creator of an object does not own these fields: `f:spec` has no `.` member on a Deployment, but has one on a custom
/// resource. Required lists and timestamps are null.
///
/// The object is cached for each built-in kind.
pub(super) fn blank(res: &Resource) -> Arc<Value> {
    static BLANKS: RwLock<BTreeMap<&str, Arc<Value>>> = RwLock::new(BTreeMap::new());
    let Some(schema) = res.schema else {
        return Arc::new(json!({"apiVersion": res.api_version(), "kind": res.kind}));
    };
    let key = schema.name();
    let known = BLANKS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(key)
        .cloned();
    known.unwrap_or_else(|| {
        let blank = Arc::new(new_blank(res));
        let mut blanks = BLANKS.write().unwrap_or_else(PoisonError::into_inner);
        blanks.insert(key, blank.clone());
        blank
    })
}

fn new_blank(res: &Resource) -> Value {
    let pods = || json!({"metadata": {}, "spec": {"containers": null}});
    let mut blank = match res.kind.as_str() {
        "Pod" => json!({"spec": {"containers": null}}),
        "PodTemplate" => json!({"template": pods()}),
        "Deployment" => json!({"spec": {"selector": null, "strategy": {}, "template": pods()}}),
        "ReplicaSet" => json!({"spec": {"selector": null, "template": pods()}}),
        "DaemonSet" => json!({"spec": {"selector": null, "updateStrategy": {}, "template": pods()}}),
        "StatefulSet" => {
            json!({"spec": {"selector": null, "serviceName": "", "updateStrategy": {}, "template": pods()}})
        }
        "Job" => json!({"spec": {"template": pods()}}),
        "CronJob" => {
            json!({"spec": {"schedule": "", "jobTemplate": {"metadata": {}, "spec": {"template": pods()}}}})
        }
        "PersistentVolumeClaim" => json!({"spec": {"resources": {}}}),
        "NetworkPolicy" => json!({"spec": {"podSelector": {}}}),
        "HorizontalPodAutoscaler" => {
            json!({"spec": {"maxReplicas": 0, "scaleTargetRef": {"kind": "", "name": ""}}})
        }
        "Role" | "ClusterRole" => json!({"rules": null}),
        "RoleBinding" | "ClusterRoleBinding" => {
            json!({"roleRef": {"apiGroup": "", "kind": "", "name": ""}})
        }
        "PriorityClass" => json!({"value": 0}),
        "Scale" => json!({"status": {"replicas": 0}}),
        "ControllerRevision" => json!({"data": null, "revision": 0}),
        "Event" if res.group.is_empty() => json!({
            "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        }),
        "Event" => json!({
            "eventTime": null, "regarding": {}, "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null,
        }),
        "FlowSchema" => {
            json!({"spec": {"matchingPrecedence": 0, "priorityLevelConfiguration": {"name": ""}}})
        }
        "PriorityLevelConfiguration" => json!({"spec": {"type": ""}}),
        "CustomResourceDefinition" => json!({
            "spec": {"group": "", "names": {"kind": "", "plural": ""}, "scope": "", "versions": null},
        }),
        _ => json!({}),
    };
    blank["metadata"] = json!({});
    for section in ["spec", "status"] {
        let has = res.schema.is_some_and(|k| k.field(section).is_some());
        if has && blank[section].is_null() {
            blank[section] = json!({});
        }
    }
    registry::complete(res, &mut blank, None);
    blank["apiVersion"] = res.api_version().into();
    blank["kind"] = res.kind.as_str().into();
    blank
}
