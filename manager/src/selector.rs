//! Label selectors: which objects an owner means.
//!
//! A [`LabelSelector`] is what the API writes, a [`Selector`] is one that was understood. One that asks for nothing, or
//! that cannot be understood, is not a selector: whoever has it selects nothing, and can say why. Here an empty selector
//! never means "all".

use std::fmt;

use serde::Deserialize;

use crate::object::decode::null_is_default;
use crate::object::{StringMap, Text};

/// A selector as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with these values.
    #[serde(deserialize_with = "null_is_default")]
    pub match_labels: StringMap,
    /// And all of these.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Box<[LabelSelectorRequirement]>,
}

/// One requirement on a label, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: Text,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Text,
    /// The values, for the first two.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Box<[Text]>,
}

/// A selector that was understood. It asks for at least one thing.
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

/// Why a selector selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It asks for nothing.
    #[error("the selector is empty; it must ask for at least one label")]
    Empty,
    /// A demand without a label.
    #[error("a demand of the selector names no label")]
    NoKey,
    /// An operator that there is not.
    #[error(
        "the selector has the operator {operator:?} for label {key}; use In, NotIn, Exists or DoesNotExist"
    )]
    Operator {
        /// The label.
        key: Text,
        /// What was written.
        operator: Text,
    },
    /// Nothing to compare with.
    #[error("the selector has no values for label {key}; In and NotIn need at least one")]
    NoValues {
        /// The label.
        key: Text,
    },
    /// Something to compare with where nothing is compared.
    #[error("the selector has values for label {key}; Exists and DoesNotExist take none")]
    Values {
        /// The label.
        key: Text,
    },
}

impl Selector {
    /// Labels with exactly these values.
    pub fn from_labels(labels: &StringMap) -> Result<Self, SelectorError> {
        Self::new(&LabelSelector {
            match_labels: labels.clone(),
            ..LabelSelector::default()
        })
    }

    /// What was written, if it can be understood.
    pub fn new(written: &LabelSelector) -> Result<Self, SelectorError> {
        let equal = written.match_labels.iter().map(|(key, value)| {
            Ok(Requirement {
                key: key.clone(),
                operator: Operator::In([value.clone()].into()),
            })
        });
        let requirements: Box<[Requirement]> = equal
            .chain(written.match_expressions.iter().map(requirement))
            .collect::<Result<_, _>>()?;
        match &*requirements {
            [] => Err(SelectorError::Empty),
            all if all.iter().any(|it| it.key.is_empty()) => Err(SelectorError::NoKey),
            _ => Ok(Self(requirements)),
        }
    }

    /// Whether an object with these labels is meant.
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

/// As `kubectl -l` takes it.
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

fn requirement(written: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = written;
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
    fn every_operator_against_every_kind_of_object() {
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
            let it = read(&selector).expect("understood");
            let found = objects.map(|object| it.matches(&labels(object)));
            assert_eq!(found, selected, "{selector}");
        }
    }

    #[test]
    fn it_is_written_as_kubectl_takes_it() {
        let selector = json!({"matchLabels": {"a": "1", "b": ""}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["1", "2"]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e.com/f", "operator": "Exists"},
            {"key": "g", "operator": "DoesNotExist"},
        ]});
        let written = read(&selector).expect("understood").to_string();
        assert_eq!(written, "a=1,b=,c in (1,2),d notin (1),e.com/f,!g");
    }

    #[test]
    fn what_cannot_be_understood_is_refused_with_the_reason() {
        let of = |demand: Value| json!({"matchLabels": {"x": "y"}, "matchExpressions": [demand]});
        let key = || Text::from("a");
        for (selector, error) in [
            (json!({}), SelectorError::Empty),
            (
                json!({"matchLabels": null, "matchExpressions": null}),
                SelectorError::Empty,
            ),
            (json!({"matchLabels": {"": "1"}}), SelectorError::NoKey),
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
