//! Conditions of an object, following the Kubernetes API conventions.
//!
//! A list has at most one [`Condition`] per type. [`set`] changes `lastTransitionTime` only when the status changes, and
//! returns whether anything has changed. Conditions of other types keep their position and fields. Fields that
//! [`Condition`] does not have are dropped, so this must not be used for the conditions of pods and nodes.
//!
//! The status of a `#[derive(CustomResource)]` can contain a `Vec<Condition>`.
//!
//! ```
//! use steersman_manager::conditions::{self, Condition, Status};
//!
//! let unavailable = |message| Condition::new("Available", Status::False, "MinimumReplicasUnavailable", message);
//! let mut conditions = Vec::new();
//! assert!(conditions::set(&mut conditions, unavailable("0 of 2 replicas are available."), "2026-01-01T00:00:00Z".parse()?));
//! assert!(conditions::set(&mut conditions, unavailable("1 of 2 replicas is available."), "2026-01-01T00:01:00Z".parse()?));
//!
//! let available = conditions::find(&conditions, "Available").expect("a condition");
//! assert_eq!(available.message, "1 of 2 replicas is available.");
//! assert_eq!(available.last_transition_time, Some("2026-01-01T00:00:00Z".parse()?));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as metav1;
use k8s_openapi::schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::object::Text;
use crate::time::whole_seconds;

/// The limit of the API for messages, in bytes.
const MAX_MESSAGE: usize = 32 * 1024;

/// A condition as in `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: Text,
    pub status: Status,
    /// Zero if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Set by [`set`].
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub last_transition_time: Option<Timestamp>,
    /// A `CamelCase` word for programs.
    pub reason: Text,
    /// A sentence for users.
    pub message: Text,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "plain data")]
pub enum Status {
    True,
    False,
    #[default]
    #[serde(other)]
    Unknown,
}

impl Condition {
    /// Returns a condition to [`set`]. A message over the limit is truncated.
    ///
    /// # Panics
    /// In debug builds, if the API would reject the reason.
    #[must_use]
    pub fn new(type_: &str, status: Status, reason: &'static str, message: &str) -> Self {
        debug_assert!(is_reason(reason), "invalid reason: {reason:?}");
        Self {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: message[..message.floor_char_boundary(MAX_MESSAGE)].into(),
            ..Self::default()
        }
    }

    /// Sets the observed generation.
    #[must_use]
    pub fn observed_generation(self, generation: i64) -> Self {
        Self {
            observed_generation: generation,
            ..self
        }
    }
}

/// The schema of `metav1.Condition`.
impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        metav1::Condition::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        metav1::Condition::json_schema(generator)
    }
}

/// Adds `new` or replaces the condition of its type. Returns whether the list has changed.
pub fn set(conditions: &mut Vec<Condition>, new: Condition, now: Timestamp) -> bool {
    let Some(present) = conditions.iter_mut().find(|it| it.type_ == new.type_) else {
        conditions.push(Condition {
            last_transition_time: Some(whole_seconds(now)),
            ..new
        });
        return true;
    };
    let since = if present.status == new.status {
        present.last_transition_time
    } else {
        None
    };
    let new = Condition {
        last_transition_time: since.or(Some(whole_seconds(now))),
        ..new
    };
    let changed = *present != new;
    *present = new;
    changed
}

/// Returns the condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Removes the condition of this type. Returns whether there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != type_);
    conditions.len() < before
}

/// Matches the pattern of the API: a letter, then letters, digits and `_,:`, not ending in `,` or `:`.
fn is_reason(reason: &str) -> bool {
    reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && !reason.ends_with([',', ':'])
        && reason
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(&b))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn write_time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn ready(status: Status, reason: &'static str) -> Condition {
        Condition::new("Ready", status, reason, "message")
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut list = Vec::new();
        assert!(set(&mut list, ready(Status::False, "Starting"), at(1)));
        assert_eq!(list[0].last_transition_time, Some(at(1)));
        assert!(
            !set(&mut list, ready(Status::False, "Starting"), at(2)),
            "unchanged"
        );
        assert!(set(&mut list, ready(Status::False, "Waiting"), at(3)));
        assert_eq!(list[0].last_transition_time, Some(at(1)));
        assert!(set(
            &mut list,
            ready(Status::False, "Waiting").observed_generation(2),
            at(4)
        ));
        assert_eq!(list[0].last_transition_time, Some(at(1)));
        assert!(set(&mut list, ready(Status::True, "Up"), at(5)));
        assert_eq!(list[0].last_transition_time, Some(at(5)));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn foreign_conditions_are_preserved() {
        let theirs = json!([
            {"type": "Theirs", "status": "True", "reason": "Because", "message": "m",
             "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Ready", "status": "True", "reason": "Up", "message": "",
             "lastTransitionTime": "2026-01-02T00:00:00Z"},
        ]);
        let mut list: Vec<Condition> = serde_json::from_value(theirs.clone()).expect("conditions");
        assert_eq!(serde_json::to_value(&list).expect("JSON"), theirs);
        assert!(set(&mut list, ready(Status::False, "Down"), at(0)));
        let after = serde_json::to_value(&list).expect("JSON");
        assert_eq!(after[0], theirs[0]);
        assert_eq!(after[1]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn conditions_are_found_and_removed_by_type() {
        let mut list = Vec::new();
        set(&mut list, ready(Status::True, "Up"), at(0));
        assert!(find(&list, "Ready").is_some() && find(&list, "Other").is_none());
        assert!(!remove(&mut list, "Other"));
        assert!(remove(&mut list, "Ready") && list.is_empty());
    }

    #[test]
    fn transition_time_has_whole_seconds_and_a_missing_one_is_set() {
        let mut list = vec![ready(Status::True, "Up")];
        let fine = Timestamp::new(7, 500).expect("a time");
        assert!(set(&mut list, ready(Status::True, "Up"), fine));
        assert_eq!(list[0].last_transition_time, Some(at(7)));
    }

    #[test]
    fn unknown_status_is_read_and_long_message_is_truncated() {
        let odd: Condition = serde_json::from_value(json!({"type": "A", "status": "Perhaps"})).expect("one");
        assert_eq!(odd.status, Status::Unknown);
        let long = "é".repeat(MAX_MESSAGE);
        let cut = Condition::new("A", Status::True, "Up", &long).message;
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('é'));
    }

    #[test]
    fn reason_must_match_the_api_pattern() {
        for good in ["Up", "a", "A_1", "Up:1", "A,b"] {
            assert!(is_reason(good), "{good}");
        }
        for bad in ["", "1a", "two words", "End:", "dash-ed", "É"] {
            assert!(!is_reason(bad), "{bad}");
        }
    }
}
