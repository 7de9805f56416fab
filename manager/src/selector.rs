//! Label selectors.
//!
//! A [`LabelSelector`] is the API type, a [`Selector`] a validated one. An empty or invalid selector is an error and selects
//! nothing; it never selects everything. A selector is evaluated for the objects of other users too, so the number of its
//! requirements is limited.
//!
//! ```
//! use steersman_manager::selector::{LabelSelector, Selector, SelectorError};
//! use serde_json::{from_value, json};
//!
//! let selector: LabelSelector = from_value(json!({
//!     "matchLabels": {"app": "web"},
//!     "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary"]}],
//! }))?;
//! let selector = Selector::new(&selector)?;
//! assert_eq!(selector.to_string(), "app=web,track notin (canary)");
//! assert!(selector.matches(&[("app", "web"), ("track", "stable")].into_iter().collect()));
//! assert_eq!(Selector::new(&LabelSelector::default()), Err(SelectorError::Empty));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use serde::Deserialize;

use crate::object::decode::null_is_default;
use crate::object::{StringMap, Text};

/// The maximum number of requirements of a selector; each value of `In` and `NotIn` counts as one.
pub const REQUIREMENTS_MAX: usize = 1000;

/// A label selector as in `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct LabelSelector {
    #[serde(deserialize_with = "null_is_default")]
    pub match_labels: StringMap,
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Box<[LabelSelectorRequirement]>,
}

/// A requirement as in `metav1.LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct LabelSelectorRequirement {
    pub key: Text,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Text,
    /// For `In` and `NotIn` only.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Box<[Text]>,
}

/// A valid selector with at least one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Text,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Box<[Text]>),
    NotIn(Box<[Text]>),
    Exists,
    DoesNotExist,
}

/// Errors in a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "plain data")]
pub enum SelectorError {
    #[error("the selector is empty; it must have at least one requirement")]
    Empty,
    #[error("the selector has more than {REQUIREMENTS_MAX} requirements and values")]
    TooMany,
    #[error("a requirement of the selector has no key")]
    NoKey,
    #[error(
        "invalid operator {operator:?} for label {key} in the selector; use In, NotIn, Exists or DoesNotExist"
    )]
    Operator { key: Text, operator: Text },
    #[error("no values for label {key} in the selector; In and NotIn need at least one")]
    NoValues { key: Text },
    #[error("values for label {key} in the selector; Exists and DoesNotExist take none")]
    Values { key: Text },
}

impl Selector {
    /// Returns a selector for exactly these labels.
    pub fn from_labels(labels: &StringMap) -> Result<Self, SelectorError> {
        Self::new(&LabelSelector {
            match_labels: labels.clone(),
            ..LabelSelector::default()
        })
    }

    /// Validates a selector.
    pub fn new(selector: &LabelSelector) -> Result<Self, SelectorError> {
        let expressions = selector.match_expressions.iter();
        let values: usize = expressions.map(|it| it.values.len().max(1)).sum();
        if selector.match_labels.iter().len() + values > REQUIREMENTS_MAX {
            return Err(SelectorError::TooMany);
        }
        let equal = selector.match_labels.iter().map(|(key, value)| {
            Ok(Requirement {
                key: key.clone(),
                operator: Operator::In([value.clone()].into()),
            })
        });
        let requirements: Box<[Requirement]> = equal
            .chain(selector.match_expressions.iter().map(requirement))
            .collect::<Result<_, _>>()?;
        match &*requirements {
            [] => Err(SelectorError::Empty),
            all if all.iter().any(|it| it.key.is_empty()) => Err(SelectorError::NoKey),
            _ => Ok(Self(requirements)),
        }
    }

    /// Reports whether the selector matches an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|Requirement { key, operator }| {
            let present = labels.get(key);
            match operator {
                Operator::In(values) => present.is_some_and(|it| values.contains(it)),
                Operator::NotIn(values) => present.is_none_or(|it| !values.contains(it)),
                Operator::Exists => present.is_some(),
                Operator::DoesNotExist => present.is_none(),
            }
        })
    }
}

/// Formats the selector for `kubectl -l`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, operator }) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match operator {
                Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Operator::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Operator::Exists => f.write_str(key)?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

