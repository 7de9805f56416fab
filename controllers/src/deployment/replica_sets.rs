//! The `ReplicaSets` of a Deployment: the new one of the current template, the old ones, and their planned state.
//!
//! The new `ReplicaSet` is the oldest with an equal template. If there is none, it is the one with the name that the
//! current template hashes to and with an unchanged spec since its creation: a webhook, for example, changed its
//! template on creation, and would do so again. It is annotated with the template that was sent, and stays the new one
//! of that template even if an API server upgrade adds defaults to both. A `ReplicaSet` that was changed after its
//! creation, or whose own template hashes to the same name, is an old one. An annotation counts only if the
//! `ReplicaSet` has the name of the template in it: other controllers and `kubectl rollout undo` copy annotations.
//!
//! Templates are compared by the hashes that they were decoded with. Only the search for a `ReplicaSet` from before an
//! upgrade compares texts, and only if there is no other new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::object::Text;
use steersman_manager::revived;

use super::ReplicaSet;
use super::bounds::Bounds;
use super::revision;
use crate::support::annotations;
use crate::support::deployment::Deployment;
use crate::support::pod_template::{self, Template, normalized};
use crate::support::template_hash::{self, Hash};

/// The number of earlier collision counts that a name is compared with.
const COLLISION_COUNTS: i64 = 100;
/// The maximum number of `ReplicaSets` from before an API server upgrade whose templates are compared in one sync.
const COMPARED_MAX: usize = 10;
/// The maximum size of such a template: of one in an annotation, with additions by webhooks and the API server.
const COMPARED_BYTES_MAX: usize = 2 * revision::TEMPLATE_BYTES_MAX;

/// A `ReplicaSet` with its planned state.
#[derive(Clone, Debug)]
pub struct PlannedReplicaSet {
    /// The observed object.
    pub object: Arc<ReplicaSet>,
    /// The planned size.
    pub replicas: i64,
    /// Planned annotations, in addition to the present ones.
    pub annotations: BTreeMap<Text, Text>,
    /// The planned minReadySeconds.
    pub min_ready_seconds: i64,
    /// Only the name identifies it, because its template was changed on creation.
    pub is_named_by_template: bool,
}

/// All `ReplicaSets` of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct ReplicaSets {
    /// The one of the current template.
    pub new: Option<PlannedReplicaSet>,
    /// All others, oldest first.
    pub old: Vec<PlannedReplicaSet>,
}

impl PlannedReplicaSet {
    /// Plans no change.
    #[must_use]
    pub fn of(object: Arc<ReplicaSet>) -> Self {
        Self {
            replicas: object.replicas(),
            annotations: BTreeMap::new(),
            min_ready_seconds: object.min_ready_seconds(),
            is_named_by_template: false,
            object,
        }
    }

    /// Reports whether the planned size is not 0.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// Returns the number of available pods, at most the present and the planned size: the status may be older than both, and pods
    /// above the present size are being deleted.
    #[must_use]
    pub fn available(&self) -> i64 {
        let size = self.replicas.min(self.object.replicas());
        self.object.status.available_replicas.clamp(0, size.max(0))
    }

    /// Plans a size and the annotations that record the bounds.
    pub fn scale(&mut self, replicas: i64, bounds: &Bounds) {
        self.replicas = replicas;
        self.annotations.extend(revision::sizes(bounds));
    }

    /// Returns the desired number of pods of the Deployment when the `ReplicaSet` was last scaled.
    #[must_use]
    pub fn desired(&self) -> Option<i64> {
        revision::number(&self.object.annotations, annotations::DESIRED_REPLICAS)
    }

    /// Returns the planned or else the present revision.
    #[must_use]
    pub fn revision(&self) -> Option<Text> {
        let new = self.annotations.get(annotations::REVISION);
        new.or_else(|| self.object.annotations.get(annotations::REVISION))
            .cloned()
    }

