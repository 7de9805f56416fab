//! What a schema says about a value before there is one: its type, and how large it can get.

use super::super::node::{Node, Type};
use super::authorizer::Kind;

/// The largest request, in bytes: nothing in an object is larger.
pub const REQUEST_LIMIT: u64 = 3 * 1024 * 1024;

/// A type and the most items, entries or bytes of its values.
#[derive(Debug, Clone)]
pub(super) struct Shape<'n> {
    pub ty: Ty<'n>,
    pub size: u64,
}

/// A type, as far as it is known; [`Ty::Dyn`] may be anything.
#[derive(Debug, Clone)]
pub(super) enum Ty<'n> {
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
    List(Box<Shape<'n>>),
    Map(Box<Shape<'n>>),
    /// An object, and whether it is a whole resource.
    Object(&'n Node, bool),
    Optional(Box<Shape<'n>>),
    /// What is asked with `authorizer`.
    Authority(Kind),
    /// The metadata of a resource, of which rules see the names.
    Metadata,
}

impl<'n> Shape<'n> {
    pub fn new(ty: Ty<'n>, size: u64) -> Self {
        Self { ty, size }
    }

    /// A value of one piece.
    pub fn plain(ty: Ty<'n>) -> Self {
        Self::new(ty, 1)
    }

    /// What stands at a place of the schema. None where the schema does not say, of which rules cannot speak.
    pub fn of(node: &'n Node, resource: bool) -> Option<Self> {
        let limits = &node.limits;
        let most = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        let text = || most(limits.max_length).map_or(REQUEST_LIMIT - 2, |most| most.saturating_mul(4));
        if node.int_or_string {
            return Some(Self::new(Ty::Dyn, text()));
        }
        Some(match node.ty? {
            Type::Boolean => Self::plain(Ty::Bool),
            Type::Integer => Self::plain(Ty::Int),
            Type::Number => Self::plain(Ty::Double),
            Type::String => match limits.format.as_ref().map(|format| format.name.as_str()) {
                Some("byte") => Self::new(Ty::Bytes, most(limits.max_length).unwrap_or(REQUEST_LIMIT - 2)),
                Some("duration") => Self::new(Ty::Duration, 32),
                Some("date") => Self::new(Ty::Timestamp, 12),
                Some("date-time") => Self::new(Ty::Timestamp, 32),
                _ if limits.max_length.is_none() && !limits.allowed.is_empty() => {
                    let texts = limits.allowed.iter().filter_map(|one| one.as_str());
                    let longest = texts.map(str::len).max().unwrap_or(0);
                    Self::new(Ty::Text, u64::try_from(longest).unwrap_or(REQUEST_LIMIT))
                }
                _ => Self::new(Ty::Text, text()),
            },
            Type::Array => {
                let items = node.items.as_deref()?;
                let fit = (REQUEST_LIMIT - 2) / (min_size(items) + 1);
                let below = Self::of(items, items.embedded)?;
                Self::new(Ty::List(Box::new(below)), most(limits.max_items).unwrap_or(fit))
            }
            Type::Object => match node.values() {
                Some(values) => {
                    let fit = (REQUEST_LIMIT - 2) / (min_size(values) + 6);
                    let below = Self::of(values, values.embedded)?;
                    Self::new(
                        Ty::Map(Box::new(below)),
                        most(limits.max_properties).unwrap_or(fit),
                    )
                }
                None => Self::plain(Ty::Object(node, resource || node.embedded)),
            },
        })
    }

    /// A field of an object.
    pub fn field(node: &'n Node, resource: bool, name: &str) -> Option<Self> {
        if let Some(field) = node
            .properties
            .get(name)
            .filter(|_| !(resource && name == "metadata"))
        {
            return Self::of(field, field.embedded);
        }
        match name {
            "apiVersion" | "kind" if resource => Some(Self::new(Ty::Text, 256)),
            "metadata" if resource => Some(Self::plain(Ty::Metadata)),
            _ => None,
        }
    }
}

impl Ty<'_> {
    /// The name of the type in messages.
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
            Self::List(items) => format!("list({})", items.ty.name()),
            Self::Map(values) => format!("map(string, {})", values.ty.name()),
            Self::Object(..) | Self::Metadata => "object".to_owned(),
            Self::Optional(inner) => format!("optional_type({})", inner.ty.name()),
            Self::Authority(kind) => kind.name().to_owned(),
        }
    }

    /// Whether a value of one may stand for the other; what is not known may.
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(a), Self::List(b))
            | (Self::Map(a), Self::Map(b))
            | (Self::Optional(a), Self::Optional(b)) => a.ty.fits(&b.ty),
            // A null may stand where there is something that could be absent.
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
            (Self::Authority(a), Self::Authority(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

/// The fewest bytes that a value of the schema takes.
pub fn min_size(node: &Node) -> u64 {
    if node.int_or_string {
        return 1;
    }
    match (
        node.ty,
        node.limits.format.as_ref().map(|format| format.name.as_str()),
    ) {
        (Some(Type::Boolean), _) => 4,
        (Some(Type::Integer | Type::Number), _) => 1,
        (Some(Type::String), Some("duration")) => 3,
        (Some(Type::String), Some("date")) => 12,
        (Some(Type::String), Some("date-time")) => 21,
        (Some(Type::Object), _) => {
            let needed = node
                .properties
                .iter()
                .filter(|(name, field)| node.limits.required.contains(name) && field.default.is_none());
            needed.fold(2, |sum, (name, field)| {
                sum + u64::try_from(name.len()).unwrap_or(0) + min_size(field) + 4
            })
        }
        _ => 2,
    }
}
