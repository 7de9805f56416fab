//! Tests with request bodies that are encoded by hand.

use proptest::prelude::*;

use super::*;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}

/// Encodes a length-delimited field.
fn part(number: u64, content: &[u8]) -> Vec<u8> {
    [
        &varint(number << 3 | 2)[..],
        &varint(content.len() as u64),
        content,
    ]
    .concat()
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), part(1, &meta), part(2, raw)].concat()
}

#[test]
fn reads_lists_in_maps_and_raw_json() {
    let entry = [part(1, b"k"), part(2, &[part(1, b"a"), part(1, b"b")].concat())].concat();
    let review = body(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        &part(2, &part(5, &entry)),
    );
    assert_eq!(
        decode(&review, ("", "")).expect("read")["spec"]["extra"],
        json!({"k": ["a", "b"]})
    );
    let revision = body(
        "apps/v1",
        "ControllerRevision",
        &part(2, &part(1, br#"{"a":[1]}"#)),
    );
    assert_eq!(
        decode(&revision, ("", "")).expect("read")["data"],
        json!({"a": [1]})
    );
    let wrong = body("apps/v1", "ControllerRevision", &part(2, &part(1, b"{")));
    assert!(matches!(
        decode(&wrong, ("", "")),
        Err(ProtobufError::Malformed(_))
    ));
}

/// Only CRD schemas contain floating-point numbers, alternatives and raw JSON.
#[test]
fn reads_crd_schema() {
    let maximum = [varint(9 << 3 | 1), 2.5_f64.to_le_bytes().to_vec()].concat();
    let number_type = [part(5, b"number"), maximum, part(8, &part(1, b"7"))].concat();
    let text_type = part(5, b"string");
    let property = |name: &[u8], schema: &[u8]| part(29, &[part(1, name), part(2, schema)].concat());
    let schema = [
        property(b"items", &part(24, &part(1, &number_type))),
        property(
            b"listed",
            &part(24, &[part(2, &text_type), part(2, &text_type)].concat()),
        ),
        property(b"any", &part(30, &number(1, 1))),
        property(b"texts", &part(30, &[number(1, 1), part(2, &text_type)].concat())),
        property(
            b"needs",
            &part(32, &[part(1, b"a"), part(2, &part(2, b"b"))].concat()),
        ),
        number(38, 1),
    ]
    .concat();
    let version = [part(4, &part(1, &schema)), part(5, &part(1, b""))].concat();
    let crd = body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &part(2, &part(7, &version)),
    );
    let read = decode(&crd, ("", "")).expect("read");
    assert_eq!(
        read["spec"]["versions"],
        json!([{
            "schema": {"openAPIV3Schema": {
                "properties": {
                    "items": {"items": {"type": "number", "maximum": 2.5, "default": 7}},
                    "listed": {"items": [{"type": "string"}, {"type": "string"}]},
                    "any": {"additionalProperties": true},
                    "texts": {"additionalProperties": {"type": "string"}},
                    "needs": {"dependencies": {"a": ["b"]}},
                },
                "x-kubernetes-preserve-unknown-fields": true,
            }},
            "subresources": {"status": {}},
        }])
    );
}

#[test]
fn deeply_nested_message_is_rejected() {
    // The field `not` of a schema is a schema.
    let nested = |depth: usize| {
        let (mut headers, mut length) = (Vec::new(), 0);
        for _ in 0..depth {
            let header = [varint(28 << 3 | 2), varint(length)].concat();
            length += header.len() as u64;
            headers.push(header);
        }
        let schema = headers.into_iter().rev().flatten().collect::<Vec<u8>>();
        let version = part(4, &part(1, &schema));
        body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &part(2, &part(7, &version)),
        )
    };
    assert!(decode(&nested(100), ("", "")).is_ok());
    for depth in [128, 500_000] {
        assert_eq!(decode(&nested(depth), ("", "")), Err(TOO_DEEP), "{depth}");
    }
    let json = format!("{}{}", "[".repeat(126), "]".repeat(126));
    let revision = body(
        "apps/v1",
        "ControllerRevision",
        &part(2, &part(1, json.as_bytes())),
    );
    assert!(decode(&revision, ("", "")).is_ok());
    let json = format!("[{json}]");
    let revision = body(
        "apps/v1",
        "ControllerRevision",
        &part(2, &part(1, json.as_bytes())),
    );
    assert_eq!(decode(&revision, ("", "")), Err(TOO_DEEP));
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&[MAGIC, &bytes].concat(), ("v1", "ConfigMap"));
        let _ = decode(&body("v1", "Pod", &bytes), ("", ""));
        let crd = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &part(2, &part(7, &part(4, &part(1, &bytes)))));
        let _ = decode(&crd, ("", ""));
    }
}
