//! Label selectors, in query syntax (`app=web,tier in (a,b),!old`) and as `LabelSelector` objects.

mod parse;

use std::collections::BTreeSet;

use super::SelectorError;
use crate::json::Value;
use crate::registry::json::{entries, list, text};

/// A conjunction of requirements. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses the `labelSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(Self {
            requirements: parse::requirements(text)?,
            nothing: false,
        })
    }

    /// Reports whether the labels, an object of strings, meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &Value) -> bool {
        !self.nothing
            && self.requirements.iter().all(|r| {
                let value = labels.get(&r.key).and_then(Value::as_str);
                match &r.test {
                    Test::Exists => value.is_some(),
                    Test::Missing => value.is_none(),
                    Test::In(set) => value.is_some_and(|v| set.contains(v)),
                    Test::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
                    Test::Greater(than) => value
                        .and_then(|v| v.parse::<i64>().ok())
                        .is_some_and(|v| v > *than),
                    Test::Less(than) => value
                        .and_then(|v| v.parse::<i64>().ok())
                        .is_some_and(|v| v < *than),
                }
            })
    }

    /// Reports whether the selector has no requirements.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }
}

/// Converts a `LabelSelector` object (`matchLabels`, `matchExpressions`). A missing selector selects nothing, and an empty
/// selector selects everything.
#[must_use]
pub fn from_json(selector: Option<&Value>) -> LabelSelector {
    let requirements = selector
        .filter(|selector| !selector.is_null())
        .and_then(requirements);
    LabelSelector {
        nothing: requirements.is_none(),
        requirements: requirements.unwrap_or_default(),
    }
}

/// Returns `None` for an unknown operator, which validation rejects and which must not widen the selection.
fn requirements(selector: &Value) -> Option<Vec<Requirement>> {
    let label = |(key, value): (&str, &Value)| Requirement {
        key: key.to_owned(),
        test: Test::In(BTreeSet::from([text(value).to_owned()])),
    };
    let expression = |expression: &Value| {
        let values = || {
            list(&expression["values"])
                .iter()
                .map(|value| text(value).to_owned())
        };
        let test = match text(&expression["operator"]) {
            "In" => Test::In(values().collect()),
            "NotIn" => Test::NotIn(values().collect()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::Missing,
            _ => return None,
        };
        let key = text(&expression["key"]).to_owned();
        Some(Requirement { key, test })
    };
    let labels = entries(&selector["matchLabels"]).map(|entry| Some(label(entry)));
    let expressions = list(&selector["matchExpressions"]).iter().map(expression);
    labels.chain(expressions).collect()
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn objects() {
        let web = json!({"app": "web"});
        assert!(!from_json(None).matches(&web), "no selector selects nothing");
        assert!(
            from_json(Some(&json!({}))).matches(&web),
            "an empty one everything"
        );
        let in_set = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]});
        assert!(from_json(Some(&in_set)).matches(&web));
        let odd = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
        assert!(
            !from_json(Some(&odd)).matches(&web),
            "an unknown operator selects nothing"
        );
    }
}
