//! Conditions of an object, by the API conventions.
//!
//! A list has one [`Condition`] of each type. [`set`] changes the time only when the status changes, and says whether
//! anything has changed: if nothing has, there is nothing to write. Conditions of types that the writer does not know keep
//! their place and their fields; fields that no [`Condition`] has are not kept, so this is not for the conditions of pods
//! and nodes, which have more of them.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::object::Text;
use crate::time::whole_seconds;

/// The longest message that the API takes, in bytes.
const MAX_MESSAGE: usize = 32 * 1024;

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about, in `CamelCase`; at most one of a type is in a list.
    #[serde(rename = "type")]
    pub type_: Text,
    /// Whether it holds.
    pub status: Status,
    /// The generation of the object that it was found for; 0 if there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When the status changed last; none before it is in a list.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub last_transition_time: Option<Timestamp>,
    /// Why, in one `CamelCase` word that programs may rely on.
    pub reason: Text,
    /// Why, for people.
    pub message: Text,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Condition {
    /// A condition that can be [`set`]. A message that is too long is cut.
    ///
    /// # Panics
    /// In debug builds, if the reason is not a word that the API would take: it is part of the program, not input.
    #[must_use]
    pub fn new(type_: &str, status: Status, reason: &'static str, message: &str) -> Self {
        debug_assert!(is_reason(reason), "not a reason: {reason:?}");
        Self {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: message[..message.floor_char_boundary(MAX_MESSAGE)].into(),
            ..Self::default()
        }
    }

    /// The same for what was found at this generation of the object.
    #[must_use]
    pub fn observed_generation(self, generation: i64) -> Self {
        Self {
            observed_generation: generation,
            ..self
        }
    }
}

/// Puts `new` into the list, in the place of the one of its type. True if that changed anything.
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

/// The condition of this type.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Takes the condition of this type out of the list. True if there was one.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != type_);
    conditions.len() < before
}

/// The pattern of the API: a letter first, then letters, digits and `_,:`, and neither of the last two at the end.
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
        Condition::new("Ready", status, reason, "as it is")
    }

    #[test]
    fn the_time_changes_with_the_status_only() {
        let mut list = Vec::new();
        assert!(set(&mut list, ready(Status::False, "Starting"), at(1)));
        assert_eq!(list[0].last_transition_time, Some(at(1)));
        assert!(
            !set(&mut list, ready(Status::False, "Starting"), at(2)),
            "nothing new"
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
    fn what_others_say_keeps_its_place() {
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
    fn they_are_found_and_removed_by_type() {
        let mut list = Vec::new();
        set(&mut list, ready(Status::True, "Up"), at(0));
        assert!(find(&list, "Ready").is_some() && find(&list, "Other").is_none());
        assert!(!remove(&mut list, "Other"));
        assert!(remove(&mut list, "Ready") && list.is_empty());
    }

    #[test]
    fn the_time_has_no_fraction_and_a_missing_one_is_filled_in() {
        let mut list = vec![ready(Status::True, "Up")];
        let fine = Timestamp::new(7, 500).expect("a time");
        assert!(set(&mut list, ready(Status::True, "Up"), fine));
        assert_eq!(list[0].last_transition_time, Some(at(7)));
    }

    #[test]
    fn a_status_that_nobody_knows_is_unknown_and_a_long_message_is_cut() {
        let odd: Condition = serde_json::from_value(json!({"type": "A", "status": "Perhaps"})).expect("one");
        assert_eq!(odd.status, Status::Unknown);
        let long = "é".repeat(MAX_MESSAGE);
        let cut = Condition::new("A", Status::True, "Up", &long).message;
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('é'));
    }

    #[test]
    fn reasons_are_words() {
        for good in ["Up", "a", "A_1", "Up:1", "A,b"] {
            assert!(is_reason(good), "{good}");
        }
        for bad in ["", "1a", "two words", "End:", "dash-ed", "É"] {
            assert!(!is_reason(bad), "{bad}");
        }
    }
}
