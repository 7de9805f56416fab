//! The fields of a Deployment that the controllers read.

pub mod condition;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Interner, Meta, Object, StringMap, Text};
use steersman_manager::selector::{LabelSelector, Selector, SelectorError};

use self::condition::Condition;
use super::annotations::{Wire, intern_keys};
use super::pod_template::Template;

/// The value of `progressDeadlineSeconds` and `revisionHistoryLimit` that means no limit.
const UNLIMITED: i64 = i32::MAX as i64;

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire<Spec, Status>")]
pub struct Deployment {
    /// Without the annotations.
    pub metadata: Meta,
    /// All annotations except last-applied-configuration.
    pub annotations: StringMap,
    spec: Spec,
    #[expect(missing_docs, reason = "plain data")]
    pub status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i64>,
    #[serde(deserialize_with = "null_is_default")]
    min_ready_seconds: i64,
    selector: StoredSelector,
    template: Template,
    #[serde(deserialize_with = "null_is_default")]
    strategy: Strategy,
    #[serde(deserialize_with = "null_is_default")]
    paused: bool,
    revision_history_limit: Option<i64>,
    progress_deadline_seconds: Option<i64>,
}

/// The strategy of a Deployment as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub type_: Text,
    /// The parameters of `RollingUpdate`.
    #[serde(deserialize_with = "null_is_default")]
    pub rolling_update: RollingUpdate,
}

/// The parameters of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct RollingUpdate {
    pub max_unavailable: Option<IntOrPercent>,
    pub max_surge: Option<IntOrPercent>,
}

/// A number or a percentage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "plain data")]
pub enum IntOrPercent {
    Int(i64),
    /// Such as `25%`.
    Percent(Text),
}

/// The status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Status {
    #[serde(deserialize_with = "null_is_default")]
    pub observed_generation: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub updated_replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub ready_replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub available_replicas: i64,
    /// The sizes of all `ReplicaSets` minus the available pods.
    #[serde(deserialize_with = "null_is_default")]
    pub unavailable_replicas: i64,
    /// None if a `ReplicaSet` does not report it.
    pub terminating_replicas: Option<i64>,
    /// The number of name collisions of `ReplicaSets`.
    pub collision_count: Option<i64>,
    /// All conditions, including those of other clients.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// The parsed selector or its error, and its JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredSelector {
    selector: Result<Selector, SelectorError>,
    text: Box<str>,
}

impl Deployment {
    /// Returns the desired number of pods. Defaults to 1.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Returns the number of seconds that a pod must be ready before it is available.
    #[must_use]
    pub fn min_ready_seconds(&self) -> i64 {
        self.spec.min_ready_seconds
    }

    /// Returns the selector of its `ReplicaSets` and pods.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.spec.selector.selector.as_ref()
    }

    /// Returns the JSON text of the selector.
    #[must_use]
    pub fn selector_text(&self) -> &str {
        &self.spec.selector.text
    }

    /// Returns the pod template.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// Returns the rollout strategy.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.spec.strategy
    }

    /// Reports whether rollouts are paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused
    }

    /// Returns the number of old `ReplicaSets` to keep; none for no limit.
    #[must_use]
    pub fn history_limit(&self) -> Option<usize> {
        let limit = self.spec.revision_history_limit.filter(|it| *it != UNLIMITED)?;
        Some(usize::try_from(limit).unwrap_or(0))
    }

    /// Returns the progress deadline in seconds; none for no deadline.
    #[must_use]
    pub fn progress_deadline(&self) -> Option<i64> {
        self.spec.progress_deadline_seconds.filter(|it| *it != UNLIMITED)
    }
}

impl From<Wire<Spec, Status>> for Deployment {
    fn from(wire: Wire<Spec, Status>) -> Self {
        let (metadata, annotations, spec, status) = wire.parts();
        Self {
            metadata,
            annotations,
            spec,
            status,
        }
    }
}

