//! Differences of two answers, and the known differences that are not reported.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::side::{Answer, NO_ANSWER};
use crate::step::{Edit, Step, Verb};

/// Decides whether a known difference makes the states of the servers differ: the step, our answer and their answer.
type Ends = fn(&Step, &Answer, &Answer) -> bool;

/// Known differences from all versions.
const ENDS: &[Ends] = &[
    // The real server applies a list and its deletion directive in any order.
    |step, _, _| {
        let about = |at: &str| step.edits.iter().any(|edit| edit.at.starts_with(at));
        step.verb == Verb::Strategic
            && about("/metadata/$deleteFromPrimitiveList~1finalizers")
            && about("/metadata/finalizers")
    },
    // The real server reports any of several errors of a strategic patch.
    |step, ours, theirs| {
        let refused = ours.code >= 400 && theirs.code >= 400 && (ours.code == 500 || theirs.code == 500);
        step.verb == Verb::Strategic && step.edits.len() > 1 && refused && ours.body != theirs.body
    },
    // Services of type ExternalName keep a hidden policy that has managers.
    |_, ours, theirs| {
        let has = |answer: &Answer| {
            let managers = answer.body["metadata"]["managedFields"].to_string();
            managers.contains("f:internalTrafficPolicy")
        };
        theirs.body["spec"]["type"] == "ExternalName" && has(theirs) && !has(ours)
    },
    // Create on update keeps the deletionTimestamp of the body.
    |step, _, theirs| {
        let marks = |edit: &Edit| edit.at.starts_with("/metadata/deletion");
        let puts = matches!(step.verb, Verb::Replace | Verb::Update);
        puts && theirs.code == 201 && step.edits.iter().any(marks)
    },
    // Null in binaryData is stored as an empty value until the next write.
    |step, ours, theirs| {
        let writes_null = |edit: &Edit| edit.at == "/binaryData" && edit.value.to_string().contains("null");
        ours.code < 400 && theirs.code < 400 && step.edits.iter().any(writes_null)
    },
    // A dry run that would end a deletion returns an incomplete object.
    |step, _, theirs| {
        let dry = step.edits.iter().any(|edit| edit.at == "/dryRun");
        let filled = theirs.body["kind"] == "Status" || theirs.body["metadata"]["name"].is_string();
        step.verb == Verb::Delete && dry && theirs.code == 200 && !filled
    },
    // The status endpoint of services creates an incomplete service.
    |step, ours, theirs| step.subresource == "/status" && ours.code == 404 && theirs.code != 404,
];

/// Known differences from versions before 1.36.
const ENDS_OLD: &[Ends] = &[
    // Strategic patches that delete absent fields left directives behind.
    |step, _, _| {
        step.verb == Verb::Strategic
            && step.edits.iter().any(|edit| {
                let directs = edit.at.contains('$') || edit.value.to_string().contains('$');
                edit.op == "remove" || edit.value.is_null() || directs
            })
    },
    // Validation rules have changed; the black-box tests cover them.
    |_, ours, theirs| (ours.code < 400) != (theirs.code < 400),
    // A service port with another number got another node port.
    |_, ours, theirs| {
        let node_ports = |answer: &Answer| {
            let ports = answer.body["spec"]["ports"].as_array().into_iter().flatten();
            ports.map(|port| port["nodePort"].clone()).collect::<Vec<_>>()
        };
        theirs.body["kind"] == "Service" && node_ports(ours) != node_ports(theirs)
    },
    // A negative grace period was stored; now it becomes 1.
    |_, _, theirs| {
        let fields = [
            "/metadata/deletionGracePeriodSeconds",
            "/spec/terminationGracePeriodSeconds",
            "/spec/template/spec/terminationGracePeriodSeconds",
        ];
        let seconds = |field: &&str| theirs.body.pointer(field).and_then(Value::as_i64);
        fields.iter().filter_map(seconds).any(|it| it < 0)
    },
    // All pods of a deleted collection could get the grace period of one of them.
    |step, ours, _| step.verb == Verb::DeleteCollection && ours.body["kind"] == "PodList",
    // A dry run gave services no address.
    |step, _, theirs| {
        let dry = step.query.iter().any(|(key, _)| *key == "dryRun");
        dry && theirs.body["kind"] == "Service" && theirs.body["spec"]["clusterIP"].is_null()
    },
    // The deletion of a service returned a Status.
    |step, ours, theirs| step.verb == Verb::Delete && ours.body["kind"] != theirs.body["kind"],
];

/// Whether a known difference ends the sequence.
pub fn ends(version: (u32, u32), step: &Step, ours: &Answer, theirs: &Answer) -> bool {
    let old = if version < (1, 36) { ENDS_OLD } else { &[] };
    // kube-apiserver 1.20 panics in some applies of Deployments (nil pointer) and closes the connection.
    let broken = version < (1, 21) && step.verb == Verb::Apply && theirs.code == NO_ANSWER;
    broken || ENDS.iter().chain(old).any(|ends| ends(step, ours, theirs))
}