    /// The sort key for oldest first.
    #[must_use]
    pub fn age(&self) -> (Option<Timestamp>, Text) {
        let meta = &self.object.metadata;
        (meta.creation_timestamp, meta.name.clone())
    }

    /// Returns the merge patch to the planned state; none if nothing changes.
    #[must_use]
    pub fn patch(&self) -> Option<Value> {
        let present = &self.object;
        let mut spec = serde_json::Map::new();
        if self.replicas != present.replicas() {
            spec.insert("replicas".to_owned(), json!(self.replicas));
        }
        if self.min_ready_seconds != present.min_ready_seconds() {
            spec.insert("minReadySeconds".to_owned(), json!(self.min_ready_seconds));
        }
        let annotations: BTreeMap<&Text, &Text> = self
            .annotations
            .iter()
            .filter(|(key, value)| present.annotations.get(key) != Some(*value))
            .collect();
        if spec.is_empty() && annotations.is_empty() {
            return None;
        }
        let mut patch = json!({"metadata": present.metadata.preconditions()});
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = json!(annotations);
        }
        if !spec.is_empty() {
            patch["spec"] = Value::Object(spec);
        }
        Some(patch)
    }
}

impl ReplicaSets {
    /// Splits the `ReplicaSets` of `deployment` into new and old.
    #[must_use]
    pub fn of(deployment: &Deployment, all: &[Arc<ReplicaSet>]) -> Self {
        let mut old: Vec<PlannedReplicaSet> = all.iter().cloned().map(PlannedReplicaSet::of).collect();
        old.sort_by_cached_key(PlannedReplicaSet::age);
        let (owner, count) = (&deployment.metadata.name, deployment.status.collision_count);
        let hash = deployment.template().hash;
        let equal = old.iter().position(|it| it.object.template().hash == hash);
        let annotated = || {
            old.iter().position(|it| {
                it.object.sent_template == Some(hash) && is_annotated(&it.object, owner, count)
            })
        };
        let named = || {
            let name = template_hash::name(owner, &hash.text(count));
            let at = old.iter().position(|it| it.object.metadata.name == name)?;
            let set = &old[at].object;
            let is_changed_on_creation =
                is_unchanged(set, owner, count) && !is_named_by(&name, owner, set.template().hash, count);
            is_changed_on_creation.then_some(at)
        };
        let changed = || {
            let annotated = annotated().map(|at| (at, false));
            let named = || named().map(|at| (at, true));
            let upgraded = || before_upgrade(deployment, &old).map(|at| (at, false));
            annotated
                .or_else(named)
                .or_else(upgraded)
                .filter(|_| !revived!(R2))
        };
        let new = equal.map(|at| (at, false)).or_else(changed);
        let new = new.map(|(at, is_named_by_template)| PlannedReplicaSet {
            is_named_by_template,
            ..old.remove(at)
        });
        Self { new, old }
    }

    /// Returns the new one, then the old ones.
    pub fn all(&self) -> impl Iterator<Item = &PlannedReplicaSet> {
        self.new.iter().chain(&self.old)
    }

    /// Returns the new one, then the old ones.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut PlannedReplicaSet> {
        self.new.iter_mut().chain(&mut self.old)
    }

    /// Returns the sum of the planned sizes.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.all().map(|it| it.replicas).sum()
    }

    /// Returns the number of available pods.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.all().map(PlannedReplicaSet::available).sum()
    }
}

