//! Conditions of pods and nodes. They are patched one by one, so that other fields and other conditions are preserved.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_manager::object::Text;
use steersman_manager::object::decode::{null_is_default, time};
use steersman_manager::time::rfc3339;

/// Projection of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: Text,
    pub(super) status: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) reason: Text,
    #[serde(deserialize_with = "time")]
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(super) struct DesiredCondition {
    pub(super) type_: &'static str,
    pub(super) is_true: bool,
    pub(super) reason_and_message: Option<(&'static str, String)>,
}

pub(super) fn find<'a>(present: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    present.iter().find(|it| it.type_ == type_)
}

pub(super) fn is_true(present: &[Condition], type_: &str) -> bool {
    find(present, type_).is_some_and(|it| it.status == "True")
}

/// Returns the condition for a strategic merge patch. Its transition time changes only with its status; reason and message are
/// replaced.
pub(super) fn write(present: &[Condition], desired: &DesiredCondition, now: Timestamp) -> Value {
    let status = if desired.is_true { "True" } else { "False" };
    let since = find(present, desired.type_)
        .filter(|it| it.status == status)
        .and_then(|it| it.last_transition_time);
    let (reason, message) = match &desired.reason_and_message {
        Some((reason, message)) => (json!(reason), json!(message)),
        None => (Value::Null, Value::Null),
    };
    json!({
        "type": desired.type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(since.unwrap_or(now)),
    })
}
