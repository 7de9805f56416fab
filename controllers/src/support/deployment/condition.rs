//! Conditions of a Deployment. They have two times:
//!
//! - A condition with the same status and reason is not changed at all, not even its message.
//! - A new reason with the same status keeps lastTransitionTime.
//! - A changed condition moves to the end of the list. Conditions of other clients are kept as they are.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use steersman_manager::conditions::Status;
use steersman_manager::object::Text;
use steersman_manager::object::decode::{null_is_default, time};
use steersman_manager::time::{rfc3339, whole_seconds};

/// A condition of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: Text,
    pub status: Status,
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write",
        deserialize_with = "time"
    )]
    pub last_update_time: Option<Timestamp>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "write",
        deserialize_with = "time"
    )]
    pub last_transition_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_is_default")]
    pub reason: Text,
    #[serde(deserialize_with = "null_is_default")]
    pub message: Text,
}

impl Condition {
    /// Returns a condition with both times set to `now`.
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

/// Returns the condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Sets `new`, unless the present condition has the same status and reason.
pub fn set(conditions: &mut Vec<Condition>, new: Condition) {
    let present = find(conditions, &new.type_);
    if present.is_some_and(|it| it.status == new.status && it.reason == new.reason) {
        return;
    }
    replace(conditions, new);
}

/// Sets `new` and its lastUpdateTime, even if status and reason are the same.
pub fn replace(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(present) = find(conditions, &new.type_)
        && present.status == new.status
    {
        new.last_transition_time = present.last_transition_time;
    }
    remove(conditions, &new.type_);
    conditions.push(new);
}

/// Removes the condition of this type.
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

    fn progressing(status: Status, reason: &str, second: i64) -> Condition {
        Condition::new("Progressing", status, reason, "m", at(second))
    }

    #[test]
    fn times_follow_status_and_reason() {
        let times = |list: &[Condition]| (list[0].last_update_time, list[0].last_transition_time);
        let mut list = Vec::new();
        set(&mut list, progressing(Status::True, "A", 1));
        set(&mut list, progressing(Status::True, "A", 2));
        assert_eq!(times(&list), (Some(at(1)), Some(at(1))), "unchanged");
        set(&mut list, progressing(Status::True, "B", 3));
        assert_eq!(times(&list), (Some(at(3)), Some(at(1))), "another reason");
        replace(&mut list, progressing(Status::True, "B", 4));
        assert_eq!(times(&list), (Some(at(4)), Some(at(1))), "replaced");
        set(&mut list, progressing(Status::False, "B", 5));
        assert_eq!(times(&list), (Some(at(5)), Some(at(5))), "another status");
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn other_conditions_are_kept_and_changed_condition_is_last() {
        let theirs = json!({"type": "Theirs", "status": "True", "reason": "R", "message": "m",
                            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-02T00:00:00Z"});
        let short = json!({"type": "Short", "status": "False", "reason": "", "message": ""});
        let mut list: Vec<Condition> = serde_json::from_value(json!([
            {"type": "Progressing", "status": "True", "reason": "A", "message": null, "lastUpdateTime": null},
            theirs, short]))
        .expect("conditions");
        set(&mut list, progressing(Status::Unknown, "B", 0));
        let written = serde_json::to_value(&list).expect("JSON");
        assert_eq!((&written[0], &written[1]), (&theirs, &short));
        assert_eq!(written[2]["reason"], "B");
        remove(&mut list, "Progressing");
        assert_eq!(list.len(), 2);
    }
}