/// Finds the youngest `ReplicaSet` that was created from the current template before an upgrade of the API server added
/// defaults to both.
fn before_upgrade(deployment: &Deployment, sets: &[PlannedReplicaSet]) -> Option<usize> {
    let (owner, count) = (&deployment.metadata.name, deployment.status.collision_count);
    let is_small = |template: &Template| template.text.len() <= COMPARED_BYTES_MAX;
    let now = deployment.template();
    if !is_small(now) {
        return None;
    }
    let candidates = sets.iter().enumerate().rev();
    let mut candidates = candidates
        .filter(|(_, it)| is_annotated(&it.object, owner, count) && is_small(it.object.template()))
        .take(COMPARED_MAX)
        .peekable();
    candidates.peek()?;
    let now = normalized(&now.text);
    let found = candidates.find(|(_, it)| {
        let sent = it.object.annotations.get(annotations::TEMPLATE_CHANGED);
        let (sent, stored) = (sent.map_or("", |it| it), &it.object.template().text);
        pod_template::is_unchanged(&normalized(sent), &now, Some(&normalized(stored)))
    });
    found.map(|(at, _)| at)
}

/// Reports whether `set` has the annotation with the template that it was created from.
fn is_annotated(set: &ReplicaSet, owner: &str, collisions: Option<i64>) -> bool {
    set.sent_template
        .is_some_and(|it| is_named_by(&set.metadata.name, owner, it, collisions))
}

/// Reports whether the template has not changed since the creation.
fn is_unchanged(set: &ReplicaSet, owner: &str, collisions: Option<i64>) -> bool {
    let annotation = set.annotations.get(annotations::TEMPLATE_CHANGED);
    set.metadata.generation <= 1
        || annotation.is_some_and(|it| **it == *revision::TEMPLATE_TOO_LARGE)
        || is_annotated(set, owner, collisions)
}

