//! The state that all checks read, and the violations that they find.

use std::time::Duration;

use super::super::record::Violation;
use super::kinds::Kinds;
use super::model::{Model, Object, Reference, Target};
use super::requests::{Actor, Requests, Sent, Verb};
use super::rules::Rules;
use super::symbols::{Symbol, Symbols};

/// The state of the run so far.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) rules: Rules,
    pub(super) symbols: Symbols,
    pub(super) kinds: Kinds,
    pub(super) model: Model,
    pub(super) requests: Requests,
    /// The time of the last fact.
    pub(super) now: Duration,
    /// The number of facts.
    pub(super) position: u64,
    pub(super) faults: usize,
    /// The time of the last slow response (F14).
    pub(super) last_slow: Option<Duration>,
    /// The end of the faults.
    pub(super) quiet: Option<Duration>,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) uid: Symbol,
    pub(super) old: Option<Object>,
    pub(super) revision: u64,
    pub(super) at: Duration,
    /// The request of a process that names this object. None for changes by the user and by the API itself.
    pub(super) request: Option<Sent>,
    /// Whether the storage was restored from a backup with this state.
    pub(super) is_restored: bool,
}

/// The violations of one fact.
#[derive(Clone, Debug, Default)]
pub(super) struct Found(pub(super) Vec<Violation>);

impl Found {
    pub(super) fn add(&mut self, invariant: &'static str, message: String) {
        self.0.push(Violation { invariant, message });
    }
}

impl Change {
    pub(super) fn actor(&self) -> Option<Actor> {
        self.request.as_ref().and_then(|it| it.actor)
    }

    /// Returns the request if this agent sent it.
    pub(super) fn by(&self, agent: Symbol) -> Option<&Sent> {
        self.request.as_ref().filter(|it| it.agent == agent)
    }

    /// Reports whether the change starts or completes the deletion of an object that was not terminating.
    pub(super) fn is_deletion(&self, new: Option<&Object>) -> bool {
        self.old.as_ref().is_some_and(|old| !old.terminating) && new.is_none_or(|new| new.terminating)
    }
}

impl Context {
    pub(super) fn resolve<'a>(&'a self, object: &'a Object, reference: &Reference) -> Target<'a> {
        self.model.resolve(&self.kinds, object, reference)
    }

    pub(super) fn text(&self, symbol: Symbol) -> &str {
        self.symbols.text(symbol)
    }

    /// Returns resource, key, uid and revision of an object.
    pub(super) fn name(&self, object: &Object) -> String {
        format!(
            "{} {} (uid {}, revision {})",
            self.text(object.collection),
            self.key(object),
            self.text(object.uid),
            object.revision
        )
    }

    /// Returns namespace and name of an object.
    pub(super) fn key(&self, object: &Object) -> String {
        let (namespace, name) = (self.text(object.namespace), self.text(object.name));
        if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}/{name}")
        }
    }

    pub(super) fn reference(&self, reference: &Reference) -> String {
        format!(
            "{} {} {} (uid {})",
            self.text(reference.api_version),
            self.text(reference.kind),
            self.text(reference.name),
            self.text(reference.uid)
        )
    }

    /// Returns the sender of a request and its time.
    pub(super) fn sender(&self, sent: &Sent) -> String {
        let process = sent
            .actor
            .map_or("the user".to_owned(), |it| format!("process {}", it.process));
        let agent = self.text(sent.agent);
        format!("{agent} in {process}, sent at {:?}", sent.at)
    }

    /// Reports whether a set of resources and keys contains an object.
    pub(super) fn is_in(&self, set: &std::collections::BTreeSet<(String, String)>, object: &Object) -> bool {
        !set.is_empty() && set.contains(&(self.text(object.collection).to_owned(), self.key(object)))
    }

    /// Reports whether a write counts: Leases, Events and reviews do not, and nodes are not part of the product.
    pub(super) fn counts(&self, sent: &Sent) -> bool {
        sent.actor.is_some()
            && sent.verb.is_write()
            && sent.agent != super::symbols::KUBELET
            && !self.is_unfenced(sent)
    }

    /// Reports whether a process may send a write without being the leader.
    pub(super) fn is_unfenced(&self, sent: &Sent) -> bool {
        use super::symbols::{EVENTS, LEASES, NEW_EVENTS};
        if matches!(sent.collection, EVENTS | NEW_EVENTS | LEASES) {
            return true;
        }
        let collection = self.text(sent.collection);
        let is_review =
            collection.ends_with(".authentication.k8s.io") || collection.ends_with(".authorization.k8s.io");
        is_review || sent.is_subresource && sent.verb == Verb::Create && collection == "serviceaccounts"
    }
}