/// Removes the parts of an answer with known differences.
fn cut_known(version: (u32, u32), answer: &mut Answer) {
    // Messages are approximate, and the real server lists causes in any order.
    cut_messages(answer);
    // The sandbox sends no deprecation warnings for built-in kinds.
    cut_advice(answer);
    if version < (1, 36) {
        // Managed fields had other detail, which changes versions; there were fewer warnings.
        cut_managers(answer);
        // Pods had no generation, services fewer fields, and unset times were null.
        cut_newer_fields(answer);
        // A change of managers only was written in some cases.
        join_events(answer);
        // Rejections had other messages and some other codes.
        cut_rejections(answer);
    }
}

/// Returns the differing fields of two answers with both values.
pub fn differences(version: (u32, u32), one: &Answer, other: &Answer) -> Vec<String> {
    let message = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
    let messages = (message(one), message(other));
    let (mut one, mut other) = (one.clone(), other.clone());
    cut_known(version, &mut one);
    cut_known(version, &mut other);
    if one.code != other.code {
        return vec![format!(
            "/code: {} {} | {} {}",
            one.code, messages.0, other.code, messages.1
        )];
    }
    let whole = |answer: &Answer| json!({"warnings": answer.warnings, "body": answer.body});
    let mut found = Vec::new();
    walk("", &whole(&one), &whole(&other), &mut found);
    found
}

fn walk(at: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let missing = Value::Null;
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let (one, other) = (a.get(key), b.get(key));
                if one.is_some() == other.is_some() {
                    walk(
                        &format!("{at}/{key}"),
                        one.unwrap_or(&missing),
                        other.unwrap_or(&missing),
                        found,
                    );
                } else {
                    let show = |side: Option<&Value>| side.map_or("nothing".to_owned(), Value::to_string);
                    found.push(format!("{at}/{key}: {} | {}", show(one), show(other)));
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (one, other)) in a.iter().zip(b).enumerate() {
                walk(&format!("{at}/{n}"), one, other, found);
            }
        }
        _ if one == other => {}
        _ => found.push(format!("{at}: {one} | {other}")),
    }
}

/// Keeps code, reason and details of a failure, and the reasons and fields of its causes.
fn cut_messages(answer: &mut Answer) {
    answer.warnings.sort();
    if answer.body["status"] != "Failure" {
        return;
    }
    let causes = answer.body.pointer_mut("/details/causes");
    if let Some(causes) = causes.and_then(Value::as_array_mut) {
        for cause in causes.iter_mut().filter_map(Value::as_object_mut) {
            cause.remove("message");
        }
        causes.sort_by_key(Value::to_string);
        causes.dedup();
    }
    if let Some(map) = answer.body.as_object_mut() {
        map.remove("message");
        map.retain(|name, value| name != "details" || *value != json!({}));
    }
}

/// Removes fields at all levels.
fn without(value: &mut Value, gone: &dyn Fn(&str, &Value) -> bool) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|item| without(item, gone)),
        Value::Object(map) => {
            map.retain(|name, value| !gone(name, value));
            map.values_mut().for_each(|value| without(value, gone));
        }
        _ => {}
    }
}

fn cut_managers(answer: &mut Answer) {
    let gone = ["managedFields", "resourceVersion", "uid"];
    without(&mut answer.body, &|name, _| gone.contains(&name));
    answer.warnings.clear();
}

fn cut_newer_fields(answer: &mut Answer) {
    const NEWER: [&str; 9] = [
        "allocateLoadBalancerNodePorts",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "ipMode",
        "loadBalancerClass",
        "generation",
        "observedGeneration",
        "qosClass", // Older servers allow its removal.
    ];
    without(&mut answer.body, &|name, value| {
        NEWER.contains(&name) || value.is_null()
    });
}

/// Removes events without a change of the object.
fn join_events(answer: &mut Answer) {
    let Some(events) = answer.body.as_array_mut() else {
        return;
    };
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    events.retain(|event| {
        let name = event["object"]["metadata"]["name"].to_string();
        let before = last.insert(name, event["object"].clone());
        event["type"] != "MODIFIED" || before.as_ref() != Some(&event["object"])
    });
}

fn cut_rejections(answer: &mut Answer) {
    if answer.code >= 400 {
        answer.code = 400;
        answer.body = Value::Null;
    }
}

fn cut_advice(answer: &mut Answer) {
    answer.warnings.retain(|warning| {
        ["unknown field", "duplicate field", "ownerReferences"]
            .iter()
            .any(|about| warning.contains(about))
    });
}
