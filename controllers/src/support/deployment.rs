//! What is read of a Deployment.

pub mod condition;

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Interner, Meta, Object, StringMap, Text};
use coxswain_manager::selector::{LabelSelector, Selector, SelectorError};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use self::condition::Condition;
use super::annotations::{intern_keys, take_annotations};
use super::pod_template::Template;

/// What the API takes for no limit.
const UNLIMITED: i64 = i32::MAX as i64;

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Deployment {
    /// Its metadata, without the annotations.
    pub metadata: Meta,
    /// The annotations, but for what `kubectl apply` keeps for itself.
    pub annotations: StringMap,
    spec: Spec,
    /// Its status.
    pub status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    metadata: Meta,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i64>,
    #[serde(deserialize_with = "null_is_default")]
    min_ready_seconds: i64,
    selector: Chosen,
    template: Template,
    #[serde(deserialize_with = "null_is_default")]
    strategy: Strategy,
    #[serde(deserialize_with = "null_is_default")]
    paused: bool,
    revision_history_limit: Option<i64>,
    progress_deadline_seconds: Option<i64>,
}

/// How the pods of one template give way to those of another, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub type_: Text,
    /// How far a rolling update may go.
    #[serde(deserialize_with = "null_is_default")]
    pub rolling_update: Rolling,
}

/// How far a rolling update may go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rolling {
    /// How many pods may be missing.
    pub max_unavailable: Option<Amount>,
    /// How many pods may be too many.
    pub max_surge: Option<Amount>,
}

/// A number, or a percentage in a text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// A number.
    Count(i64),
    /// `25%`.
    Share(Text),
}

/// What is read and written of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that this was found at.
    #[serde(deserialize_with = "null_is_default")]
    pub observed_generation: i64,
    /// Pods of all templates.
    #[serde(deserialize_with = "null_is_default")]
    pub replicas: i64,
    /// Pods of the present template.
    #[serde(deserialize_with = "null_is_default")]
    pub updated_replicas: i64,
    /// Pods that are ready.
    #[serde(deserialize_with = "null_is_default")]
    pub ready_replicas: i64,
    /// Pods that have been ready for long enough.
    #[serde(deserialize_with = "null_is_default")]
    pub available_replicas: i64,
    /// Pods that are missing from what the `ReplicaSets` shall have.
    #[serde(deserialize_with = "null_is_default")]
    pub unavailable_replicas: i64,
    /// Pods that are on their way out; none if that is not known of all.
    pub terminating_replicas: Option<i64>,
    /// How often the name for a template was taken.
    pub collision_count: Option<i64>,
    /// All conditions, those of others too.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// The selector, or why there is none; and as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen {
    selector: Result<Selector, SelectorError>,
    text: Box<str>,
}

impl Deployment {
    /// How many pods it asks for. The API fills in 1 where nothing is said.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// For how long a pod has to be ready to be available.
    #[must_use]
    pub fn min_ready_seconds(&self) -> i64 {
        self.spec.min_ready_seconds
    }

    /// Which `ReplicaSets` it means.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.spec.selector.selector.as_ref()
    }

    /// The selector as it was written, in JSON.
    #[must_use]
    pub fn selector_text(&self) -> &str {
        &self.spec.selector.text
    }

    /// What its pods are made from.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// How its pods are replaced.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.spec.strategy
    }

    /// Whether nothing is to be rolled out.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused
    }

    /// How many old `ReplicaSets` are kept; none for all.
    #[must_use]
    pub fn history_limit(&self) -> Option<usize> {
        let limit = self.spec.revision_history_limit.filter(|it| *it != UNLIMITED)?;
        Some(usize::try_from(limit).unwrap_or(0))
    }

    /// How many seconds a rollout may stand still; none for ever.
    #[must_use]
    pub fn progress_deadline(&self) -> Option<i64> {
        self.spec.progress_deadline_seconds.filter(|it| *it != UNLIMITED)
    }
}

impl From<Wire> for Deployment {
    fn from(wire: Wire) -> Self {
        let Wire {
            mut metadata,
            spec,
            status,
        } = wire;
        Self {
            annotations: take_annotations(&mut metadata),
            metadata,
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

impl Default for Chosen {
    fn default() -> Self {
        Self {
            selector: Err(SelectorError::Empty),
            text: "null".into(),
        }
    }
}

impl<'de> Deserialize<'de> for Chosen {
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
    fn it_is_read_as_it_was_written() {
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
        assert_eq!(rolling.max_surge, Some(Amount::Share("25%".into())));
        assert_eq!(rolling.max_unavailable, Some(Amount::Count(2)));
        assert_eq!((it.replicas(), it.min_ready_seconds()), (3, 4));
        assert_eq!((it.history_limit(), it.progress_deadline()), (Some(0), Some(600)));
        assert!(it.is_paused());
    }

    #[test]
    fn nothing_and_no_limit_are_none() {
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
