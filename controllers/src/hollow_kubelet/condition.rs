//! Conditions of pods and nodes, which have more fields than those of other kinds: patched one by one, so that the rest
//! of a condition, and the conditions of others, stay.

use coxswain_manager::object::Text;
use coxswain_manager::object::decode::{null_is_default, time};
use coxswain_manager::time::rfc3339;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// What is read of a condition.
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

/// A condition that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) type_: &'static str,
    pub(super) holds: bool,
    /// Why, if there is something to say.
    pub(super) why: Option<(&'static str, String)>,
}

pub(super) fn find<'a>(present: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    present.iter().find(|it| it.type_ == type_)
}

pub(super) fn is_true(present: &[Condition], type_: &str) -> bool {
    find(present, type_).is_some_and(|it| it.status == "True")
}

/// The wanted condition for a strategic merge patch: its time changes with its status only, and nothing is left of what was
/// said before.
pub(super) fn write(present: &[Condition], wanted: &Wanted, now: Timestamp) -> Value {
    let status = if wanted.holds { "True" } else { "False" };
    let since = find(present, wanted.type_)
        .filter(|it| it.status == status)
        .and_then(|it| it.last_transition_time);
    let (reason, message) = match &wanted.why {
        Some((reason, message)) => (json!(reason), json!(message)),
        None => (Value::Null, Value::Null),
    };
    json!({
        "type": wanted.type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(since.unwrap_or(now)),
    })
}