/// Reports whether a template hashes to the name, at any collision count so far.
fn is_named_by(name: &Text, owner: &str, template: Hash, collisions: Option<i64>) -> bool {
    let last = collisions.unwrap_or(-1);
    let counts = (last - COLLISION_COUNTS..=last).filter(|it| *it >= 0).map(Some);
    let mut counts = std::iter::once(None).chain(counts);
    counts.any(|it| template_hash::name(owner, &template.text(it)) == *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, image: &str, created: &str) -> Arc<ReplicaSet> {
        let json = json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "5", "creationTimestamp": created,
                         "annotations": {"a": "b"}},
            "spec": {"replicas": 2, "template": {"metadata": {"labels": {"pod-template-hash": name}},
                                                 "spec": {"image": image}}},
            "status": {"availableReplicas": 7},
        });
        Arc::new(serde_json::from_value(json).expect("a set"))
    }

    fn deployment(image: &str, collisions: Option<i64>) -> Deployment {
        let json = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"image": image}}},
                          "status": {"collisionCount": collisions}});
        serde_json::from_value(json).expect("a Deployment")
    }

    fn new(deployment: &Deployment, all: &[Arc<ReplicaSet>]) -> Option<Text> {
        let sets = ReplicaSets::of(deployment, all);
        assert_eq!(sets.all().count(), all.len());
        sets.new.map(|it| it.object.metadata.name.clone())
    }

    fn name(image: &str, collisions: Option<i64>) -> Text {
        template_hash::name("web", &deployment(image, None).template().hash.text(collisions))
    }

    #[test]
    fn new_set_is_the_oldest_with_an_equal_template() {
        let (old, young) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let all = [
            set("c", "two", old),
            set("b", "one", young),
            set("a", "two", young),
        ];
        assert_eq!(new(&deployment("two", None), &all).as_deref(), Some("c"));
        assert_eq!(new(&deployment("one", None), &all).as_deref(), Some("b"));
        assert_eq!(new(&deployment("three", None), &all), None);
        let twins = [set("z", "two", old), set("y", "two", old)];
        assert_eq!(
            new(&deployment("two", None), &twins).as_deref(),
            Some("y"),
            "by name"
        );
    }

    #[test]
    fn set_changed_on_creation_is_identified_by_name() {
        for count in [None, Some(0), Some(3)] {
            let changed = set(&name("one", count), "one-and-a-sidecar", "2026-01-01T00:00:00Z");
            assert_eq!(
                new(&deployment("one", count), std::slice::from_ref(&changed)),
                Some(name("one", count))
            );
            assert_eq!(new(&deployment("two", count), &[changed]), None);
        }
    }

    #[test]
    fn set_changed_after_creation_is_old() {
        let changed = |generation: i64, annotations: &Value| {
            let set = annotated(&name("one", None), "two", generation, annotations);
            new(&deployment("one", None), &[set])
        };
        assert_eq!(changed(1, &json!({})), Some(name("one", None)));
        assert_eq!(changed(2, &json!({})), None);
        assert_eq!(
            changed(2, &json!({annotations::TEMPLATE_CHANGED: "true"})),
            Some(name("one", None))
        );
    }

    fn annotated(name: &str, image: &str, generation: i64, annotations: &Value) -> Arc<ReplicaSet> {
        let json = json!({
            "metadata": {"name": name, "uid": name, "generation": generation, "annotations": annotations},
            "spec": {"template": {"spec": {"image": image}}},
        });
        Arc::new(serde_json::from_value(json).expect("a set"))
    }

    #[test]
    fn set_annotated_with_the_template_is_new_under_each_of_its_names() {
        let sent = |image: &str| {
            let sent = revision::template_changed(&deployment(image, None).template().text);
            json!({annotations::TEMPLATE_CHANGED: sent})
        };
        let is_new = |name: &str, image: &str| {
            let annotated = annotated(name, "one-and-a-sidecar", 5, &sent(image));
            new(&deployment("one", Some(3)), &[annotated]).is_some()
        };
        for count in [None, Some(0), Some(2)] {
            assert!(is_new(&name("one", count), "one"), "{count:?}");
        }
        assert!(!is_new(&name("two", None), "two"));
        // The annotation was copied from another ReplicaSet.
        for copied_to in ["web-x".into(), name("two", None)] {
            assert!(!is_new(&copied_to, "one"), "{copied_to}");
        }
        let unchanged = annotated(&name("one", Some(3)), "two", 2, &sent("three"));
        assert_eq!(new(&deployment("one", Some(3)), &[unchanged]), None);
    }

    #[test]
    fn set_with_colliding_hash_is_old() {
        let template = deployment("one", None).template().hash;
        for count in [None, Some(0), Some(2)] {
            assert!(
                is_named_by(&name("one", count), "web", template, Some(2)),
                "{count:?}"
            );
        }
        assert!(!is_named_by(&name("one", Some(3)), "web", template, Some(2)));
        // Of the earlier counts, only the last 100 are tried.
        for (count, expected) in [(49, false), (50, true), (150, true), (151, false)] {
            let name = name("one", Some(count));
            assert_eq!(
                is_named_by(&name, "web", template, Some(150)),
                expected,
                "{count}"
            );
        }
        assert!(!is_named_by(
            &name("one", Some(i64::MAX - 1)),
            "web",
            template,
            None
        ));
    }

    #[test]
    fn patch_has_changed_fields_only() {
        let mut it = PlannedReplicaSet::of(set("a", "one", "2026-01-01T00:00:00Z"));
        assert_eq!(it.patch(), None);
        assert_eq!(it.available(), 2, "at most the planned size");
        it.annotations.insert("a".into(), "b".into());
        assert_eq!(it.patch(), None, "already present");
        let bounds = Bounds {
            replicas: 2,
            surge: 1,
            unavailable: 0,
            rolling: true,
        };
        it.scale(2, &bounds);
        let lock = json!({"uid": "a", "resourceVersion": "5"});
        let mut metadata = lock.clone();
        metadata["annotations"] = json!({annotations::DESIRED_REPLICAS: "2", annotations::MAX_REPLICAS: "3"});
        assert_eq!(it.patch(), Some(json!({"metadata": metadata})));
        it.annotations.clear();
        it.replicas = 0;
        it.min_ready_seconds = 5;
        assert_eq!(
            it.patch(),
            Some(json!({"metadata": lock, "spec": {"replicas": 0, "minReadySeconds": 5}}))
        );
    }
}
