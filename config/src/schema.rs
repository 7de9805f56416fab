//! The JSON schema of the configuration file, generated from the definitions of the flags.

use clap::Arg;
use clap::builder::PossibleValue;
use serde_json::{Value, json};

use crate::effective::{API_VERSION, KIND, value};
use crate::flags::{command, help_of, is_field, value_name};
use crate::kind::Kind;
use crate::selector::KnownController;

/// A duration in Go's syntax.
const DURATION: &str = r"^[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";
/// A text without commas, which separate the items of the flag.
const ITEM: &str = "^[^,]+$";

/// Returns the JSON schema (draft 2020-12) of the configuration file.
#[must_use]
pub fn schema(known: &[KnownController]) -> String {
    let constant = |value: &str| json!({"type": "string", "const": value});
    let mut schema = object("Configuration of steersman. Flags override its fields.");
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = KIND.into();
    schema["required"] = json!(["apiVersion", "kind"]);
    schema["properties"]["apiVersion"] = constant(API_VERSION);
    schema["properties"]["kind"] = constant(KIND);
    for arg in command(known).get_arguments() {
        let id = arg.get_id().as_str();
        let Some((groups, name)) = id.rsplit_once('.').filter(|_| is_field(id)) else {
            continue;
        };
        let heading = arg.get_help_heading().unwrap_or_default();
        let mut parent = &mut schema;
        for group in groups.split('.') {
            parent = &mut parent["properties"][group];
            if parent.is_null() {
                let subject = heading.strip_suffix(" flags").unwrap_or(heading);
                *parent = object(&format!("{subject}."));
            }
        }
        parent["properties"][name] = field(arg);
    }
    format!("{schema:#}\n")
}

fn object(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": false,
        "properties": {},
    })
}

fn field(arg: &Arg) -> Value {
    let kind = Kind::of(arg);
    let mut field = match kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Integer if value_name(arg) == "PORT" => {
            json!({"type": "integer", "minimum": 0, "maximum": 65535})
        }
        Kind::Integer => json!({"type": "integer"}),
        Kind::Number => json!({"type": "number", "exclusiveMinimum": 0}),
        Kind::Duration => json!({"type": "string", "pattern": DURATION}),
        Kind::Text => json!({"type": "string"}),
        Kind::List => json!({"type": "array", "items": {"type": "string", "pattern": ITEM}}),
        Kind::Repeated => json!({"type": "array", "items": {"type": "string", "minLength": 1}}),
    };
    field["description"] = format!("{}.", help_of(arg)).into();
    let names = arg.get_possible_values();
    if kind == Kind::Text && !names.is_empty() {
        field["enum"] = names.iter().map(PossibleValue::get_name).collect();
    }
    let default = arg
        .get_default_values()
        .first()
        .map(|text| text.to_string_lossy());
    if let Some(text) = default.filter(|text| !text.is_empty()) {
        let items = match kind {
            Kind::List => text.split(',').map(str::to_owned).collect(),
            _ => vec![text.into_owned()],
        };
        field["default"] = value(kind, items).unwrap_or_default();
    }
    field
}
