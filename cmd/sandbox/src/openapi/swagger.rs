//! The protobuf encoding of the `OpenAPI` version 2 document, which `kubectl` requests.
//!
//! Without this document, `kubectl apply` fails up to version 1.28, and `kubectl explain` up to version 1.26. The encoder
//! is written by hand, because only a few messages are needed; it omits fields that clients do not read.

use crate::json::Value;

/// The field numbers of operations in a path item, by method.
const METHODS: [(&str, u64); 5] = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];

/// Encodes the JSON document of `/openapi/v2` as protobuf.
#[must_use]
pub fn openapi_v2_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, str_of(&document["swagger"]));
    out.message(2, |info| {
        info.text(1, str_of(&document["info"]["title"]));
        info.text(2, str_of(&document["info"]["version"]));
    });
    out.message(8, |paths| {
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            paths.message(2, |named| {
                named.text(1, path);
                named.message(2, |out| path_item(item, out));
            });
        }
    });
    out.message(9, |definitions| {
        for (name, definition) in document["definitions"].as_object().into_iter().flatten() {
            definitions.message(1, |out| named_schema(name, definition, out));
        }
    });
    out.0
}

fn named_schema(name: &str, value: &Value, out: &mut Message) {
    out.text(1, name);
    out.message(2, |out| schema(value, out));
}

fn schema(value: &Value, out: &mut Message) {
    let texts = [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")];
    for (field, key) in texts {
        if let Some(text) = value[key].as_str() {
            out.text(field, text);
        }
    }
    for name in value["required"].as_array().into_iter().flatten() {
        out.text(19, str_of(name));
    }
    match &value["additionalProperties"] {
        below @ Value::Object(_) => out.message(21, |item| item.message(1, |out| schema(below, out))),
        Value::Bool(any) => out.message(21, |item| item.flag(2, *any)),
        _ => {}
    }
    if let Some(kind) = value["type"].as_str() {
        out.message(22, |item| item.text(1, kind));
    }
    if value["items"].is_object() {
        out.message(23, |items| items.message(1, |out| schema(&value["items"], out)));
    }
    if let Some(properties) = value["properties"].as_object() {
        out.message(25, |out| {
            for (name, below) in properties {
                out.message(1, |out| named_schema(name, below, out));
            }
        });
    }
    for (key, extension) in value.as_object().into_iter().flatten() {
        if key.starts_with("x-") {
            out.message(31, |out| named_any(key, extension, out));
        }
    }
}

/// Encodes an extension. Its value is YAML, and JSON is a subset of YAML.
fn named_any(name: &str, value: &Value, out: &mut Message) {
    out.text(1, name);
    out.message(2, |any| any.text(2, &value.to_string()));
}

fn path_item(item: &Value, out: &mut Message) {
    for (method, field) in METHODS {
        let Some(operation) = item.get(method) else {
            continue;
        };
        out.message(field, |out| {
            for media_type in operation["consumes"].as_array().into_iter().flatten() {
                out.text(7, str_of(media_type));
            }
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
                // Encodes `ParametersItem` > `Parameter` > `NonBodyParameter` > query parameter.
                out.bytes(8, &query(parameter).within(3).within(2).within(1).0);
            }
            let gvk = "x-kubernetes-group-version-kind";
            out.message(13, |out| named_any(gvk, &operation[gvk], out));
        });
    }
}

fn query(parameter: &Value) -> Message {
    let mut out = Message::default();
    out.text(2, "query");
    out.text(4, str_of(&parameter["name"]));
    out.text(6, str_of(&parameter["type"]));
    out
}

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A protobuf message under construction. All fields except flags have wire type 2: length, then bytes.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn flag(&mut self, field: u64, flag: bool) {
        self.varint(field << 3);
        self.varint(u64::from(flag));
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Returns a message with this message as its only field.
    fn within(self, field: u64) -> Self {
        let mut outer = Self::default();
        outer.bytes(field, &self.0);
        outer
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends a varint: groups of seven bits, lowest first, with a continuation bit on all but the last.
    fn varint(&mut self, mut number: u64) {
        while let more @ 1.. = number >> 7 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number = more;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn document_is_encoded_as_nested_messages() {
        let operation =
            json!({"consumes": ["*/*"], "parameters": [{"name": "q", "in": "query", "type": "string"}]});
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "T", "version": "v"},
            "paths": {"/p": {"patch": operation}},
            "definitions": {"D": {"additionalProperties": true, "required": ["f"], "x-k": 1}},
        });
        let gvk = b"x-kubernetes-group-version-kind";
        let query = b"\x42\x18\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string";
        let operation = [
            &b"\x3a\x03*/*"[..],
            query,
            b"\x6a\x29\x0a\x1f",
            gvk,
            b"\x12\x06\x12\x04null",
        ]
        .concat();
        let expected = [
            &b"\x0a\x032.0\x12\x06\x0a\x01T\x12\x01v\x42\x54\x12\x52\x0a\x02/p\x12\x4c\x42\x4a"[..],
            &operation,
            b"\x4a\x1d\x0a\x1b\x0a\x01D\x12\x16\x9a\x01\x01f\xaa\x01\x02\x10\x01",
            b"\xfa\x01\x0a\x0a\x03x-k\x12\x03\x12\x011",
        ];
        assert_eq!(openapi_v2_protobuf(&document), expected.concat());
    }
}