fn requirement(selector: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = selector;
    let operator = match (&**operator, &**values) {
        ("In" | "NotIn", []) => return Err(SelectorError::NoValues { key: key.clone() }),
        ("In", _) => Operator::In(values.clone()),
        ("NotIn", _) => Operator::NotIn(values.clone()),
        ("Exists", []) => Operator::Exists,
        ("DoesNotExist", []) => Operator::DoesNotExist,
        ("Exists" | "DoesNotExist", _) => return Err(SelectorError::Values { key: key.clone() }),
        _ => {
            return Err(SelectorError::Operator {
                key: key.clone(),
                operator: operator.clone(),
            });
        }
    };
    Ok(Requirement {
        key: key.clone(),
        operator,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    fn read(json: &Value) -> Result<Selector, SelectorError> {
        Selector::new(&serde_json::from_value(json.clone()).expect("a selector"))
    }

    fn labels(text: &str) -> StringMap {
        let pairs = text.split(',').filter(|it| !it.is_empty());
        pairs.filter_map(|it| it.split_once('=')).collect()
    }

    #[test]
    fn operators_match_as_in_kubernetes() {
        let of = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
        // Without the label, with another one, and with two values of it.
        let objects = ["", "b=1", "a=1", "a=2,b=1"];
        for (selector, selected) in [
            (json!({"matchLabels": {"a": "1"}}), [false, false, true, false]),
            (of("In", &["1"]), [false, false, true, false]),
            (of("In", &["1", "2"]), [false, false, true, true]),
            (of("NotIn", &["1"]), [true, true, false, true]),
            (of("Exists", &[]), [false, false, true, true]),
            (of("DoesNotExist", &[]), [true, true, false, false]),
            (
                json!({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
                [false, false, false, true],
            ),
        ] {
            let it = read(&selector).expect("a selector");
            let found = objects.map(|object| it.matches(&labels(object)));
            assert_eq!(found, selected, "{selector}");
        }
    }

    #[test]
    fn selector_is_formatted_for_kubectl() {
        let selector = json!({"matchLabels": {"a": "1", "b": ""}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["1", "2"]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e.com/f", "operator": "Exists"},
            {"key": "g", "operator": "DoesNotExist"},
        ]});
        let text = read(&selector).expect("a selector").to_string();
        assert_eq!(text, "a=1,b=,c in (1,2),d notin (1),e.com/f,!g");
    }

    #[test]
    fn invalid_selector_is_rejected_with_the_reason() {
        let of = |requirement: Value| json!({"matchLabels": {"x": "y"}, "matchExpressions": [requirement]});
        let key = || Text::from("a");
        let many = |count: usize| {
            (0..count)
                .map(|it| (format!("k{it}"), json!("")))
                .collect::<Value>()
        };
        assert!(read(&json!({"matchLabels": many(REQUIREMENTS_MAX)})).is_ok());
        for (selector, error) in [
            (json!({}), SelectorError::Empty),
            (
                json!({"matchLabels": null, "matchExpressions": null}),
                SelectorError::Empty,
            ),
            (json!({"matchLabels": {"": "1"}}), SelectorError::NoKey),
            (
                json!({"matchLabels": many(REQUIREMENTS_MAX + 1)}),
                SelectorError::TooMany,
            ),
            (
                json!({"matchLabels": many(REQUIREMENTS_MAX), "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
                SelectorError::TooMany,
            ),
            (
                of(json!({"key": "a", "operator": "In", "values": vec!["1"; REQUIREMENTS_MAX]})),
                SelectorError::TooMany,
            ),
            (
                of(json!({"key": "a", "operator": "In"})),
                SelectorError::NoValues { key: key() },
            ),
            (
                of(json!({"key": "a", "operator": "NotIn", "values": null})),
                SelectorError::NoValues { key: key() },
            ),
            (
                of(json!({"key": "a", "operator": "Exists", "values": ["1"]})),
                SelectorError::Values { key: key() },
            ),
            (
                of(json!({"key": "a", "operator": "Gt", "values": ["1"]})),
                SelectorError::Operator {
                    key: key(),
                    operator: "Gt".into(),
                },
            ),
        ] {
            assert_eq!(read(&selector), Err(error), "{selector}");
        }
        assert_eq!(
            Selector::from_labels(&StringMap::default()),
            Err(SelectorError::Empty)
        );
    }
}
