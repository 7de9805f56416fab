//! Decoding of the objects of a request. Errors name the position of the invalid value and never quote a value.

use std::fmt;

use serde::de::DeserializeOwned;

/// A longer key of an object is truncated in a path.
const KEY_BYTES_MAX: usize = 256;

/// The position of a value that does not decode. Its text never quotes the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The path of the field that is invalid, or that lacks a required field; empty for the object itself.
    path: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid value or missing field")?;
        if !self.path.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for DecodeError {}

pub(in crate::webhook) fn decode<K: DeserializeOwned>(text: &str) -> Result<K, DecodeError> {
    serde_json::from_str(text).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let end = lines.map(str::len).sum::<usize>() + error.column();
        DecodeError {
            path: path_at(&text.as_bytes()[..end.min(text.len())]),
        }
    })
}

/// An object or array that is being read.
enum Frame {
    /// The present key. The flag says whether the next string is a key.
    Object(String, bool),
    Array(usize),
}

/// Returns the path of the last value in the beginning of a JSON text.
fn path_at(text: &[u8]) -> String {
    let mut frames: Vec<Frame> = Vec::new();
    let mut string: Option<Vec<u8>> = None;
    let mut is_escaped = false;
    for &byte in text {
        if let Some(content) = &mut string {
            if byte == b'"' && !is_escaped {
                if let Some(Frame::Object(key, is_next @ true)) = frames.last_mut() {
                    *key = String::from_utf8_lossy(content).into_owned();
                    *is_next = false;
                }
                string = None;
            } else {
                if content.len() < KEY_BYTES_MAX {
                    content.push(byte);
                }
                is_escaped = byte == b'\\' && !is_escaped;
            }
            continue;
        }
        match byte {
            b'"' => string = Some(Vec::new()),
            b'{' => frames.push(Frame::Object(String::new(), true)),
            b'[' => frames.push(Frame::Array(0)),
            b'}' | b']' => drop(frames.pop()),
            b',' => match frames.last_mut() {
                Some(Frame::Object(key, is_next)) => (*key, *is_next) = (String::new(), true),
                Some(Frame::Array(index)) => *index += 1,
                None => {}
            },
            _ => {}
        }
    }
    let mut path = String::new();
    for frame in frames {
        match frame {
            Frame::Object(key, _) if key.is_empty() => {}
            Frame::Object(key, _) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
            }
            Frame::Array(index) => path.extend(["[", &index.to_string(), "]"]),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    /// Decodes a value from both of its forms, in one line and in several.
    fn decode<K: DeserializeOwned>(object: &Value) -> Result<K, DecodeError> {
        let lines = serde_json::to_string_pretty(object).expect("text");
        let (one, other) = (
            super::decode::<K>(&object.to_string()),
            super::decode::<K>(&lines),
        );
        assert_eq!(one.as_ref().err(), other.as_ref().err(), "{lines}");
        one
    }

    fn pod(change: impl Fn(&mut Value)) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"a\"}": "b,{\\"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 1}]}]},
        });
        change(&mut pod);
        pod
    }

    #[test]
    fn position_of_an_invalid_value_is_its_path() {
        decode::<Pod>(&pod(|_| {})).expect("a pod");
        let ports = "/spec/containers/1/ports/0/containerPort";
        for (pointer, value, path) in [
            (
                ports,
                json!("hunter2"),
                "spec.containers[1].ports[0].containerPort",
            ),
            (
                ports,
                json!({"hunter2": 1}),
                "spec.containers[1].ports[0].containerPort",
            ),
            (
                ports,
                json!(["hunter2"]),
                "spec.containers[1].ports[0].containerPort",
            ),
            (ports, json!(1.5), "spec.containers[1].ports[0].containerPort"),
            ("/spec/containers/0", json!("hunter2"), "spec.containers[0]"),
            ("/spec", json!(7), "spec"),
            ("/metadata/labels/a\"}", json!(7), "metadata.labels.a\\\"}"),
            ("/kind", json!("hunter2"), "kind"),
            ("", json!("hunter2"), ""),
        ] {
            let invalid = pod(|pod| *pod.pointer_mut(pointer).expect("a field") = value.clone());
            assert_eq!(decode::<Pod>(&invalid).expect_err(pointer).path, path, "{value}");
        }
    }

    #[test]
    fn position_of_a_missing_field_is_its_object() {
        #[derive(Debug, serde::Deserialize)]
        struct Boat {
            #[expect(dead_code, reason = "only decoded")]
            spec: BoatSpec,
        }
        #[derive(Debug, serde::Deserialize)]
        struct BoatSpec {
            #[expect(dead_code, reason = "only decoded")]
            oars: u32,
        }
        assert_eq!(
            decode::<Boat>(&json!({"spec": {"a": 1}, "z": 1}))
                .expect_err("no oars")
                .path,
            "spec"
        );
        assert_eq!(
            decode::<Boat>(&json!({"a": {"b": 1}})).expect_err("no spec").path,
            ""
        );
        assert_eq!(decode::<Boat>(&Value::Null).expect_err("no object").path, "");
    }
    #[test]
    fn long_key_is_truncated_in_the_path() {
        let labels = json!({"metadata": {"labels": {"a".repeat(1000): 7}}});
        let path = format!("metadata.labels.{}", "a".repeat(KEY_BYTES_MAX));
        assert_eq!(decode::<Pod>(&labels).expect_err("a number").path, path);
    }
}
