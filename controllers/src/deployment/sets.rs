//! The `ReplicaSets` of a Deployment: which one is that of the present template, and what becomes of each.
//!
//! The new one is the oldest whose template is the same. If none is, it is the one that has the name which the present
//! template leads to, and whose spec nobody has touched since it was made: then somebody between us and the store, a webhook
//! perhaps, changes what we send, and would do so again. Such a one is marked with the template that was sent, and stays the
//! new one of that template whatever becomes of it, also when a newer API server adds defaults to both.
//! One that somebody has changed later is another one, and so is one whose name comes from its own template, under a hash
//! that both happen to have.

use std::collections::BTreeMap;
use std::sync::Arc;

use coxswain_manager::object::Text;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ReplicaSet;
use super::bounds::Bounds;
use super::revision;
use crate::support::annotations;
use crate::support::deployment::Deployment;
use crate::support::pod_template::{Canonical, is_still, normalized};
use crate::support::template_hash::{self, Hash};

/// How far the number of collisions is followed back.
const COLLISIONS: i64 = 100;

/// A `ReplicaSet`, as it is and as it shall be.
#[derive(Clone, Debug)]
pub struct Set {
    /// As it is.
    pub object: Arc<ReplicaSet>,
    /// How many pods it shall have.
    pub replicas: i64,
    /// Annotations that it shall have.
    pub annotations: BTreeMap<Text, Text>,
    /// For how long its pods have to be ready to be available.
    pub min_ready_seconds: i64,
    /// It is known by its name, as its template was changed on its way into the store.
    pub changed: bool,
}

/// All of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// That of the present template.
    pub new: Option<Set>,
    /// All others, the oldest first.
    pub old: Vec<Set>,
}

impl Set {
    /// One that stays as it is.
    #[must_use]
    pub fn of(object: Arc<ReplicaSet>) -> Self {
        Self {
            replicas: object.replicas(),
            annotations: BTreeMap::new(),
            min_ready_seconds: object.min_ready_seconds(),
            changed: false,
            object,
        }
    }

    /// Whether it has pods, or shall have.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// How many pods serve, of those that will stay: whoever follows may not have taken note of its size yet.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.object
            .status
            .available_replicas
            .clamp(0, self.replicas.max(0))
    }

    /// Gives it this size, and says for which Deployment.
    pub fn scale(&mut self, replicas: i64, bounds: &Bounds) {
        self.replicas = replicas;
        self.annotations.extend(revision::sizes(bounds));
    }

    /// What its Deployment wanted when it was last scaled.
    #[must_use]
    pub fn desired(&self) -> Option<i64> {
        revision::number(&self.object.annotations, annotations::DESIRED)
    }

    /// The revision that it has, or shall have.
    #[must_use]
    pub fn revision(&self) -> Option<Text> {
        let new = self.annotations.get(annotations::REVISION);
        new.or_else(|| self.object.annotations.get(annotations::REVISION))
            .cloned()
    }

    /// Before which others it comes.
    #[must_use]
    pub fn age(&self) -> (Option<Timestamp>, Text) {
        let meta = &self.object.metadata;
        (meta.creation_timestamp, meta.name.clone())
    }

    /// What has to be written.
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

impl Sets {
    /// Finds the new one among those of `deployment`, whose template has this form.
    #[must_use]
    pub fn of(deployment: &Deployment, template: &Canonical, all: &[Arc<ReplicaSet>]) -> Self {
        let mut old: Vec<Set> = all.iter().cloned().map(Set::of).collect();
        old.sort_by_cached_key(Set::age);
        let forms: Vec<Canonical> = old
            .iter()
            .map(|it| Canonical::of(&it.object.template().text))
            .collect();
        let equal = forms.iter().position(|it| it == template);
        let marked = || {
            let now = normalized(&deployment.template().text);
            let at = old.iter().position(|it| is_marked_with(&it.object, &now))?;
            Some((at, true))
        };
        let named = || {
            let (owner, count) = (&deployment.metadata.name, deployment.status.collision_count);
            let name = template_hash::name(owner, &Hash::of(template).text(count));
            let at = old.iter().position(|it| it.object.metadata.name == name)?;
            let changed = is_as_made(&old[at].object) && !is_named_by(&name, owner, &forms[at], count);
            changed.then_some((at, true))
        };
        let new = equal.map(|at| (at, false)).or_else(marked).or_else(named);
        let new = new.map(|(at, changed)| Set {
            changed,
            ..old.remove(at)
        });
        Self { new, old }
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.new.iter().chain(&self.old)
    }

