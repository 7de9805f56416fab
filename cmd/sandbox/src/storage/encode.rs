//! JSON encoding of objects.

use std::ops::Range;

use crate::json::{Text, Value, encode as write, encode_key as key};

/// Encodes an object as JSON without `apiVersion` and `kind`. Returns also the position of the text of
/// `metadata.resourceVersion`, empty if there is none.
pub(super) fn object(object: &Value) -> (Vec<u8>, Range<usize>) {
    let mut out = Vec::with_capacity(2048);
    let mut version = 0..0;
    members(
        &mut out,
        object.as_object().into_iter().flatten(),
        |out, name, value| match (name, value) {
            ("apiVersion" | "kind", _) => false,
            ("metadata", Value::Object(metadata)) => {
                key(out, name);
                members(out, metadata, |out, name, value| {
                    key(out, name);
                    let start = out.len() + 1;
                    write(out, value);
                    if name == "resourceVersion" {
                        version = start..out.len() - 1;
                    }
                    true
                });
                true
            }
            _ => {
                key(out, name);
                write(out, value);
                true
            }
        },
    );
    (out, version)
}

/// Appends the members of an object, those for which `member` returns `true` after it has appended them.
fn members<'m>(
    out: &mut Vec<u8>,
    map: impl IntoIterator<Item = (&'m Text, &'m Value)>,
    mut member: impl FnMut(&mut Vec<u8>, &str, &Value) -> bool,
) {
    out.push(b'{');
    let start = out.len();
    for (name, value) in map {
        if member(out, name, value) {
            out.push(b',');
        }
    }
    if out.len() > start {
        out.pop();
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn encoding_is_that_of_serde_json() {
        let all = json!({
            "a": [null, true, false, 1, -2, 1.5, u64::MAX, [], {}, {"b": []}],
            "text": "plain, ä, \u{1f600}, \u{7f}",
            "escaped \"key\"": "quote \" backslash \\ line\n tab\t bell\u{7}",
            "metadata": {"name": "x", "annotations": {"resourceVersion": "7"}, "resourceVersion": "12"},
        });
        let mut out = Vec::new();
        write(&mut out, &all);
        assert_eq!(String::from_utf8_lossy(&out), all.to_string());
        let (json, version) = object(&all);
        assert_eq!(json, out);
        assert_eq!(json.get(version), Some(&b"12"[..]));
    }

    #[test]
    fn type_is_omitted_and_version_may_be_absent() {
        let (json, version) = object(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}));
        assert_eq!((json.as_slice(), version), (&br#"{"metadata":{}}"#[..], 0..0));
        let (json, _) = object(&json!({"apiVersion": "v1", "kind": "Pod"}));
        assert_eq!(json, b"{}");
    }
}
