//! What is read of an owner, whatever its kind.

use coxswain_manager::object::decode::null_is_default;
use coxswain_manager::object::{Interner, Meta, Object, Pairs, Uid};
use coxswain_manager::selector::{LabelSelector, Selector, SelectorError};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::status::Status;

/// An owner of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire")]
pub struct Owner {
    /// Its metadata, without the annotations.
    pub metadata: Meta,
    /// The annotations, for whoever manages it: all but what `kubectl apply` keeps for itself.
    pub annotations: Pairs,
    spec: Spec,
    /// Its status, as far as it is written here.
    pub status: Status,
}

/// What `kubectl apply` keeps of what it was given: a copy of the whole object.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

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
}

/// The selector, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chosen(Result<Selector, SelectorError>);

/// The template of its pods, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// The JSON text; empty if there is none.
    pub text: Box<str>,
    /// The labels in it.
    pub labels: Pairs,
}

impl Owner {
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

    /// Which pods it means.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.spec.selector.0.as_ref()
    }

    /// What its pods are made from.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// The uid of whoever manages it.
    #[must_use]
    pub fn manager(&self) -> Option<&Uid> {
        self.metadata.controller().map(|it| &it.uid)
    }
}

impl Object for Owner {
    // Every sync of a Deployment asks for ReplicaSets to adopt.
    const INDEX_UNMANAGED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }

    fn intern(&mut self, interner: &mut Interner) {
        self.metadata.intern(interner);
        intern_keys(&mut self.annotations, interner);
        for condition in &mut self.status.conditions {
            interner.intern(&mut condition.type_);
            interner.intern(&mut condition.reason);
        }
    }

    fn bytes(&self) -> usize {
        let annotations: usize = self.annotations.iter().map(|(_, value)| value.len()).sum();
        size_of_val(self) + self.metadata.heap_bytes() + annotations + self.spec.template.text.len()
    }
}

impl From<Wire> for Owner {
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

/// Moves the annotations out of the metadata, which would lose them on its way into a cache.
pub(crate) fn take_annotations(metadata: &mut Meta) -> Pairs {
    let all = std::mem::take(&mut metadata.annotations);
    let kept = all.iter().filter(|(key, _)| **key != *LAST_APPLIED);
    kept.cloned().collect()
}

/// Shares the keys, which many objects have in common.
pub(crate) fn intern_keys(pairs: &mut Pairs, interner: &mut Interner) {
    let shared = pairs.iter().cloned().map(|(mut key, value)| {
        interner.intern(&mut key);
        (key, value)
    });
    *pairs = shared.collect();
}

impl Default for Chosen {
    fn default() -> Self {
        Self(Err(SelectorError::Empty))
    }
}

/// A `ReplicationController` has a map of labels where newer kinds have a selector. They cannot be confused: the values in
/// the one are texts, in the other never.
impl<'de> Deserialize<'de> for Chosen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Labels(Pairs),
            Selector(LabelSelector),
        }
        Ok(Self(match Option::<Form>::deserialize(deserializer)? {
            None => Err(SelectorError::Empty),
            Some(Form::Labels(labels)) => Selector::from_labels(&labels),
            Some(Form::Selector(written)) => Selector::new(&written),
        }))
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labelled {
            #[serde(deserialize_with = "null_is_default")]
            metadata: Labels,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labels {
            #[serde(deserialize_with = "null_is_default")]
            labels: Pairs,
        }
        let Some(raw) = Option::<Box<RawValue>>::deserialize(deserializer)? else {
            return Ok(Self::default());
        };
        let labelled: Labelled = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            text: Box::<str>::from(raw),
            labels: labelled.metadata.labels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(json: &str) -> Owner {
        serde_json::from_str(json).expect("an owner")
    }

    fn labels(pairs: &[(&'static str, &'static str)]) -> Pairs {
        pairs.iter().copied().collect()
    }

    #[test]
    fn both_forms_of_a_selector_are_read() {
        let meant = labels(&[("app", "web")]);
        for json in [
            r#"{"spec":{"selector":{"app":"web"}}}"#,
            r#"{"spec":{"selector":{"matchLabels":{"app":"web"}}}}"#,
            r#"{"spec":{"selector":{"matchLabels":null,"matchExpressions":[{"key":"app","operator":"Exists"}]}}}"#,
        ] {
            let owner = owner(json);
            let selector = owner.selector().expect("a selector");
            assert!(
                selector.matches(&meant) && !selector.matches(&labels(&[])),
                "{json}"
            );
        }
        for json in [
            "{}",
            r#"{"spec":null}"#,
            r#"{"spec":{"selector":null}}"#,
            r#"{"spec":{"selector":{}}}"#,
            r#"{"spec":{"selector":{"matchLabels":{}}}}"#,
        ] {
            assert_eq!(owner(json).selector(), Err(&SelectorError::Empty), "{json}");
        }
    }

    #[test]
    fn annotations_are_kept_but_for_the_copy_of_the_object() {
        let owner = owner(&format!(
            r#"{{"metadata":{{"annotations":{{"a":"b","{LAST_APPLIED}":"{{}}"}}}}}}"#
        ));
        assert_eq!(owner.annotations, labels(&[("a", "b")]));
        assert_eq!(owner.metadata.annotations, Pairs::default());
    }

    #[test]
    fn the_template_is_kept_as_it_was_written() {
        let template = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"unheard":[1, 2.50]}}"#;
        let owner = owner(&format!(r#"{{"spec":{{"replicas":3,"template":{template}}}}}"#));
        assert_eq!(&*owner.template().text, template);
        assert_eq!(owner.template().labels, labels(&[("a", "b")]));
        assert_eq!(owner.replicas(), 3);
        assert_eq!(
            super::tests::owner(r#"{"spec":{"template":null}}"#).template(),
            &Template::default()
        );
        assert_eq!(super::tests::owner("{}").replicas(), 1);
    }
}
