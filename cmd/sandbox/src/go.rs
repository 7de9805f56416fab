//! Values as Go prints them (`%v` and `%T`): some messages of the server are made so, and clients show them.

use serde_json::Value;

/// The value.
#[must_use]
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", shown(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The type of the value.
#[must_use]
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{shown, type_of};

    #[test]
    fn as_go_does() {
        let value = json!({"b": [1, "x", null], "a": {"c": true}});
        assert_eq!(shown(&value), "map[a:map[c:true] b:[1 x <nil>]]");
        assert_eq!(type_of(&value), "map[string]interface {}");
        assert_eq!((type_of(&json!(1)), type_of(&json!(1.5))), ("int64", "float64"));
    }
}
