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
fn reads_maps_bytes_and_the_zero_time() {
    let meta = [part(1, b"keys"), part(8, b"")].concat();
    let entry = [part(1, b"k"), part(2, b"v")].concat();
    let raw = [part(1, &meta), part(2, &entry), part(3, b"Opaque")].concat();
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"k": "dg=="}, "type": "Opaque"});
    assert_eq!(decode(&body("v1", "Secret", &raw), ("", "")), Ok(expected));
}

#[test]
fn reads_lists_numbers_and_int_or_string() {
    let port = [number(3, 80), part(4, &[number(1, 0), number(2, 8)].concat())].concat();
    let named = [number(3, 81), part(4, &[number(1, 1), part(3, b"web")].concat())].concat();
    let spec = [part(1, &port), part(1, &named), part(3, b"None")].concat();
    let ports = json!([{"port": 80, "targetPort": 8}, {"port": 81, "targetPort": "web"}]);
    let expected =
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports, "clusterIP": "None"}});
    assert_eq!(
        decode(&body("v1", "Service", &part(2, &spec)), ("", "")),
        Ok(expected)
    );
}

#[test]
fn reads_inlined_structs() {
    let volume = [part(1, b"v"), part(2, &part(19, &part(1, &part(1, b"settings"))))].concat();
    let pod = body("v1", "Pod", &part(2, &part(1, &volume)));
    let volumes = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    assert_eq!(decode(&pod, ("", "")).expect("read")["spec"]["volumes"], volumes);
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
fn unknown_kind_is_rejected_and_unknown_field_is_skipped() {
    let newer = decode(&body("v1", "ConfigMap", &part(15, b"x")), ("", ""));
    assert_eq!(newer, Ok(json!({"apiVersion": "v1", "kind": "ConfigMap"})));
    let unknown = decode(&body("x/v1", "Boat", b""), ("", ""));
    assert_eq!(unknown, Err(ProtobufError::Unknown("x/v1 Boat".to_owned())));
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