    /// All of them.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        self.new.iter_mut().chain(&mut self.old)
    }

    /// How many pods they shall have.
    #[must_use]
    pub fn replicas(&self) -> i64 {
        self.all().map(|it| it.replicas).sum()
    }

    /// How many pods serve.
    #[must_use]
    pub fn available(&self) -> i64 {
        self.all().map(Set::available).sum()
    }
}

/// Whether it was created from a template that is still `now` the one of its Deployment.
fn is_marked_with(set: &ReplicaSet, now: &Value) -> bool {
    let mark = set.annotations.get(annotations::CHANGED);
    let template = mark.and_then(|it| serde_json::from_str::<Value>(it).ok());
    template.is_some_and(|it| is_still(&it, now, Some(&normalized(&set.template().text))))
}

/// Whether its template is what became of the one that was sent.
fn is_as_made(set: &ReplicaSet) -> bool {
    set.metadata.generation <= 1 || set.annotations.get(annotations::CHANGED).is_some()
}

/// Whether a name comes from a template of this form, at any number of collisions so far.
fn is_named_by(name: &Text, owner: &str, template: &Canonical, collisions: Option<i64>) -> bool {
    let hash = Hash::of(template);
    let last = collisions.unwrap_or(-1);
    let counts = (last - COLLISIONS..=last).filter(|it| *it >= 0).map(Some);
    let mut counts = std::iter::once(None).chain(counts);
    counts.any(|it| template_hash::name(owner, &hash.text(it)) == *name)
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
        let template = Canonical::of(&deployment.template().text);
        let sets = Sets::of(deployment, &template, all);
        assert_eq!(sets.all().count(), all.len());
        sets.new.map(|it| it.object.metadata.name.clone())
    }

    fn name(image: &str, collisions: Option<i64>) -> Text {
        let template = Canonical::of(&json!({"spec": {"image": image}}).to_string());
        template_hash::name("web", &Hash::of(&template).text(collisions))
    }

    #[test]
    fn the_new_one_is_the_oldest_with_the_same_template() {
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
    fn one_that_was_changed_on_its_way_is_known_by_its_name() {
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
    fn one_that_was_changed_later_is_another_one() {
        let changed = |generation: i64, annotations: &Value| {
            let mut it = (*set(&name("one", None), "two", "2026-01-01T00:00:00Z")).clone();
            it.metadata.generation = generation;
            it.annotations = serde_json::from_value(annotations.clone()).expect("annotations");
            new(&deployment("one", None), &[Arc::new(it)])
        };
        assert_eq!(changed(1, &json!({})), Some(name("one", None)));
        assert_eq!(changed(2, &json!({})), None);
        assert_eq!(
            changed(2, &json!({annotations::CHANGED: "true"})),
            Some(name("one", None))
        );
    }

    #[test]
    fn one_that_has_the_name_by_chance_is_another_one() {
        // As if both templates had one hash: the name of the one comes from its own template.
        let template = Canonical::of(&json!({"spec": {"image": "one"}}).to_string());
        for count in [None, Some(0), Some(2)] {
            assert!(
                is_named_by(&name("one", count), "web", &template, Some(2)),
                "{count:?}"
            );
        }
        assert!(!is_named_by(&name("one", Some(3)), "web", &template, Some(2)));
        assert!(!is_named_by(
            &name("one", Some(i64::MAX - 1)),
            "web",
            &template,
            None
        ));
    }

    #[test]
    fn only_what_changes_is_written() {
        let mut it = Set::of(set("a", "one", "2026-01-01T00:00:00Z"));
        assert_eq!(it.patch(), None);
        assert_eq!(it.available(), 2, "no more than will stay");
        it.annotations.insert("a".into(), "b".into());
        assert_eq!(it.patch(), None, "it has that");
        let bounds = Bounds {
            replicas: 2,
            surge: 1,
            unavailable: 0,
            rolling: true,
        };
        it.scale(2, &bounds);
        let lock = json!({"uid": "a", "resourceVersion": "5"});
        let mut metadata = lock.clone();
        metadata["annotations"] = json!({annotations::DESIRED: "2", annotations::MAX: "3"});
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
