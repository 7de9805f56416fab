//! Decoding of request bodies in the Kubernetes protobuf encoding (`runtime.Unknown`) to JSON trees.
//!
//! Recent `kubectl` versions send the objects that they generate (`kubectl create deployment`, an eviction) as protobuf
//! without a fallback to JSON, and controllers written in Go send all objects as protobuf. The decoder supports all
//! built-in kinds. Responses are JSON, which every client accepts. The schema gives the types of the fields, and a table
//! gives their numbers. An unknown number belongs to a newer API and is skipped, as on the API server.

mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::generated::field_name;
use crate::json::{Map, Value, json};
use crate::schema::{self, Type, TypeRef};
use wire::{Content, fields};

/// The media type of the encoding.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";
/// The depth limit of the JSON parser. Without it, nested schemas of a CRD could overflow the stack.
const MAX_DEPTH: usize = 127;
const TOO_DEEP: ProtobufError = ProtobufError::Malformed("exceeded max depth");

/// The reason why a body could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The body is not a Kubernetes protobuf message.
    #[error("{0}")]
    Foreign(&'static str),
    /// The message is truncated, or does not match the kind.
    #[error("{0}")]
    Malformed(&'static str),
    /// The kind, or one of its fields, is not supported.
    #[error("{0} is not understood in protobuf here: send JSON instead")]
    Unknown(String),
}

type Result<T> = std::result::Result<T, ProtobufError>;

/// Reports whether a `Content-Type` names this encoding.
#[must_use]
pub fn is_protobuf(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim() == MEDIA_TYPE
}

/// Decodes a body: the envelope and its object. `default` is the kind of the request path, for an envelope without a kind.
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
    // Every API version has its own copy of the options types; all copies are equal.
    let schema = match kind.as_str() {
        "DeleteOptions" => schema::delete_options(),
        _ => schema::builtin(&api_version, &kind),
    };
    let unknown = || ProtobufError::Unknown(format!("{api_version} {kind}"));
    let schema = schema.ok_or_else(unknown)?;
    let mut object = message(schema, raw, MAX_DEPTH)?;
    // Raw JSON has its own limit.
    if object.depth() > MAX_DEPTH {
        return Err(TOO_DEEP);
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion", api_version.into());
        map.insert("kind", kind.into());
    }
    Ok(object)
}

/// Decodes a message of a schema type. `depth` is the number of levels that are left.
fn message(schema: TypeRef, bytes: &[u8], depth: usize) -> Result<Value> {
    let mut map = Map::new();
    let depth = depth.checked_sub(1).ok_or(TOO_DEEP)?;
    merge_into(&mut map, schema, schema.short_name(), bytes, depth)?;
    Ok(Value::Object(map))
}

/// Merges the fields of a message into an object of a schema type. `numbered` names the table of field numbers.
fn merge_into(map: &mut Map, schema: TypeRef, numbered: &str, bytes: &[u8], depth: usize) -> Result<()> {
    for field in fields(bytes) {
        let (number, content) = field?;
        let Some(name) = field_name(numbered, number) else {
            continue;
        };
        // A struct that is inlined into its parent in JSON.
        if let Some(part) = name.strip_prefix('=') {
            merge_into(map, schema, part, content.bytes()?, depth)?;
            continue;
        }
        let ty = &schema
            .field(name)
            .ok_or_else(|| ProtobufError::Unknown(format!("{}.{name}", schema.short_name())))?
            .ty;
        match ty {
            Type::List(item) => {
                let list = map.get_or_insert_with(name, || json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(value(item, content, depth)?);
                }
            }
            Type::Map(item) => {
                let (key, value) = entry(item, content.bytes()?, depth)?;
                let inner = map.get_or_insert_with(name, || json!({}));
                if let Some(inner) = inner.as_object_mut() {
                    inner.insert(key, value);
                }
            }
            other => {
                let value = value(other, content, depth)?;
                if !value.is_null() {
                    map.insert(name.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

fn entry(item: &Type, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
    // An omitted key or value has its zero value.
    let (mut key, mut content) = (String::new(), Content::Bytes(&[]));
    for field in fields(bytes) {
        match field? {
            (1, Content::Bytes(text)) => key = utf8(text)?,
            (2, found) => content = found,
            _ => {}
        }
    }
    Ok((key, value(item, content, depth)?))
}

/// Decodes one value. `Null` stands for a value that JSON omits.
fn value(ty: &Type, content: Content<'_>, depth: usize) -> Result<Value> {
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
        Type::Object(_) => match ty.object() {
            Some(schema) => message(schema, content.bytes()?, depth)?,
            None => return Err(ProtobufError::Unknown("an unknown type".to_owned())),
        },
        Type::Number => f64::from_bits(content.integer()?.cast_unsigned()).into(),
        // A list inside a map is a message with the items.
        Type::List(item) => {
            let items = fields(content.bytes()?).filter_map(|field| match field {
                Ok((1, content)) => Some(value(item, content, depth)),
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            });
            items.collect::<Result<Vec<Value>>>()?.into()
        }
        Type::OneOf(types) => union(types, content.bytes()?, depth)?,
        Type::Any => raw(content.bytes()?)?,
        Type::Map(_) => return Err(ProtobufError::Unknown("a map of maps".to_owned())),
    })
}

/// Decodes raw JSON: a message that contains the JSON text.
fn raw(bytes: &[u8]) -> Result<Value> {
    for field in fields(bytes) {
        if let (1, Content::Bytes(text)) = field? {
            return serde_json::from_slice(text)
                .map_err(|_| ProtobufError::Malformed("there is something else where JSON is expected"));
        }
    }
    Ok(json!({}))
}

/// Decodes a union in a CRD schema: each alternative has its own field, and the schema is the first.
fn union(types: &[Type], bytes: &[u8], depth: usize) -> Result<Value> {
    let schema = types.iter().find(|ty| matches!(ty, Type::Object(_)));
    let list = types.iter().find_map(|ty| match ty {
        Type::List(item) => Some(item),
        _ => None,
    });
    let (mut is, mut allows, mut items) = (None, false, Vec::new());
    for field in fields(bytes) {
        match (field?, schema, list) {
            ((1, content), _, None) => allows = content.integer()? != 0,
            ((2, content), _, Some(item)) => items.push(value(item, content, depth)?),
            ((1 | 2, content), Some(schema), _) => is = Some(value(schema, content, depth)?),
            _ => {}
        }
    }
    Ok(match is {
        Some(schema) => schema,
        None if list.is_some() => items.into(),
        None => allows.into(),
    })
}

/// Decodes an `IntOrString`: type 0 is the number in field 2, type 1 is the string in field 3.
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

/// Decodes seconds and nanoseconds. The zero time is null.
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
