use super::*;

fn object(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")}, "spec": spec})
}

fn validate(new: &Value, old: Option<&Value>, has_default_image: bool) -> Result<(), Vec<FieldError>> {
    let old = old.map(|it| it.clone().into());
    super::validate(&new.clone().into(), old.as_ref(), has_default_image)
}

fn default_patch(object: &Value) -> Vec<Value> {
    super::default_patch(&object.clone().into())
}

fn app(name: &str, spec: &Value) -> AppService {
    serde_json::from_value(object(name, spec)).expect("an AppService")
}

/// Returns path and reason of each error.
fn errors(name: &str, spec: &Value) -> Vec<(String, &'static str)> {
    let errors = validate_spec(&app(name, spec));
    errors.into_iter().map(|it| (it.field, it.reason)).collect()
}

#[test]
fn valid_specs_are_accepted() {
    let name = "a".repeat(63);
    for spec in [
        json!({"deploymentName": "web", "replicas": 2}),
        json!({"deploymentName": "1-a", "replicas": 0, "image": "r.io/a/b:1", "deletionPolicy": "Orphan"}),
        json!({"deploymentName": name, "ports": [{"port": 80}]}),
        json!({"deploymentName": "a", "ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}, {"port": 65535, "name": "max"}]}),
        // Two ports may have the same targetPort.
        json!({"deploymentName": "a", "ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": 8080}]}),
    ] {
        assert_eq!(errors("shop", &spec), [], "{spec}");
    }
    assert_eq!(
        errors("1.2", &json!({"deploymentName": "a"})),
        [],
        "no Service is created"
    );
}

#[test]
fn invalid_fields_are_reported_by_path() {
    let ports = |ports: Value| json!({"deploymentName": "a", "ports": ports});
    #[rustfmt::skip]
    let table = [
        (json!({}), "spec.deploymentName", "FieldValueRequired"),
        (json!({"deploymentName": "Web"}), "spec.deploymentName", "FieldValueInvalid"),
        (json!({"deploymentName": "a.b"}), "spec.deploymentName", "FieldValueInvalid"),
        (json!({"deploymentName": "-a"}), "spec.deploymentName", "FieldValueInvalid"),
        (json!({"deploymentName": "a".repeat(64)}), "spec.deploymentName", "FieldValueInvalid"),
        (json!({"deploymentName": "a", "replicas": -1}), "spec.replicas", "FieldValueInvalid"),
        (json!({"deploymentName": "a", "replicas": 2_147_483_648_i64}), "spec.replicas", "FieldValueInvalid"),
        (json!({"deploymentName": "a", "image": "a b"}), "spec.image", "FieldValueInvalid"),
        (json!({"deploymentName": "a", "image": ""}), "spec.image", "FieldValueInvalid"),
        (json!({"deploymentName": "a", "deletionPolicy": "Keep"}), "spec.deletionPolicy", "FieldValueNotSupported"),
        (ports(json!([{"port": 0}])), "spec.ports[0].port", "FieldValueInvalid"),
        (ports(json!([{"port": 65536}])), "spec.ports[0].port", "FieldValueInvalid"),
        (ports(json!([{"port": 80, "targetPort": -1}])), "spec.ports[0].targetPort", "FieldValueInvalid"),
        (ports(json!([{"port": 80, "protocol": "tcp"}])), "spec.ports[0].protocol", "FieldValueNotSupported"),
        (ports(json!([{"port": 80, "name": "a--b"}])), "spec.ports[0].name", "FieldValueInvalid"),
        (ports(json!([{"port": 80, "name": "80"}])), "spec.ports[0].name", "FieldValueInvalid"),
        (ports(json!([{"port": 80, "name": "a-long-port-name"}])), "spec.ports[0].name", "FieldValueInvalid"),
        (ports(json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}])), "spec.ports[1].port", "FieldValueDuplicate"),
        (ports(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}])), "spec.ports[1].name", "FieldValueDuplicate"),
        (ports(json!([{"port": 80, "name": "tcp-81"}, {"port": 81}])), "spec.ports[1].name", "FieldValueDuplicate"),
    ];
    for (spec, field, reason) in table {
        assert_eq!(errors("shop", &spec), [(field.to_owned(), reason)], "{spec}");
    }
    for name in ["1a", "a.b", "a-"] {
        let spec = ports(json!([{"port": 80}]));
        assert_eq!(
            errors(name, &spec),
            [("metadata.name".to_owned(), "FieldValueInvalid")],
            "{name}"
        );
    }
    let long = "a".repeat(64);
    assert_eq!(
        errors(&long, &json!({"deploymentName": "a"}))[0].0,
        "metadata.name"
    );
}

#[test]
fn unchanged_or_terminating_appservice_is_valid() {
    let bad = object("a", &json!({"deploymentName": "web", "replicas": -1}));
    assert!(validate(&bad, None, true).is_err());
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert!(validate(&labelled, Some(&bad), true).is_ok(), "unchanged spec");
    let mut terminating = object("a", &json!({"deploymentName": "WEB"}));
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(validate(&terminating, Some(&bad), true).is_ok());
    let malformed = validate(&object("a", &json!({"deploymentName": 3})), None, true);
    assert_eq!(malformed.expect_err("an error")[0].field, "spec");
}