impl Object for Deployment {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        intern_keys(&mut self.annotations, interner);
        interner.intern(&mut self.spec.strategy.type_);
        for condition in &mut self.status.conditions {
            interner.intern(&mut condition.type_);
            interner.intern(&mut condition.reason);
        }
    }

    fn bytes(&self) -> usize {
        let annotations: usize = self.annotations.iter().map(|(_, value)| value.len()).sum();
        let spec = self.spec.template.text.len() + self.spec.selector.text.len();
        size_of_val(self) + self.metadata.heap_bytes() + annotations + spec
    }
}

impl Default for StoredSelector {
    fn default() -> Self {
        Self {
            selector: Err(SelectorError::Empty),
            text: "null".into(),
        }
    }
}

impl<'de> Deserialize<'de> for StoredSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(raw) = Option::<Box<RawValue>>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let written: LabelSelector = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            selector: Selector::new(&written),
            text: Box::<str>::from(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Deployment {
        serde_json::from_str(json).expect("a Deployment")
    }

    #[test]
    fn fields_are_decoded() {
        let selector = r#"{"matchLabels":{"a":"b"}, "matchExpressions":[{"key":"a","operator":"Exists"}]}"#;
        let it = of(&format!(
            r#"{{"metadata":{{"name":"web","annotations":{{"a":"b"}}}},
                "spec":{{"replicas":3,"selector":{selector},"paused":true,"minReadySeconds":4,
                "strategy":{{"type":"RollingUpdate","rollingUpdate":{{"maxSurge":"25%","maxUnavailable":2}}}},
                "template":{{"metadata":{{"labels":{{"a":"b"}}}}}},
                "revisionHistoryLimit":0,"progressDeadlineSeconds":600}}}}"#
        ));
        assert_eq!(it.selector_text(), selector);
        assert!(
            it.selector()
                .is_ok_and(|it| it.matches(&[("a", "b")].into_iter().collect()))
        );
        assert_eq!(it.annotations.get("a").map(|it| &**it), Some("b"));
        let rolling = &it.strategy().rolling_update;
        assert_eq!(rolling.max_surge, Some(IntOrPercent::Percent("25%".into())));
        assert_eq!(rolling.max_unavailable, Some(IntOrPercent::Int(2)));
        assert_eq!((it.replicas(), it.min_ready_seconds()), (3, 4));
        assert_eq!((it.history_limit(), it.progress_deadline()), (Some(0), Some(600)));
        assert!(it.is_paused());
    }

    #[test]
    fn bytes_include_annotations_selector_and_template() {
        let empty = of(r#"{"spec":{"template":null}}"#);
        let text = empty.template().text.len();
        for (json, bytes) in [
            (r#"{"metadata":{"name":"abc"}}"#, 3),
            (r#"{"metadata":{"annotations":{"a":"12345"}}}"#, 5),
            (
                r#"{"spec":{"selector":{"matchLabels":{"a":"b"}}}}"#,
                r#"{"matchLabels":{"a":"b"}}"#.len() - "null".len(),
            ),
            (
                r#"{"spec":{"template":{"metadata":{}}}}"#,
                r#"{"metadata":{}}"#.len() - text,
            ),
        ] {
            assert_eq!(of(json).bytes(), empty.bytes() + bytes, "{json}");
        }
    }

    #[test]
    fn repeated_strings_are_shared() {
        let mut interner = Interner::default();
        let [a, b] = [(); 2].map(|()| {
            let mut it = of(r#"{"spec":{"strategy":{"type":"Recreate"}}}"#);
            it.intern(&mut interner);
            it
        });
        assert!(a.strategy().type_.shares(&b.strategy().type_));
    }

    #[test]
    fn missing_and_unlimited_values_are_none() {
        for spec in [
            "null",
            "{}",
            r#"{"selector":null,"strategy":null,"paused":null,"template":null}"#,
            r#"{"revisionHistoryLimit":2147483647,"progressDeadlineSeconds":2147483647}"#,
        ] {
            let it = of(&format!(r#"{{"spec":{spec},"status":null}}"#));
            assert_eq!(
                (it.history_limit(), it.progress_deadline()),
                (None, None),
                "{spec}"
            );
            assert_eq!(it.selector(), Err(&SelectorError::Empty), "{spec}");
            assert_eq!((it.replicas(), it.is_paused()), (1, false), "{spec}");
        }
    }
}
