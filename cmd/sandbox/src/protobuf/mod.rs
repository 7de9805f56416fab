//! Bodies in Kubernetes' protobuf form, turned into JSON trees.
//!
//! Newer `kubectl` sends what it makes up itself (`kubectl create deployment`, an eviction) in protobuf, and does not fall
//! back to JSON; controllers written in Go send everything so. So bodies of all built-in kinds are read; answers are
//! JSON, which every client takes. The shape of the messages comes from the schema, the numbers of their fields from a
//! table that has all of them. A number that is not there is of a newer API, and passed over as the real server does.

mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::generated::field_name;
use crate::schema::{self, Type, TypeRef};
use wire::{Content, fields};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It is not a message of Kubernetes.
    #[error("{0}")]
    Foreign(&'static str),
    /// It is cut off, or not of this kind.
    #[error("{0}")]
    Malformed(&'static str),
    /// The kind, or one of its fields, is none that we can read.
    #[error("{0} is not understood in protobuf here: send JSON instead")]
    Unknown(String),
}

type Result<T> = std::result::Result<T, ProtobufError>;

/// Whether a `Content-Type` names this form.
#[must_use]
pub fn is_protobuf(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim() == MEDIA_TYPE
}

/// Reads a body: the envelope, and the object in it. `default` is the kind of the path, for an envelope without one.
pub fn decode(body: &[u8], default: (&str, &str)) -> Result<Value> {
    let envelope = match body.strip_prefix(MAGIC) {
        None if body.is_empty() => return Err(ProtobufError::Foreign("empty data")),
        None => {
            let why =
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
            return Err(ProtobufError::Foreign(why));
        }
        Some([]) => return Err(ProtobufError::Foreign("empty body")),
        Some(envelope) => envelope,
    };
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(envelope) {
        match field? {
            (1, Content::Bytes(meta)) => {
                for field in fields(meta) {
                    match field? {
                        (1, Content::Bytes(text)) => api_version = utf8(text)?,
                        (2, Content::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Content::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    if api_version.is_empty() && kind.is_empty() {
        (api_version, kind) = (default.0.to_owned(), default.1.to_owned());
    }
    // Every version has options of its own, and they are all the same.
    let schema = match kind.as_str() {
        "DeleteOptions" => schema::delete_options(),
        _ => schema::builtin(&api_version, &kind),
    };
    let unknown = || ProtobufError::Unknown(format!("{api_version} {kind}"));
    let schema = schema.ok_or_else(unknown)?;
    let mut object = message(schema, raw)?;
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
    Ok(object)
}

/// An object of a type of the schema.
fn message(schema: TypeRef, bytes: &[u8]) -> Result<Value> {
    let mut map = Map::new();
    merge_into(&mut map, schema, schema.short_name(), bytes)?;
    Ok(Value::Object(map))
}

/// Adds the fields of a message that is numbered as `numbered` to an object of a type of the schema.
fn merge_into(map: &mut Map<String, Value>, schema: TypeRef, numbered: &str, bytes: &[u8]) -> Result<()> {
    for field in fields(bytes) {
        let (number, content) = field?;
        let Some(name) = field_name(numbered, number) else {
            continue;
        };
        // A struct that JSON shows as part of its parent.
        if let Some(part) = name.strip_prefix('=') {
            merge_into(map, schema, part, content.bytes()?)?;
            continue;
        }
        let ty = &schema
            .field(name)
            .ok_or_else(|| ProtobufError::Unknown(format!("{}.{name}", schema.short_name())))?
            .ty;
        match ty {
            Type::List(item) => {
                let list = map.entry(name).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(value(item, content)?);
                }
            }
            Type::Map(item) => {
                let (key, value) = entry(item, content.bytes()?)?;
                let inner = map.entry(name).or_insert_with(|| json!({}));
                if let Some(inner) = inner.as_object_mut() {
                    inner.insert(key, value);
                }
            }
            other => {
                let value = value(other, content)?;
                if !value.is_null() {
                    map.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

fn entry(item: &Type, bytes: &[u8]) -> Result<(String, Value)> {
    // A part that is left out has its zero value.
    let (mut key, mut content) = (String::new(), Content::Bytes(&[]));
    for field in fields(bytes) {
        match field? {
            (1, Content::Bytes(text)) => key = utf8(text)?,
            (2, found) => content = found,
            _ => {}
        }
    }
    Ok((key, value(item, content)?))
}

/// One value; `Null` stands for one that JSON leaves out.
fn value(ty: &Type, content: Content<'_>) -> Result<Value> {
    Ok(match ty {
        Type::String => utf8(content.bytes()?)?.into(),
        Type::Int32 | Type::Int64 => content.integer()?.into(),
        Type::Boolean => (content.integer()? != 0).into(),
        Type::Bytes => STANDARD.encode(content.bytes()?).into(),
        Type::Time | Type::MicroTime => time(content.bytes()?)?,
        Type::Quantity => {
            let mut text = String::new();
            for field in fields(content.bytes()?) {
                if let (1, Content::Bytes(bytes)) = field? {
                    text = utf8(bytes)?;
                }
            }
            text.into()
        }
        Type::IntOrString => int_or_string(content.bytes()?)?,
        Type::Object(name) => match ty.object() {
            Some(schema) => message(schema, content.bytes()?)?,
            None => return Err(ProtobufError::Unknown((*name).to_owned())),
        },
        Type::Number => f64::from_bits(content.integer()?.cast_unsigned()).into(),
        // Where a list stands in a map, it is a message with the items.
        Type::List(item) => {
            let items = fields(content.bytes()?).filter_map(|field| match field {
                Ok((1, content)) => Some(value(item, content)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            items.collect::<Result<Vec<Value>>>()?.into()
        }
        Type::OneOf(types) => one_of(types, content.bytes()?)?,
        Type::Any => raw(content.bytes()?)?,
        Type::Map(_) => return Err(ProtobufError::Unknown("a map of maps".to_owned())),
    })
}

/// Any JSON, as a message with its text.
fn raw(bytes: &[u8]) -> Result<Value> {
    for field in fields(bytes) {
        if let (1, Content::Bytes(text)) = field? {
            return serde_json::from_slice(text)
                .map_err(|_| ProtobufError::Malformed("there is something else where JSON is expected"));
        }
    }
    Ok(json!({}))
}

/// A schema or something else, in the schema of a CRD: either has a field of its own, and the schema goes first.
fn one_of(types: &[Type], bytes: &[u8]) -> Result<Value> {
    let schema = types.iter().find(|ty| matches!(ty, Type::Object(_)));
    let list = types.iter().find_map(|ty| match ty {
        Type::List(item) => Some(item),
        _ => None,
    });
    let (mut is, mut allows, mut items) = (None, false, Vec::new());
    for field in fields(bytes) {
        match (field?, schema, list) {
            ((1, content), _, None) => allows = content.integer()? != 0,
            ((2, content), _, Some(item)) => items.push(value(item, content)?),
            ((1 | 2, content), Some(schema), _) => is = Some(value(schema, content)?),
            _ => {}
        }
    }
    Ok(match is {
        Some(schema) => schema,
        None if list.is_some() => items.into(),
        None => allows.into(),
    })
}

/// Type 0 is the number in field 2, type 1 the text in field 3.
fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes) {
        match field? {
            (1, content) => is_text = content.integer()? == 1,
            (2, content) => number = content.integer()?,
            (3, Content::Bytes(bytes)) => text = utf8(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// Seconds and nanoseconds; the zero time is none at all.
fn time(bytes: &[u8]) -> Result<Value> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, content) => seconds = content.integer()?,
            (2, content) => nanos = content.integer()?,
            _ => {}
        }
    }
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos =
        i32::try_from(nanos).map_err(|_| ProtobufError::Malformed("a time has too many nanoseconds"))?;
    let time = jiff::Timestamp::new(seconds, nanos)
        .map_err(|_| ProtobufError::Malformed("a time is out of range"))?;
    Ok(time.to_string().into())
}

fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Malformed("a string is not UTF-8"))
}

#[cfg(test)]
mod tests;
