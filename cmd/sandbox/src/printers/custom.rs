//! The columns of custom resources: the name and the `additionalPrinterColumns` of the CRD.

use jiff::Timestamp;

use crate::json::{Number, Value, json};
use crate::printers::columns::definition;
use crate::printers::duration;
use crate::printers::jsonpath::JsonPath;
use crate::resource::PrinterColumn;

/// The columns of one CRD version, with parsed paths.
pub struct Columns {
    columns: Vec<(PrinterColumn, JsonPath)>,
}

impl Columns {
    /// Parses the columns of a CRD. Without columns, the table shows the age. Like the API server, it drops a column with a
    /// malformed path and all columns after it.
    pub fn new(columns: &[PrinterColumn]) -> Self {
        let age = [PrinterColumn {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".to_owned(),
        }];
        let columns = if columns.is_empty() { &age } else { columns };
        let columns = columns.iter().map_while(|column| {
            let path = JsonPath::parse(&column.json_path)?;
            Some((column.clone(), path))
        });
        Self {
            columns: columns.collect(),
        }
    }

    /// Returns the column definitions, with the name first.
    pub fn definitions(&self) -> Vec<Value> {
        let custom = self.columns.iter().map(|(column, _)| {
            let path = format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.json_path
            );
            let description = if column.description.is_empty() {
                &path
            } else {
                &column.description
            };
            definition(
                &column.name,
                &column.kind,
                &column.format,
                description,
                column.priority,
            )
        });
        let name = definition("Name", "string", "name", "", 0);
        std::iter::once(name).chain(custom).collect()
    }

    /// Returns the cells of one object.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object
            .pointer("/metadata/name")
            .cloned()
            .unwrap_or_else(|| json!(""));
        let custom = self.columns.iter().map(|(column, path)| {
            path.first(object)
                .and_then(|value| cell(&column.kind, value, now))
                .unwrap_or_default()
        });
        std::iter::once(name).chain(custom).collect()
    }
}

/// Formats a value for a column type. Returns `None` if the value has another type.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Option<Value> {
    match (kind, value) {
        ("string", value) => Some(Value::from(printed(value))),
        ("integer", Value::Number(number)) => Some(Value::from(whole(number)?)),
        ("number", Value::Number(number)) => Some(match number.as_f64() {
            // Go encodes 5.0 as 5.
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => Value::from(whole(number)?),
            _ => value.clone(),
        }),
        ("boolean", Value::Bool(_)) => Some(value.clone()),
        ("date", Value::String(text)) => Some(Value::from(match text.as_str() {
            "" | "null" => "<unknown>".to_owned(),
            _ => match duration::parse(Some(value)) {
                Some(_) => duration::since(Some(value), now),
                None => "<invalid>".to_owned(),
            },
        })),
        _ => None,
    }
}

/// Truncates a number to an integer.
fn whole(number: &Number) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "cutting off is what is asked for")]
    number
        .as_i64()
        .or_else(|| number.as_f64().map(|float| float as i64))
}

/// Formats any value as text. Lists and maps are JSON.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        // Go's JSON encoder escapes HTML characters, which occur only inside strings.
        Value::Array(_) | Value::Object(_) => value
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
        Value::Bool(_) => value.to_string(),
    }
}

/// Formats a float like Go: with an exponent if that is below -4 or above 5.
fn go_float(float: f64) -> String {
    let text = format!("{float:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{float}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: &str, json_path: &str) -> PrinterColumn {
        PrinterColumn {
            name: "C".to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: json_path.to_owned(),
        }
    }

    #[test]
    fn missing_value_is_null_and_default_column_is_age() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let object = json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(
            Columns::new(&[column("string", ".no")]).cells(&object, now),
            [json!("n"), json!(null)]
        );
        let none = Columns::new(&[]);
        assert_eq!(none.cells(&object, now), [json!("n"), json!("5m")]);
        let heads: Vec<Value> = none
            .definitions()
            .iter()
            .map(|d| json!([d["name"], d["type"]]))
            .collect();
        assert_eq!(heads, [json!(["Name", "string"]), json!(["Age", "date"])]);
    }

    #[test]
    fn malformed_column_path_drops_later_columns() {
        let columns = Columns::new(&[
            column("string", ".a"),
            column("string", "oops"),
            column("string", ".b"),
        ]);
        assert_eq!(columns.definitions().len(), 2);
    }
}
