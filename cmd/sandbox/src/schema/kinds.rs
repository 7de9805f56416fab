//! The types of the built-in kinds, compiled from the generated data.

use std::sync::LazyLock;

use super::{Definition, DefinitionIndex, Field, Schema, Type};
use crate::generated;

static SCHEMA: LazyLock<Schema> = LazyLock::new(compile);

/// The schema of all built-in kinds, compiled on first use.
pub(super) fn schema() -> &'static Schema {
    &SCHEMA
}

fn compile() -> Schema {
    let types = || generated::types().iter().filter(|(_, data)| data.alias.is_none());
    let names: Vec<&str> = types().map(|(short_name, _)| *short_name).collect();
    let field = |data: &'static generated::Field| Field {
        ty: parse(data.ty, &names),
        data,
    };
    let kind = |(index, (_, data)): (usize, (_, &generated::Type))| {
        let [group, version, kind] = data.kind?;
        Some(((group, version, kind), DefinitionIndex(index)))
    };
    Schema {
        kinds: types().enumerate().filter_map(kind).collect(),
        definitions: types()
            .enumerate()
            .map(|(index, (short_name, data))| Definition {
                data,
                short_name,
                index,
                fields: data.fields.iter().map(field).collect(),
                by_name: data
                    .fields
                    .iter()
                    .enumerate()
                    .map(|(at, field)| (field.name, at))
                    .collect(),
            })
            .collect(),
    }
}

/// Reads a type. References to types without fields are resolved, so that only objects keep a reference. `names` are the
/// short names of the definitions, sorted.
fn parse(text: &'static str, names: &[&str]) -> Type {
    if text.contains('|') {
        return Type::OneOf(text.split('|').map(|text| parse(text, names)).collect());
    }
    if let Some(item) = text.strip_prefix("[]") {
        return Type::List(Box::new(parse(item, names)));
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Type::Map(Box::new(parse(value, names)));
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
        name => match (generated::types().get(name), names.binary_search(&name)) {
            (Some(data), Err(_)) => data.alias.map_or(Type::Any, |alias| parse(alias, names)),
            (_, Ok(index)) => Type::Object(DefinitionIndex(index)),
            (None, Err(_)) => Type::Any,
        },
    }
}
