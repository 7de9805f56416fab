//! Values as the server prints them in its messages.

use std::fmt::Write;

use serde_json::Value;

/// The JSON type of a value, as decoding errors name it.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type of a decoded value, as merge errors name it.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `map[a:1 b:[x y]]`
pub(super) fn go_value(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

/// A value where only a text is expected: `a`, but `%!s(int64=1)`.
pub(super) fn go_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={value})", go_type(value)),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(go_text).collect();
            format!("[{}]", values.join(" "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// `[a b]`
pub(super) fn go_list(values: &[Value]) -> String {
    let mut out = String::new();
    write_list(values, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "{value}");
        }
        Value::Array(values) => write_list(values, out),
        Value::Object(map) => {
            out.push_str("map[");
            for (n, (key, value)) in map.iter().enumerate() {
                if n > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_value(value, out);
            }
            out.push(']');
        }
    }
}

fn write_list(values: &[Value], out: &mut String) {
    out.push('[');
    for (n, value) in values.iter().enumerate() {
        if n > 0 {
            out.push(' ');
        }
        write_value(value, out);
    }
    out.push(']');
}
