//! Label selectors, for the desired state at rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

pub(super) type Labels<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// A label selector.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Selector<'a> {
    #[serde(borrow)]
    match_labels: Option<Labels<'a>>,
    #[serde(borrow)]
    match_expressions: Option<Vec<Requirement<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Requirement<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    operator: Cow<'a, str>,
    #[serde(borrow, default)]
    values: Option<Vec<Cow<'a, str>>>,
}

impl<'a> Selector<'a> {
    /// Returns the selector of labels with these values.
    pub(super) fn equal(labels: Labels<'a>) -> Self {
        Self {
            match_labels: Some(labels),
            match_expressions: None,
        }
    }

    /// Reports whether the labels match. An empty selector matches nothing.
    pub(super) fn matches(&self, labels: &Labels<'_>) -> bool {
        let equal = self.match_labels.iter().flatten();
        let required = self.match_expressions.iter().flatten();
        let is_empty = equal.clone().next().is_none() && required.clone().next().is_none();
        !is_empty
            && equal
                .into_iter()
                .all(|(key, value)| labels.get(key) == Some(value))
            && required.into_iter().all(|it| it.matches(labels))
    }
}

impl Requirement<'_> {
    fn matches(&self, labels: &Labels<'_>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = || value.is_some_and(|value| self.values.iter().flatten().any(|it| it == value));
        match &*self.operator {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_and_labels_must_all_match() {
        let matches = |selector: &str, labels: &str| {
            let selector: Selector<'_> = serde_json::from_str(selector).expect("a selector");
            selector.matches(&serde_json::from_str(labels).expect("labels"))
        };
        let equal = r#"{"matchLabels": {"app": "web"}}"#;
        assert!(matches(equal, r#"{"app": "web", "x": "y"}"#));
        assert!(!matches(equal, r#"{"app": "other"}"#) && !matches(equal, "{}") && !matches("{}", "{}"));
        for (operator, set, missing) in [
            ("In", true, false),
            ("NotIn", false, true),
            ("Exists", true, false),
            ("DoesNotExist", false, true),
        ] {
            let selector = format!(
                r#"{{"matchExpressions": [{{"key": "app", "operator": "{operator}", "values": ["web"]}}]}}"#
            );
            assert_eq!(matches(&selector, r#"{"app": "web"}"#), set, "{operator}");
            assert_eq!(matches(&selector, "{}"), missing, "{operator}");
        }
    }
}
