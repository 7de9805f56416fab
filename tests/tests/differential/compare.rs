//! Where two answers differ, and what is known to differ.

use serde_json::{Value, json};

use crate::side::Answer;

/// Something that is not compared, and why.
struct Known {
    /// The versions that it is about: all before this one, or all.
    before: Option<(u32, u32)>,
    #[expect(dead_code, reason = "for whoever reads the table")]
    why: &'static str,
    forget: fn(&mut Answer),
}

const KNOWN: &[Known] = &[
    Known {
        before: None,
        why: "maps are walked in any order by the real server, and so is what is wrong in them",
        forget: sort_causes,
    },
    Known {
        before: None,
        why: "the real server shows how two states of a pod differ in the words of its own language",
        forget: cut_differences,
    },
    Known {
        before: None,
        why: "the sandbox says why a patch does not fit, the real server keeps that to itself",
        forget: cut_misfits,
    },
    Known {
        before: None,
        why: "the sandbox gives no advice about good fields of built-in kinds",
        forget: cut_advice,
    },
    Known {
        before: None,
        why: "of a patch that makes no object, the real server shows at times the patch and at times the outcome",
        forget: cut_patches,
    },
];

/// The places in which two answers differ, each with both values; empty if they are the same.
pub fn differences(version: (u32, u32), one: &Answer, other: &Answer) -> Vec<String> {
    let (mut one, mut other) = (one.clone(), other.clone());
    for known in KNOWN {
        if known.before.is_none_or(|before| version < before) {
            (known.forget)(&mut one);
            (known.forget)(&mut other);
        }
    }
    let whole =
        |answer: &Answer| json!({"code": answer.code, "warnings": answer.warnings, "body": answer.body});
    if one.code != other.code {
        let said = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
        let place = format!(
            "/code: {} {} | {} {}",
            one.code,
            said(&one),
            other.code,
            said(&other)
        );
        return vec![place];
    }
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

/// Several causes are compared in their own order, and then the message, which repeats them, only up to them.
fn sort_causes(answer: &mut Answer) {
    answer.warnings.sort();
    let Some(causes) = answer
        .body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    if causes.len() < 2 {
        return;
    }
    let message = answer.body["message"].as_str().unwrap_or_default();
    if let Some((start, _)) = message.split_once(": ") {
        answer.body["message"] = json!(start);
    }
}

/// Calls `change` on every text of a refusal.
fn texts(answer: &mut Answer, change: fn(&mut String)) {
    fn walk(value: &mut Value, change: fn(&mut String)) {
        match value {
            Value::String(text) => change(text),
            Value::Array(list) => list.iter_mut().for_each(|item| walk(item, change)),
            Value::Object(map) => map.values_mut().for_each(|value| walk(value, change)),
            _ => {}
        }
    }
    if answer.body["status"] == "Failure" {
        walk(&mut answer.body, change);
    }
}

fn cut_differences(answer: &mut Answer) {
    texts(answer, |text| {
        if let Some(at) = text.find('\n').filter(|_| text.contains("Forbidden: ")) {
            text.truncate(at);
        }
    });
}

fn cut_patches(answer: &mut Answer) {
    if answer.body["details"]["causes"][0]["field"] == "patch" {
        texts(answer, |text| {
            if let Some((_, why)) = text.rsplit_once("\": ") {
                *text = why.to_owned();
            }
        });
    }
}

fn cut_misfits(answer: &mut Answer) {
    const START: &str = "the server rejected our request due to an error in our request";
    texts(answer, |text| {
        if text.starts_with(START) {
            text.truncate(START.len());
        }
    });
    if answer.body["details"] == json!({})
        && let Some(map) = answer.body.as_object_mut()
    {
        map.remove("details");
    }
}

fn cut_advice(answer: &mut Answer) {
    answer.warnings.retain(|warning| {
        ["unknown field", "duplicate field", "ownerReferences"]
            .iter()
            .any(|about| warning.contains(about))
    });
}
