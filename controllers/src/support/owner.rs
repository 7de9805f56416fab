//! The fields of a `ReplicaSet`, `ReplicationController` or `AppReplicaSet` that the controllers read.

use serde::{Deserialize, Deserializer};
use steersman_manager::conditions::Condition;
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{Interner, Meta, Object, StringMap, Text, Uid};
use steersman_manager::selector::{LabelSelector, Selector, SelectorError};

use super::annotations::{TEMPLATE_CHANGED, Wire, intern_keys};
use super::pod_template::{Canonical, Template};
use super::template_hash::Hash;

/// A `ReplicaSet`, `ReplicationController` or `AppReplicaSet`: the owner of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Wire<Spec, Status>")]
pub struct Owner {
    /// Without the annotations.
    pub metadata: Meta,
    /// All annotations except last-applied-configuration.
    pub annotations: StringMap,
    /// The hash of the template in the annotation [`TEMPLATE_CHANGED`].
    pub sent_template: Option<Hash>,
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
}

/// The parsed selector, or its error.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredSelector(Result<Selector, SelectorError>);

/// The status of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "plain data")]
pub struct Status {
    /// The number of active pods.
    #[serde(deserialize_with = "null_is_default")]
    pub replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub fully_labeled_replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub ready_replicas: i64,
    #[serde(deserialize_with = "null_is_default")]
    pub available_replicas: i64,
    /// None if the kind or the API server does not have the field.
    pub terminating_replicas: Option<i64>,
    /// None if the kind or the API server does not have the field.
    pub selector: Option<Text>,
    #[serde(deserialize_with = "null_is_default")]
    pub observed_generation: i64,
    /// All conditions, including those of other clients.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

impl Owner {
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

    /// Returns the selector of its pods.
    pub fn selector(&self) -> Result<&Selector, &SelectorError> {
        self.spec.selector.0.as_ref()
    }

    /// Returns the pod template.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// Returns the uid of its controller, such as a Deployment.
    #[must_use]
    pub fn manager(&self) -> Option<&Uid> {
        self.metadata.controller().map(|it| &it.uid)
    }
}

impl Object for Owner {
    // Every sync of a Deployment looks for ReplicaSets to adopt.
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

impl From<Wire<Spec, Status>> for Owner {
    fn from(wire: Wire<Spec, Status>) -> Self {
        let (metadata, annotations, spec, status) = wire.parts();
        let sent = annotations.get(TEMPLATE_CHANGED);
        Self {
            sent_template: sent.map(|it| Hash::of(&Canonical::of(it))),
            metadata,
            annotations,
            spec,
            status,
        }
    }
}

impl Default for StoredSelector {
    fn default() -> Self {
        Self(Err(SelectorError::Empty))
    }
}

/// A `ReplicationController` has a map of labels instead of a label selector. Only the map has strings as values.
impl<'de> Deserialize<'de> for StoredSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Labels(StringMap),
            Selector(LabelSelector),
        }
        Ok(Self(match Option::<Form>::deserialize(deserializer)? {
            None => Err(SelectorError::Empty),
            Some(Form::Labels(labels)) => Selector::from_labels(&labels),
            Some(Form::Selector(written)) => Selector::new(&written),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::annotations::LAST_APPLIED;

    fn owner(json: &str) -> Owner {
        serde_json::from_str(json).expect("an owner")
    }

    fn labels(pairs: &[(&'static str, &'static str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn both_forms_of_a_selector_are_decoded() {
        let matching = labels(&[("app", "web")]);
        for json in [
            r#"{"spec":{"selector":{"app":"web"}}}"#,
            r#"{"spec":{"selector":{"matchLabels":{"app":"web"}}}}"#,
            r#"{"spec":{"selector":{"matchLabels":null,"matchExpressions":[{"key":"app","operator":"Exists"}]}}}"#,
        ] {
            let owner = owner(json);
            let selector = owner.selector().expect("a selector");
            assert!(
                selector.matches(&matching) && !selector.matches(&labels(&[])),
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
    fn last_applied_configuration_is_dropped() {
        let owner = owner(&format!(
            r#"{{"metadata":{{"annotations":{{"a":"b","{LAST_APPLIED}":"{{}}"}}}}}}"#
        ));
        assert_eq!(owner.annotations, labels(&[("a", "b")]));
        assert_eq!(owner.metadata.annotations, StringMap::default());
    }

    #[test]
    fn template_text_is_kept_verbatim() {
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

    #[test]
    fn escapes_of_the_api_server_take_no_memory() {
        const SIZE: usize = 100_000;
        let (escaped, plain) = ("\\u003c".repeat(SIZE), "<".repeat(SIZE));
        let json = |args: &str| format!(r#"{{"spec":{{"template":{{"spec":{{"args":["{args}"]}}}}}}}}"#);
        let mut decoded = None;
        let kept = allocation_counter::measure(|| decoded = Some(owner(&json(&escaped)))).bytes_current;
        let decoded = decoded.expect("an owner");
        assert_eq!(decoded, owner(&json(&plain)));
        let kept = usize::try_from(kept).expect("a size");
        assert!(kept < SIZE + 1000, "{kept} bytes");
        assert!(decoded.bytes() < SIZE + 1000, "{} bytes", decoded.bytes());
    }

    #[test]
    fn manager_is_the_controller_of_the_owner() {
        let references = r#"[{"uid":"a"},{"uid":"b","controller":true}]"#;
        let owned = owner(&format!(r#"{{"metadata":{{"ownerReferences":{references}}}}}"#));
        assert_eq!(owned.manager(), Some(&Uid::from("b")));
        assert_eq!(owner("{}").manager(), None);
    }

    #[test]
    fn bytes_include_annotations_and_template() {
        let empty = owner("{}");
        let text = empty.template().text.len();
        for (json, bytes) in [
            (r#"{"metadata":{"name":"abc"}}"#, 3),
            (r#"{"metadata":{"annotations":{"a":"12345"}}}"#, 5),
            (
                r#"{"spec":{"template":{"metadata":{}}}}"#,
                r#"{"metadata":{}}"#.len() - text,
            ),
        ] {
            assert_eq!(owner(json).bytes(), empty.bytes() + bytes, "{json}");
        }
    }

    #[test]
    fn repeated_strings_are_shared() {
        let mut interner = Interner::default();
        let [a, b] = [(); 2].map(|()| {
            let mut it = owner(r#"{"metadata":{"namespace":"default"}}"#);
            it.intern(&mut interner);
            it
        });
        assert!(a.metadata.namespace.shares(&b.metadata.namespace));
    }
}