#[test]
fn unset_fields_are_defaulted() {
    let defaulted = |spec: &Value| {
        let mut object = object("a", spec);
        for operation in default_patch(&object.clone()) {
            assert_eq!(operation["op"], "add");
            let path = operation["path"].as_str().expect("a path");
            let (parent, field) = path.rsplit_once('/').expect("a field");
            object.pointer_mut(parent).expect("its parent")[field] = operation["value"].clone();
        }
        object["spec"].clone()
    };
    let all = defaulted(&json!({"deploymentName": "web"}));
    assert_eq!(all, json!({"deploymentName": "web", "deletionPolicy": "Delete"}));
    assert_eq!(defaulted(&all), all, "idempotent");
    let ports = defaulted(&json!({"deploymentName": "web", "ports": [{"port": 80}]}));
    assert_eq!(
        ports["ports"],
        json!([{"port": 80, "targetPort": 80, "protocol": "TCP"}])
    );
    let two = json!({"deploymentName": "web", "ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "name": "dns"}]});
    let expected = json!([{"port": 80, "targetPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                          {"port": 53, "targetPort": 53, "protocol": "UDP", "name": "dns"}]);
    assert_eq!(defaulted(&two)["ports"], expected);
    for malformed in [
        json!(null),
        json!("x"),
        json!({"deploymentName": "a", "ports": [3]}),
        json!({"ports": {}}),
    ] {
        defaulted(&malformed);
    }
}

#[test]
fn defaults_do_not_change_the_children() {
    let spec = json!({"deploymentName": "web", "ports": [{"port": 80}, {"port": 81}]});
    let mut object = object("a", &spec);
    for operation in default_patch(&object.clone()) {
        let path = operation["path"].as_str().expect("a path");
        let (parent, field) = path.rsplit_once('/').expect("a field");
        object.pointer_mut(parent).expect("its parent")[field] = operation["value"].clone();
    }
    let defaulted: AppService = serde_json::from_value(object).expect("an AppService");
    let plain = app("a", &spec);
    assert_eq!(
        crate::appservice::desired::deployment(&plain),
        crate::appservice::desired::deployment(&defaulted)
    );
    assert_eq!(
        crate::appservice::desired::service(&plain),
        crate::appservice::desired::service(&defaulted)
    );
}

#[test]
fn too_many_ports_are_one_error() {
    let many = |count: u16| {
        let ports: Vec<_> = (1..=count).map(|port| json!({"port": port})).collect();
        json!({"deploymentName": "a", "ports": ports})
    };
    assert_eq!(errors("shop", &many(100)), []);
    let error = FieldError {
        field: "spec.ports".to_owned(),
        reason: "FieldValueTooMany",
        message: "Too many: 101: must have at most 100 items".to_owned(),
    };
    let object = object("shop", &many(101));
    assert_eq!(validate(&object, None, true), Err(vec![error.clone()]));
    assert_eq!(default_patch(&object), [] as [Value; 0]);
    // The controller validates objects of an API server without the schema.
    assert_eq!(validate_spec(&app("shop", &many(101))), [error]);
}

#[test]
fn object_or_spec_that_is_not_one_json_object_is_rejected() {
    for (object, field) in [
        (r#"{"spec":["a",1,"i",[[],[]]]}"#, "spec"),
        (r#"[{},{"deploymentName":"a"}]"#, ""),
        (r#"{"spec":{"deploymentName":"a"},"spec":0}"#, "spec"),
        (r#"{"spec":{"deploymentName":"a","ports":[],"ports":[]}}"#, "spec"),
        (r#"{"spec":"a"}"#, "spec"),
        ("null", ""),
    ] {
        let raw: RawObject = serde_json::from_str(object).expect("JSON");
        let errors = super::validate(&raw, None, true).expect_err(object);
        let found: Vec<_> = errors.iter().map(|it| (&*it.field, it.reason)).collect();
        assert_eq!(found, [(field, "FieldValueInvalid")], "{object}");
        assert_eq!(super::default_patch(&raw), [] as [Value; 0], "{object}");
    }
    for unset in [
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a"},"spec":null}"#,
    ] {
        let raw: RawObject = serde_json::from_str(unset).expect("JSON");
        let errors = super::validate(&raw, None, true).expect_err(unset);
        assert_eq!(errors[0].reason, "FieldValueRequired", "{unset}");
    }
}

#[test]
fn texts_that_are_too_long_are_rejected() {
    let error = |object: &Value| {
        let errors = validate(object, None, true).err().unwrap_or_default();
        errors.into_iter().map(|it| (it.field, it.reason)).next()
    };
    let long = Some(("spec".to_owned(), "FieldValueTooLong"));
    for field in ["deploymentName", "ports", "unknown"] {
        let spec = |bytes: usize| {
            let value = if field == "ports" {
                json!(vec![json!({}); bytes / 3])
            } else {
                json!("a".repeat(bytes))
            };
            object("a", &json!({"deploymentName": "a", field: value}))
        };
        assert_eq!(error(&spec(SPEC_MAX)), long, "{field}");
        let too_many = Some(("spec.ports".to_owned(), "FieldValueTooMany"));
        let expected = if field == "ports" { too_many } else { None };
        assert_eq!(
            error(&spec(SPEC_MAX - 100)).filter(|it| it.0 == "spec.ports"),
            expected,
            "{field}"
        );
        assert_eq!(default_patch(&spec(SPEC_MAX)), [] as [Value; 0]);
    }
    let variables: Vec<_> = (0..20_000)
        .map(|it| json!({"name": format!("A{it}"), "value": ""}))
        .collect();
    assert_eq!(
        error(&object("a", &json!({"deploymentName": "a", "env": variables}))),
        None
    );
    let name = "a".repeat(OBJECT_NAME_MAX + 1);
    let named = object(&name, &json!({"deploymentName": "a"}));
    assert_eq!(
        error(&named),
        Some(("metadata.name".to_owned(), "FieldValueTooLong"))
    );
}
