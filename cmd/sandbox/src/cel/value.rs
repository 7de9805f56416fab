//! CEL values. Values of the object are references, and not copied.

use std::borrow::Cow;
use std::rc::Rc;

use kube_cel::cel;

use crate::apiextensions::structural::node::{Node, Type};
use crate::cel::eval::EvalError;
use crate::cel::library;
use crate::json::{Text, Value};

/// A value. `'a` is the lifetime of the object and its schema.
#[derive(Debug, Clone)]
pub(crate) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    /// A list or map of the object, with its schema.
    Json(&'a Value, Option<&'a Node>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    Optional(Option<Rc<Val<'a>>>),
    /// The name of a type.
    Type(String),
    /// A value of the library: a timestamp, bytes, a quantity, an address.
    Other(cel::Value),
    /// The error of a loop step, which a later step may absorb.
    Failed(EvalError),
}

impl<'a> Val<'a> {
    /// Wraps a value of the object.
    pub fn of(value: &'a Value, node: Option<&'a Node>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => {
                let real = node.is_some_and(|node| node.ty == Some(Type::Number));
                match n.as_i64() {
                    Some(n) if !real => Self::Int(n),
                    _ if node.is_some_and(|node| node.ty == Some(Type::Integer)) => Self::whole(n.as_f64()),
                    _ => Self::Double(n.as_f64().unwrap_or_default()),
                }
            }
            Value::String(text) => {
                let format = node.and_then(|node| node.limits.format.as_ref());
                match format.map(|format| format.name.as_str()) {
                    Some("date-time") => library::parsed("timestamp", text),
                    Some("date") => library::parsed("timestamp", &format!("{text}T00:00:00Z")),
                    Some("duration") => library::parsed("duration", text),
                    Some("byte") => library::bytes(text),
                    _ => Self::Text(Cow::Borrowed(text)),
                }
            }
            Value::Array(_) | Value::Object(_) => Self::Json(value, node),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn whole(number: Option<f64>) -> Self {
        Self::Int(number.unwrap_or_default() as i64)
    }

    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    /// Returns the items of a list.
    pub fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items.to_vec()),
            Self::Json(Value::Array(items), node) => {
                let below = node.and_then(|node| node.items.as_deref());
                Some(items.iter().map(|item| Val::of(item, below)).collect())
            }
            _ => None,
        }
    }

    /// Returns the entries of a map or an object.
    pub fn entries(&self) -> Option<Vec<(Self, Self)>> {
        match self {
            Self::Map(entries) => Some(entries.to_vec()),
            Self::Json(Value::Object(map), node) => {
                let entry = |(key, value): (&'a Text, &'a Value)| {
                    let below = node.and_then(|node| node.below(key));
                    (Val::text(key.as_str()), Val::of(value, below))
                };
                Some(map.iter().map(entry).collect())
            }
            _ => None,
        }
    }

    /// Returns the number of items, entries or characters.
    pub fn size(&self) -> Option<usize> {
        Some(match self {
            Self::Text(text) => text.chars().count(),
            Self::List(items) => items.len(),
            Self::Map(entries) => entries.len(),
            Self::Json(Value::Array(items), _) => items.len(),
            Self::Json(Value::Object(map), _) => map.len(),
            Self::Other(cel::Value::Bytes(bytes)) => bytes.len(),
            _ => return None,
        })
    }

    /// Returns the cost of one traversal.
    pub fn weight(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.len() / 10,
            other => other.size().unwrap_or(0),
        };
        u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns the name of its type.
    pub fn type_name(&self) -> String {
        let name = match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::List(_) | Self::Json(Value::Array(_), _) => "list",
            Self::Map(_) | Self::Json(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Other(cel::Value::Bytes(_)) => "bytes",
            Self::Other(cel::Value::Timestamp(_)) => "google.protobuf.Timestamp",
            Self::Other(cel::Value::Duration(_)) => "google.protobuf.Duration",
            Self::Other(cel::Value::Opaque(opaque)) => return opaque.runtime_type_name().to_owned(),
            Self::Other(_) | Self::Failed(_) => "dyn",
        };
        name.to_owned()
    }
}

/// Returns the field name of an escaped identifier.
pub(crate) fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("__") {
        return Cow::Borrowed(name);
    }
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| RESERVED.split(' ').any(|reserved| reserved == *word)) {
        return Cow::Owned(word.to_owned());
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("__") {
        out.push_str(&rest[..at]);
        let after = &rest[at..];
        let known = ESCAPES.iter().find(|(escape, _)| after.starts_with(escape));
        let (escape, text) = known.copied().unwrap_or(("__", "__"));
        out.push_str(text);
        rest = &after[escape.len()..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

const ESCAPES: [(&str, &str); 4] = [
    ("__underscores__", "__"),
    ("__dot__", "."),
    ("__dash__", "-"),
    ("__slash__", "/"),
];
const RESERVED: &str = "true false null in as break const continue else for function if import let loop package namespace \
                        return var void while";
