//! CEL types, as far as the schema declares them.

use crate::apiextensions::structural::node::{Node, Type};

/// A type; [`Ty::Dyn`] is an unknown one.
#[derive(Debug, Clone)]
pub(crate) enum Ty<'n> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    Type,
    List(Box<Self>),
    Map(Box<Self>),
    /// An object, and whether it is a whole resource.
    Object(&'n Node, bool),
    Optional(Box<Self>),
    /// The metadata of a resource, of which rules see name and generateName.
    Metadata,
}

impl<'n> Ty<'n> {
    /// Returns the type of a schema's values. Returns `None` if the schema does not declare one.
    pub fn of(node: &'n Node, resource: bool) -> Option<Self> {
        if node.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match node.ty? {
            Type::Boolean => Self::Bool,
            Type::Integer => Self::Int,
            Type::Number => Self::Double,
            Type::String => match node.limits.format.as_ref().map(|format| format.name.as_str()) {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::Text,
            },
            Type::Array => {
                let items = node.items.as_deref()?;
                Self::List(Box::new(Self::of(items, items.embedded)?))
            }
            Type::Object => match node.values() {
                Some(values) => Self::Map(Box::new(Self::of(values, values.embedded)?)),
                None => Self::Object(node, resource || node.embedded),
            },
        })
    }

    /// Returns the type of a field.
    pub fn field(node: &'n Node, resource: bool, name: &str) -> Option<Self> {
        if let Some(field) = node
            .properties
            .get(name)
            .filter(|_| !(resource && name == "metadata"))
        {
            return Self::of(field, field.embedded);
        }
        match name {
            "apiVersion" | "kind" if resource => Some(Self::Text),
            "metadata" if resource => Some(Self::Metadata),
            _ => None,
        }
    }
}

impl Ty<'_> {
    /// Returns the name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Type => "type".to_owned(),
            Self::List(items) => format!("list({})", items.name()),
            Self::Map(values) => format!("map(string, {})", values.name()),
            Self::Object(..) | Self::Metadata => "object".to_owned(),
            Self::Optional(inner) => format!("optional_type({})", inner.name()),
        }
    }

    /// Whether a value of one type may be one of the other; unknown types may.
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(a), Self::List(b))
            | (Self::Map(a), Self::Map(b))
            | (Self::Optional(a), Self::Optional(b)) => a.fits(b),
            // Null is assignable to values that may be absent.
            (Self::Null, other) | (other, Self::Null) => !matches!(
                other,
                Self::Bool
                    | Self::Int
                    | Self::Uint
                    | Self::Double
                    | Self::Text
                    | Self::List(_)
                    | Self::Map(_)
            ),
            (Self::Object(..) | Self::Map(_), Self::Object(..) | Self::Map(_)) => true,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}
