//! Where two answers differ, and what is known to differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::side::{Answer, NO_ANSWER};
use crate::step::{Edit, Step, Verb};

/// Something that is known to differ, and why.
struct Known {
    /// The versions that it is about: all before this one, or all.
    before: Option<(u32, u32)>,
    #[expect(dead_code, reason = "for whoever reads the table")]
    why: &'static str,
    what: What,
}

enum What {
    /// This much of an answer is not compared.
    Forget(fn(&mut Answer)),
    /// After this the states differ: the sequence ends.
    End(fn(&Step, &Answer, &Answer) -> bool),
}

use What::{End, Forget};

const KNOWN: &[Known] = &[
    Known {
        before: None,
        why: "texts of messages are approximate, and the real server lists causes in any order",
        what: Forget(cut_messages),
    },
    Known {
        before: None,
        why: "the sandbox gives no advice about good fields of built-in kinds",
        what: Forget(cut_advice),
    },
    Known {
        before: Some((1, 36)),
        why: "who has which field was recorded in other detail, which makes other versions; warnings were few",
        what: Forget(cut_managers),
    },
    Known {
        before: Some((1, 36)),
        why: "pods had no generation, services fewer fields, and times that nobody set were null",
        what: Forget(cut_younger_fields),
    },
    Known {
        before: Some((1, 36)),
        why: "what only its managers could tell was written at times, and at times not",
        what: Forget(join_events),
    },
    Known {
        before: Some((1, 36)),
        why: "deletions by strategic patches left something behind where there was nothing to delete",
        what: End(|step, _, _| {
            step.verb == Verb::Strategic
                && step.edits.iter().any(|edit| {
                    let directs = edit.at.contains('$') || edit.value.to_string().contains('$');
                    edit.op == "remove" || edit.value.is_null() || directs
                })
        }),
    },
    Known {
        before: Some((1, 36)),
        why: "what is refused was refused in other words, and at times with another code",
        what: Forget(cut_refusals),
    },
    Known {
        before: Some((1, 36)),
        why: "rules have come and gone since: what one refuses and the other takes is for the black-box tests",
        what: End(|_, ours, theirs| (ours.code < 400) != (theirs.code < 400)),
    },
    Known {
        before: Some((1, 36)),
        why: "a service port with another number got another node port",
        what: End(|_, ours, theirs| {
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
    Known {
        before: Some((1, 36)),
        why: "a dry run gave services no address",
        what: End(|step, _, theirs| {
            let dry = step.query.iter().any(|(key, _)| *key == "dryRun");
            dry && theirs.body["kind"] == "Service" && theirs.body["spec"]["clusterIP"].is_null()
        }),
    },
    Known {
        before: Some((1, 36)),
        why: "what was deleted was answered with a Status for services too",
        what: End(|step, ours, theirs| step.verb == Verb::Delete && ours.body["kind"] != theirs.body["kind"]),
    },
    Known {
        before: None,
        why: "of a list and what is to be deleted from it, in one patch, the real server takes any first",
        what: End(|step, _, _| {
            let about = |at: &str| step.edits.iter().any(|edit| edit.at.starts_with(at));
            step.verb == Verb::Strategic
                && about("/metadata/$deleteFromPrimitiveList~1finalizers")
                && about("/metadata/finalizers")
        }),
    },
    Known {
        before: None,
        why: "of several things that are wrong in such a patch the real server finds any first",
        what: End(|step, ours, theirs| {
            let refused = ours.code >= 400 && theirs.code >= 400 && (ours.code == 500 || theirs.code == 500);
            step.verb == Verb::Strategic && step.edits.len() > 1 && refused && ours.body != theirs.body
        }),
    },
    Known {
        before: None,
        why: "services that are only names keep a policy that is never shown, but has managers",
        what: End(|_, ours, theirs| {
            let has = |answer: &Answer| {
                let managers = answer.body["metadata"]["managedFields"].to_string();
                managers.contains("f:internalTrafficPolicy")
            };
            theirs.body["spec"]["type"] == "ExternalName" && has(theirs) && !has(ours)
        }),
    },
    Known {
        before: None,
        why: "what an update creates keeps the time of a deletion that was never asked for",
        what: End(|step, _, theirs| {
            let marks = |edit: &Edit| edit.at.starts_with("/metadata/deletion");
            let puts = matches!(step.verb, Verb::Replace | Verb::Update);
            puts && theirs.code == 201 && step.edits.iter().any(marks)
        }),
    },
    Known {
        before: None,
        why: "bytes that are null are stored as something else than no bytes, which the next write puts right",
        what: End(|step, ours, theirs| {
            let writes_null =
                |edit: &Edit| edit.at == "/binaryData" && edit.value.to_string().contains("null");
            ours.code < 400 && theirs.code < 400 && step.edits.iter().any(writes_null)
        }),
    },
    Known {
        before: None,
        why: "a dry run that would end a deletion under way is answered with an object that nobody has filled in",
        what: End(|step, _, theirs| {
            let dry = step.edits.iter().any(|edit| edit.at == "/dryRun");
            let filled = theirs.body["kind"] == "Status" || theirs.body["metadata"]["name"].is_string();
            step.verb == Verb::Delete && dry && theirs.code == 200 && !filled
        }),
    },
    Known {
        before: None,
        why: "the status endpoint of services makes half a service of one that is not there",
        what: End(|step, ours, theirs| {
            step.subresource == "/status" && ours.code == 404 && theirs.code != 404
        }),
    },
    Known {
        before: Some((1, 21)),
        why: "kube-apiserver 1.20 panics in some applies of Deployments (nil pointer) and closes the connection",
        what: End(|step, _, theirs| step.verb == Verb::Apply && theirs.code == NO_ANSWER),
    },
];

/// Whether the sequence cannot go on for a reason that is known.
pub fn ends(version: (u32, u32), step: &Step, ours: &Answer, theirs: &Answer) -> bool {
    KNOWN
        .iter()
        .filter(|known| known.is_about(version))
        .any(|known| match known.what {
            End(ends) => ends(step, ours, theirs),
            Forget(_) => false,
        })
}

impl Known {
    fn is_about(&self, version: (u32, u32)) -> bool {
        self.before.is_none_or(|before| version < before)
    }
}

/// The places in which two answers differ, each with both values; empty if they are the same.
pub fn differences(version: (u32, u32), one: &Answer, other: &Answer) -> Vec<String> {
    let said = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
    let messages = (said(one), said(other));
    let (mut one, mut other) = (one.clone(), other.clone());
    for known in KNOWN.iter().filter(|known| known.is_about(version)) {
        if let Forget(forget) = known.what {
            forget(&mut one);
            forget(&mut other);
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

/// Leaves code, reason and details of a refusal, and the reasons and fields of its causes.
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

/// Takes fields out wherever they stand.
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

fn cut_younger_fields(answer: &mut Answer) {
    const YOUNGER: [&str; 9] = [
        "allocateLoadBalancerNodePorts",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "ipMode",
        "loadBalancerClass",
        "generation",
        "observedGeneration",
        "qosClass", // As old, but it could be taken away.
    ];
    without(&mut answer.body, &|name, value| {
        YOUNGER.contains(&name) || value.is_null()
    });
}

/// Leaves events out after which an object is as it was.
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

fn cut_refusals(answer: &mut Answer) {
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
