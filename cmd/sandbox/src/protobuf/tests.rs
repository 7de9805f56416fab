//! Bodies as a client writes them, built by hand.

use proptest::prelude::*;

use super::*;

/// A length-delimited field.
fn part(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short enough for one byte");
    assert!(length < 0x80);
    [&[number << 3 | 2, length], content].concat()
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
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
fn reads_lists_numbers_and_int_or_string_and_skips_the_status() {
    let port = [number(3, 80), part(4, &[number(1, 0), number(2, 8)].concat())].concat();
    let named = [number(3, 81), part(4, &[number(1, 1), part(3, b"web")].concat())].concat();
    let spec = [part(1, &port), part(1, &named), part(3, b"None")].concat();
    let raw = [part(2, &spec), part(3, &part(9, b"whatever"))].concat();
    let ports = json!([{"port": 80, "targetPort": 8}, {"port": 81, "targetPort": "web"}]);
    let expected =
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports, "clusterIP": "None"}});
    assert_eq!(decode(&body("v1", "Service", &raw), ("", "")), Ok(expected));
}

#[test]
fn a_field_that_is_not_in_the_table_is_an_error() {
    let unknown = decode(&body("v1", "ConfigMap", &part(15, b"x")), ("", ""));
    assert_eq!(
        unknown,
        Err(ProtobufError::Unknown("field 15 of core.v1.ConfigMap".to_owned()))
    );
    let unknown = decode(&body("v1", "Node", &part(1, b"x")), ("", ""));
    assert_eq!(
        unknown,
        Err(ProtobufError::Unknown("field 1 of core.v1.Node".to_owned()))
    );
    assert!(decode(&body("x/v1", "Boat", b""), ("", "")).is_err());
}

#[test]
fn the_table_names_fields_that_the_schema_has() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("policy/v1", "Eviction"),
    ] {
        let schema = schema::builtin(api_version, kind).expect("a built-in kind");
        let known: Vec<_> = (1..20)
            .filter_map(|n| numbers::name(schema.short_name(), n))
            .collect();
        assert!(known.len() >= 2, "{kind}");
        assert!(
            known.iter().all(|name| schema.field(name).is_some()),
            "{kind}: {known:?}"
        );
    }
}

proptest! {
    #[test]
    fn garbage_is_refused_or_read_but_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&[MAGIC, &bytes].concat(), ("v1", "ConfigMap"));
        let _ = decode(&body("v1", "ConfigMap", &bytes[..bytes.len().min(90)]), ("", ""));
    }
}
