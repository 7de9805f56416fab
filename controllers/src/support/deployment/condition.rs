//! Conditions of a Deployment: they have two times, and rules of their own for when those change.
//!
//! - The same status for the same reason changes nothing, neither the times nor the message.
//! - Another reason for the same status keeps the time of the last transition.
//! - What has changed goes to the end of the list. Conditions of other writers keep their fields.

use coxswain_manager::conditions::Status;
use coxswain_manager::object::Text;
use coxswain_manager::object::decode::{null_is_default, time};
use coxswain_manager::time::{rfc3339, whole_seconds};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: Text,
    /// Whether it holds.
    pub status: Status,
    /// When it was last said.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write",
        deserialize_with = "time"
    )]
    pub last_update_time: Option<Timestamp>,
    /// When the status changed last.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write",
        deserialize_with = "time"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// Why, in one word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: Text,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: Text,
}

impl Condition {
    /// A condition that is said now.
    #[must_use]
    pub fn new(type_: &str, status: Status, reason: &str, message: impl Into<Text>, now: Timestamp) -> Self {
        Self {
            type_: type_.into(),
            status,
            last_update_time: Some(whole_seconds(now)),
            last_transition_time: Some(whole_seconds(now)),
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// The condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Puts `new` into the list, unless the same was said before.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) {
    let present = find(conditions, &new.type_);
    if present.is_some_and(|it| it.status == new.status && it.reason == new.reason) {
        return;
    }
    replace(conditions, new);
}

/// Puts `new` into the list, even if the same was said before: it is said again, now.
pub fn replace(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(present) = find(conditions, &new.type_)
        && present.status == new.status
    {
        new.last_transition_time = present.last_transition_time;
    }
    remove(conditions, &new.type_);
    conditions.push(new);
}

/// Takes the condition of this type out of the list.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) {
    conditions.retain(|it| it.type_ != type_);
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn write<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_str(&rfc3339(*time)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn said(status: Status, reason: &str, second: i64) -> Condition {
        Condition::new("Progressing", status, reason, "m", at(second))
    }

    #[test]
    fn times_follow_status_and_reason() {
        let times = |list: &[Condition]| (list[0].last_update_time, list[0].last_transition_time);
        let mut list = Vec::new();
        set(&mut list, said(Status::True, "A", 1));
        set(&mut list, said(Status::True, "A", 2));
        assert_eq!(times(&list), (Some(at(1)), Some(at(1))), "nothing new");
        set(&mut list, said(Status::True, "B", 3));
        assert_eq!(times(&list), (Some(at(3)), Some(at(1))), "another reason");
        replace(&mut list, said(Status::True, "B", 4));
        assert_eq!(times(&list), (Some(at(4)), Some(at(1))), "said again");
        set(&mut list, said(Status::False, "B", 5));
        assert_eq!(times(&list), (Some(at(5)), Some(at(5))), "another status");
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn what_others_say_survives_and_what_changed_is_last() {
        let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-02T00:00:00Z"});
        let short = json!({"type": "Short", "status": "False", "reason": "", "message": ""});
        let mut list: Vec<Condition> = serde_json::from_value(json!([
            {"type": "Progressing", "status": "True", "reason": "A", "message": null, "lastUpdateTime": null},
            theirs, short]))
        .expect("conditions");
        set(&mut list, said(Status::Unknown, "B", 0));
        let written = serde_json::to_value(&list).expect("JSON");
        assert_eq!((&written[0], &written[1]), (&theirs, &short));
        assert_eq!(written[2]["reason"], "B");
        remove(&mut list, "Progressing");
        assert_eq!(list.len(), 2);
    }
}
