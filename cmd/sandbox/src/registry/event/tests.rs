use serde_json::{Value, json};

use crate::registry::testing::{create_errors, object, resource, updated};
use crate::registry::{from_stored, to_stored};

fn modern(extra: Value) -> Value {
    let mut event = json!({
        "eventTime": "2024-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod", "namespace": "default"},
        "reportingController": "x.io/y", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal",
    });
    if let (Some(event), Value::Object(extra)) = (event.as_object_mut(), extra) {
        event.extend(extra);
    }
    event
}

#[test]
fn both_shapes_are_one_object() {
    let served = object(
        "events.events.k8s.io",
        modern(json!({"note": "n", "deprecatedCount": 2})),
    );
    let res = resource("events.events.k8s.io");
    let mut stored = served.clone();
    to_stored(&res, &mut stored);
    assert_eq!(stored["apiVersion"], "v1");
    assert_eq!(
        stored["involvedObject"],
        json!({"kind": "Pod", "namespace": "default"})
    );
    assert_eq!((&stored["message"], &stored["count"]), (&json!("n"), &json!(2)));
    assert_eq!(stored["reportingComponent"], "x.io/y");
    assert!(stored.get("regarding").is_none());
    let mut back = stored.clone();
    from_stored(&res, &mut back);
    assert_eq!(back, served);
    let core = resource("events");
    let mut same = stored.clone();
    to_stored(&core, &mut same);
    from_stored(&core, &mut same);
    assert_eq!(same, stored);
}

#[test]
fn core_events_are_checked_lightly() {
    let cases = [
        (
            json!({"metadata": {"name": "Odd Name"}, "involvedObject": {"namespace": "default"}}),
            vec![],
        ),
        (
            json!({"involvedObject": {"namespace": "other"}}),
            vec!["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
        ),
        (
            json!({"eventTime": "2020-01-01T00:00:00.000000Z", "involvedObject": {"namespace": "default"}, "reportingComponent": "a"}),
            vec![
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(create_errors("events", given.clone()), expected, "{given}");
    }
}

#[test]
fn modern_events_are_checked_strictly() {
    assert_eq!(
        create_errors("events.events.k8s.io", modern(json!({}))),
        Vec::<String>::new()
    );
    assert_eq!(
        create_errors(
            "events.events.k8s.io",
            modern(
                json!({"type": "Odd", "series": {"count": 1}, "deprecatedCount": 1, "deprecatedSource": {"host": "h"}})
            )
        ),
        [
            "series.count: Invalid value: \"\": should be at least 2",
            "series.lastObservedTime: Required value",
            "type: Invalid value: \"\": has invalid value: Odd",
            "count: Invalid value: \"\": needs to be unset",
            "source: Invalid value: \"\": needs to be unset",
        ]
    );
}

#[test]
fn content_of_an_event_is_immutable() {
    let (_, errors) = updated(
        "events.events.k8s.io",
        modern(json!({})),
        modern(json!({"reason": "Other"})),
    );
    assert_eq!(errors, ["reason: Invalid value: \"Other\": field is immutable"]);
    let (_, errors) = updated("events", json!({"reason": "a"}), json!({"reason": "b"}));
    assert_eq!(errors, Vec::<String>::new());
}
