//! Differences of two answers, and the known differences that are not reported.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::side::{Answer, NO_ANSWER};
use crate::step::{Edit, Step, Verb};

/// A known difference and its reason.
struct KnownDifference {
    /// The affected versions: all before this one, or all.
    before: Option<(u32, u32)>,
    #[expect(dead_code, reason = "documentation")]
    why: &'static str,
    effect: Effect,
}

enum Effect {
    /// Removes a part of both answers from the comparison.
    Drop(fn(&mut Answer)),
    /// Ends the sequence, because the states differ.
    End(fn(&Step, &Answer, &Answer) -> bool),
}

use Effect::{Drop, End};

const KNOWN: &[KnownDifference] = &[
    KnownDifference {
        before: None,
        why: "messages are approximate, and the real server lists causes in any order",
        effect: Drop(cut_messages),
    },
    KnownDifference {
        before: None,
        why: "the sandbox sends no deprecation warnings for built-in kinds",
        effect: Drop(cut_advice),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "managed fields had other detail, which changes versions; there were fewer warnings",
        effect: Drop(cut_managers),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "pods had no generation, services fewer fields, and unset times were null",
        effect: Drop(cut_newer_fields),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "a change of managers only was written in some cases",
        effect: Drop(join_events),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "strategic patches that delete absent fields left directives behind",
        effect: End(|step, _, _| {
            step.verb == Verb::Strategic
                && step.edits.iter().any(|edit| {
                    let directs = edit.at.contains('$') || edit.value.to_string().contains('$');
                    edit.op == "remove" || edit.value.is_null() || directs
                })
        }),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "rejections had other messages and some other codes",
        effect: Drop(cut_rejections),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "validation rules have changed; the black-box tests cover them",
        effect: End(|_, ours, theirs| (ours.code < 400) != (theirs.code < 400)),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "a service port with another number got another node port",
        effect: End(|_, ours, theirs| {
            let node_ports = |answer: &Answer| {
                let ports = answer.body["spec"]["ports"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                ports
                    .iter()
                    .map(|port| port["nodePort"].clone())
                    .collect::<Vec<_>>()
            };
            theirs.body["kind"] == "Service" && node_ports(ours) != node_ports(theirs)
        }),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "a dry run gave services no address",
        effect: End(|step, _, theirs| {
            let dry = step.query.iter().any(|(key, _)| *key == "dryRun");
            dry && theirs.body["kind"] == "Service" && theirs.body["spec"]["clusterIP"].is_null()
        }),
    },
    KnownDifference {
        before: Some((1, 36)),
        why: "the deletion of a service returned a Status",
        effect: End(|step, ours, theirs| {
            step.verb == Verb::Delete && ours.body["kind"] != theirs.body["kind"]
        }),
    },
    KnownDifference {
        before: None,
        why: "the real server applies a list and its deletion directive in any order",
        effect: End(|step, _, _| {
            let about = |at: &str| step.edits.iter().any(|edit| edit.at.starts_with(at));
            step.verb == Verb::Strategic
                && about("/metadata/$deleteFromPrimitiveList~1finalizers")
                && about("/metadata/finalizers")
        }),
    },
    KnownDifference {
        before: None,
        why: "the real server reports any of several errors of a strategic patch",
        effect: End(|step, ours, theirs| {
            let refused = ours.code >= 400 && theirs.code >= 400 && (ours.code == 500 || theirs.code == 500);
            step.verb == Verb::Strategic && step.edits.len() > 1 && refused && ours.body != theirs.body
        }),
    },
    KnownDifference {
        before: None,
        why: "services of type ExternalName keep a hidden policy that has managers",
        effect: End(|_, ours, theirs| {
            let has = |answer: &Answer| {
                let managers = answer.body["metadata"]["managedFields"].to_string();
                managers.contains("f:internalTrafficPolicy")
            };
            theirs.body["spec"]["type"] == "ExternalName" && has(theirs) && !has(ours)
        }),
    },
    KnownDifference {
        before: None,
        why: "create on update keeps the deletionTimestamp of the body",
        effect: End(|step, _, theirs| {
            let marks = |edit: &Edit| edit.at.starts_with("/metadata/deletion");
            let puts = matches!(step.verb, Verb::Replace | Verb::Update);
            puts && theirs.code == 201 && step.edits.iter().any(marks)
        }),
    },
    KnownDifference {
        before: None,
        why: "null in binaryData is stored as an empty value until the next write",
        effect: End(|step, ours, theirs| {
            let writes_null =
                |edit: &Edit| edit.at == "/binaryData" && edit.value.to_string().contains("null");
            ours.code < 400 && theirs.code < 400 && step.edits.iter().any(writes_null)
        }),
    },
    KnownDifference {
        before: None,
        why: "a dry run that would end a deletion returns an incomplete object",
        effect: End(|step, _, theirs| {
            let dry = step.edits.iter().any(|edit| edit.at == "/dryRun");
            let filled = theirs.body["kind"] == "Status" || theirs.body["metadata"]["name"].is_string();
            step.verb == Verb::Delete && dry && theirs.code == 200 && !filled
        }),
    },
    KnownDifference {
        before: None,
        why: "the status endpoint of services creates an incomplete service",
        effect: End(|step, ours, theirs| {
            step.subresource == "/status" && ours.code == 404 && theirs.code != 404
        }),
    },
    KnownDifference {
        before: Some((1, 21)),
        why: "kube-apiserver 1.20 panics in some applies of Deployments (nil pointer) and closes the connection",
        effect: End(|step, _, theirs| step.verb == Verb::Apply && theirs.code == NO_ANSWER),
    },
];

/// Whether a known difference ends the sequence.
pub fn ends(version: (u32, u32), step: &Step, ours: &Answer, theirs: &Answer) -> bool {
    KNOWN
        .iter()
        .filter(|known| known.applies_to(version))
        .any(|known| match known.effect {
            End(ends) => ends(step, ours, theirs),
            Drop(_) => false,
        })
}

impl KnownDifference {
    fn applies_to(&self, version: (u32, u32)) -> bool {
        self.before.is_none_or(|before| version < before)
    }
}

/// Returns the differing fields of two answers with both values.
pub fn differences(version: (u32, u32), one: &Answer, other: &Answer) -> Vec<String> {
    let message = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
    let messages = (message(one), message(other));
    let (mut one, mut other) = (one.clone(), other.clone());
    for known in KNOWN.iter().filter(|known| known.applies_to(version)) {
        if let Drop(drop_part) = known.effect {
            drop_part(&mut one);
            drop_part(&mut other);
        }
    }
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
