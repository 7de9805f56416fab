//! The types of the built-in kinds, compiled from the generated data.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Definition, Field, Schema, Type};
use crate::generated;

static SCHEMA: LazyLock<Schema> = LazyLock::new(compile);

/// The schema of all built-in kinds, compiled on first use.
pub(super) fn schema() -> &'static Schema {
    &SCHEMA
}

fn compile() -> Schema {
    let mut schema = Schema {
        definitions: BTreeMap::new(),
        kinds: BTreeMap::new(),
    };
    for (short_name, data) in generated::types() {
        if data.alias.is_some() {
            continue;
        }
        let field = |field: &'static generated::Field| {
            let compiled = Field {
                ty: parse(field.ty),
                required: field.required,
                keeps_zero: field.keeps_zero,
                shown: field.shown,
            };
            (field.name, compiled)
        };
        let definition = Definition {
            name: data.name,
            fields: data.fields.iter().map(field).collect(),
        };
        if let Some([group, version, kind]) = data.kind {
            schema.kinds.insert((group, version, kind), short_name);
        }
        schema.definitions.insert(short_name, definition);
    }
    schema
}

/// Reads a type. References to types without fields are resolved, so that only objects keep a name.
fn parse(text: &'static str) -> Type {
    if text.contains('|') {
        return Type::OneOf(text.split('|').map(parse).collect());
    }
    if let Some(item) = text.strip_prefix("[]") {
        return Type::List(Box::new(parse(item)));
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Type::Map(Box::new(parse(value)));
    }
    match text {
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        "quantity" => Type::Quantity,
        "int-or-string" => Type::IntOrString,
        "time" => Type::Time,
        "micro-time" => Type::MicroTime,
        name => match generated::types().get(name) {
            Some(data) => data.alias.map_or(Type::Object(name), parse),
            None => Type::Any,
        },
    }
}
