use super::*;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerPort, LocalObjectReference};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Numbers {
    small: u8,
    port: u16,
    count: u32,
    big: u64,
    size: usize,
    signed: i32,
    long: i64,
    half: Option<i16>,
    ratio: f64,
}

#[test]
fn integers_are_signed_and_keep_their_limits() {
    let schema = of::<Numbers>();
    let of = |field: &str| schema["properties"][field].clone();
    assert_eq!(
        of("small"),
        json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 255})
    );
    assert_eq!(
        of("port"),
        json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535})
    );
    assert_eq!(
        of("count"),
        json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32})
    );
    for field in ["big", "size"] {
        assert_eq!(
            of(field),
            json!({"type": "integer", "format": "int64", "minimum": 0})
        );
    }
    assert_eq!(of("signed"), json!({"type": "integer", "format": "int32"}));
    assert_eq!(of("long"), json!({"type": "integer", "format": "int64"}));
    let half = json!({"type": "integer", "format": "int32", "minimum": -32768, "maximum": 32767});
    assert_eq!(of("half"), half);
    assert_eq!(of("ratio"), json!({"type": "number", "format": "double"}));
}

/// Two
/// lines.
#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "of the type"}]))]
struct Inner {
    /// A word.
    word: String,
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
enum Plain {
    One,
    Two,
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
enum Commented {
    /// The first.
    One,
    Two,
    /// The third.
    Three,
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
enum Single {
    /// The only one.
    Only,
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Outer {
    /// Overrides the type.
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "of the field"}]))]
    needed: Inner,
    wanted: Option<Inner>,
    #[schemars(default)]
    list: Vec<Inner>,
    map: Option<BTreeMap<String, Inner>>,
    #[schemars(default = "five", range(min = 0, max = 9))]
    number: i32,
    #[schemars(length(min = 1, max = 3), regex(pattern = "^a"))]
    text: Option<String>,
    #[schemars(extend("nullable" = true))]
    nothing: Option<String>,
    plain: Option<Plain>,
    commented: Commented,
    perhaps: Option<Commented>,
    single: Single,
}

fn five() -> i32 {
    5
}

#[test]
fn references_are_inlined_and_keywords_of_the_field_take_precedence() {
    let schema = of::<Outer>();
    let inner = |description: &str, rules: Value| {
        json!({
            "description": description, "type": "object", "required": ["word"],
            "properties": {"word": {"description": "A word.", "type": "string"}},
            "x-kubernetes-validations": rules,
        })
    };
    let alone = inner("Two lines.", json!([{"rule": "of the type"}]));
    let fields = &schema["properties"];
    let both = json!([{"rule": "of the type"}, {"rule": "of the field"}]);
    assert_eq!(fields["needed"], inner("Overrides the type.", both));
    assert_eq!(fields["wanted"], alone);
    assert_eq!(fields["list"], json!({"type": "array", "items": alone}));
    assert_eq!(
        fields["map"],
        json!({"type": "object", "additionalProperties": alone})
    );
    assert!(schema.get("additionalProperties").is_none(), "{schema}");
    assert!(!schema.to_string().contains('$'), "{schema}");
}

#[test]
fn optional_fields_are_not_required_and_not_nullable() {
    let schema = of::<Outer>();
    assert_eq!(schema["required"], json!(["needed", "commented", "single"]));
    let fields = &schema["properties"];
    assert_eq!(
        fields["number"],
        json!({"type": "integer", "format": "int32", "default": 5, "minimum": 0, "maximum": 9})
    );
    assert_eq!(
        fields["text"],
        json!({"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a"})
    );
    assert_eq!(fields["nothing"], json!({"type": "string", "nullable": true}));
    assert!(!schema.to_string().contains("\"null\""), "{schema}");
}

#[test]
fn variants_become_an_enum() {
    let schema = of::<Outer>();
    let fields = &schema["properties"];
    assert_eq!(fields["plain"], json!({"type": "string", "enum": ["One", "Two"]}));
    for field in ["commented", "perhaps"] {
        let mut values: Vec<&str> = fields[field]["enum"]
            .as_array()
            .expect("values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        assert_eq!(values, ["One", "Three", "Two"], "{field}");
        assert_eq!(fields[field]["type"], "string", "{field}");
    }
    assert_eq!(fields["single"]["enum"], json!(["Only"]));
    assert_eq!(fields["single"]["type"], "string");
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
struct Tree {
    branches: Vec<Tree>,
    other: Option<Box<Tree>>,
}

#[test]
fn recursive_type_becomes_an_object_with_unknown_fields() {
    let anything = json!({"type": "object", PRESERVE_UNKNOWN: true});
    let schema = of::<Tree>();
    assert_eq!(schema["properties"]["branches"]["items"], anything);
    assert_eq!(schema["properties"]["other"], anything);
}

#[expect(dead_code, reason = "only its schema is used")]
#[derive(JsonSchema)]
struct Kubernetes {
    /// Ours.
    port: ContainerPort,
    time: Option<Time>,
    amount: Quantity,
    either: IntOrString,
    fields: FieldsV1,
    anything: Value,
    secret: LocalObjectReference,
}

#[test]
fn kubernetes_types_lose_descriptions_and_gain_list_and_map_types() {
    let schema = of::<Kubernetes>();
    let fields = &schema["properties"];
    assert_eq!(fields["port"]["description"], "Ours.");
    assert_eq!(
        fields["port"]["properties"]["protocol"],
        json!({"type": "string", "default": "TCP"})
    );
    assert_eq!(fields["time"], json!({"type": "string", "format": "date-time"}));
    assert_eq!(fields["either"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(fields["amount"]["x-kubernetes-int-or-string"], true);
    assert!(fields["amount"]["pattern"].is_string());
    assert_eq!(
        fields["fields"],
        json!({"type": "object", PRESERVE_UNKNOWN: true})
    );
    assert_eq!(fields["anything"], json!({PRESERVE_UNKNOWN: true}));
    assert_eq!(fields["secret"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(fields["secret"]["required"], json!(["name"]));
}
