//! Bodies in Kubernetes' protobuf form, turned into JSON trees.
//!
//! Newer `kubectl` sends what it makes up itself (`kubectl create deployment`, an eviction) in protobuf, and does not fall
//! back to JSON. So bodies of the kinds that it makes are read; answers are JSON, which every client takes. The shape of
//! the messages comes from the schema, the numbers of their fields from a table. A field that is not in the table is
//! an error that says so, never dropped.

mod numbers;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::schema::{self, Type, TypeRef};
use wire::{Content, fields};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It is no protobuf, or not of this kind.
    #[error("the body is not a Kubernetes protobuf message: {0}")]
    Malformed(&'static str),
    /// The kind, or one of its fields, is not in our table.
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
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or(ProtobufError::Malformed("it does not begin with the magic bytes"))?;
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
    let unknown = || ProtobufError::Unknown(format!("{api_version} {kind}"));
    let schema = schema::builtin(&api_version, &kind).ok_or_else(unknown)?;
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
    merge_into(&mut map, schema, bytes)?;
    Ok(Value::Object(map))
}

fn merge_into(map: &mut Map<String, Value>, schema: TypeRef, bytes: &[u8]) -> Result<()> {
    for field in fields(bytes) {
        let (number, content) = field?;
        let short = schema.short_name();
        let Some(name) = numbers::name(short, number) else {
            return Err(ProtobufError::Unknown(format!("field {number} of {short}")));
        };
        match name {
            // What the server computes is not taken from a client that creates.
            "status" => continue,
            // A struct that JSON shows as part of its parent.
            "localObjectReference" => {
                for inner in fields(content.bytes()?) {
                    if let (1, Content::Bytes(text)) = inner? {
                        map.insert("name".to_owned(), utf8(text)?.into());
                    }
                }
                continue;
            }
            _ => {}
        }
        let ty = &schema
            .field(name)
            .ok_or_else(|| ProtobufError::Unknown(format!("{short}.{name}")))?
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
            None => return Err(ProtobufError::Unknown(name.clone())),
        },
        Type::List(_) | Type::Map(_) | Type::Number | Type::OneOf(_) | Type::Any => {
            return Err(ProtobufError::Unknown(format!("a field of type {ty:?}")));
        }
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
