//! The way of changes to one subscriber.
//!
//! A slow subscriber blocks nobody: what it has not taken waits here, and of several changes of one key only the first
//! state and the last are kept, and one for each other owner or set of labels in between: whoever has read that state from
//! the cache must learn that it is over. So the backlog is bounded by the number of keys, unless these change hands all the
//! time, and a subscriber that catches up sees what has changed since it last looked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Delta;
use crate::object::{Key, Object};

/// The end that changes come out of. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription<T> {
    shared: Arc<Shared<T>>,
    /// The rest of a change that makes several, such as one object gone, another in its place.
    next: VecDeque<Delta<T>>,
}

/// The end that changes are put into. Dropping it ends the subscription, once it is empty.
#[derive(Debug)]
pub(crate) struct Publisher<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    backlog: Mutex<Backlog<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct Backlog<T> {
    /// The keys in `pending`, in the order of their first change that was not taken.
    order: VecDeque<Key>,
    pending: BTreeMap<Key, Pending<T>>,
    /// One of the ends is gone.
    closed: bool,
}

/// All that has happened to one key since the subscriber looked.
#[derive(Debug)]
struct Pending<T> {
    before: Before<T>,
    /// States in between that concerned others than those at both ends.
    between: Vec<Arc<T>>,
    now: Now<T>,
    /// All of it is the present state of a cache that was filled.
    initial: bool,
}

#[derive(Debug)]
enum Before<T> {
    /// The subscriber was told of nothing that is still there.
    Nothing,
    /// The last state that the subscriber was told.
    Told(Arc<T>),
    /// The first thing that happened was a deletion, of what the subscriber may or may not have been told.
    Gone(Arc<T>),
}

#[derive(Debug)]
enum Now<T> {
    There(Arc<T>),
    Gone(Arc<T>),
}

pub(crate) fn channel<T: Object>() -> (Publisher<T>, Subscription<T>) {
    let shared = Arc::new(Shared {
        backlog: Mutex::new(Backlog {
            order: VecDeque::new(),
            pending: BTreeMap::new(),
            closed: false,
        }),
        changed: Notify::new(),
    });
    let publisher = Publisher(shared.clone());
    let next = VecDeque::new();
    (publisher, Subscription { shared, next })
}

impl<T: Object> Publisher<T> {
    /// Puts a change into the backlog; false if nobody will take it.
    pub(crate) fn publish(&self, delta: Delta<T>) -> bool {
        let key = delta.key();
        let open = self.0.backlog(|backlog| {
            if backlog.closed {
                return false;
            }
            if let Some(pending) = backlog.pending.get_mut(&key) {
                pending.add(delta);
            } else {
                backlog.pending.insert(key.clone(), Pending::from(delta));
                backlog.order.push_back(key);
            }
            true
        });
        if open {
            self.0.changed.notify_one();
        }
        open
    }

    /// How many keys have changes that were not taken.
    pub(super) fn len(&self) -> usize {
        self.0.backlog(|backlog| backlog.order.len())
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        self.0.backlog(|backlog| backlog.closed = true);
        self.0.changed.notify_one();
    }
}

impl<T: Object> Subscription<T> {
    /// The next change; none once the cache is gone and all was taken.
    ///
    /// Cancel safe: no change is lost with the future.
    pub async fn next(&mut self) -> Option<Delta<T>> {
        loop {
            if let Some(delta) = self.try_next() {
                return Some(delta);
            }
            if self.shared.backlog(|backlog| backlog.closed) {
                return self.try_next();
            }
            self.shared.changed.notified().await;
        }
    }

    /// The next change, if there is one now.
    pub fn try_next(&mut self) -> Option<Delta<T>> {
        if let Some(delta) = self.next.pop_front() {
            return Some(delta);
        }
        let pending = self.shared.backlog(|backlog| {
            let key = backlog.order.pop_front()?;
            backlog.pending.remove(&key)
        })?;
        self.next = pending.deltas();
        self.next.pop_front()
    }

    /// How many keys have changes that were not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.backlog(|backlog| backlog.order.len()) + usize::from(!self.next.is_empty())
    }

    /// Whether everything was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.shared.backlog(|backlog| {
            backlog.closed = true;
            backlog.order.clear();
            backlog.pending.clear();
        });
    }
}

impl<T> Shared<T> {
    fn backlog<R>(&self, with: impl FnOnce(&mut Backlog<T>) -> R) -> R {
        with(&mut self.backlog.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> From<Delta<T>> for Pending<T> {
    fn from(delta: Delta<T>) -> Self {
        match delta {
            Delta::Added { new, initial } => Self {
                before: Before::Nothing,
                between: Vec::new(),
                now: Now::There(new),
                initial,
            },
            Delta::Updated { old, new } => Self {
                before: Before::Told(old),
                between: Vec::new(),
                now: Now::There(new),
                initial: false,
            },
            Delta::Deleted { last } => Self {
                before: Before::Gone(last.clone()),
                between: Vec::new(),
                now: Now::Gone(last),
                initial: false,
            },
        }
    }
}

impl<T: Object> Pending<T> {
    fn add(&mut self, delta: Delta<T>) {
        self.initial &= matches!(delta, Delta::Added { initial: true, .. });
        self.pass(delta.latest());
        self.now = match delta {
            Delta::Added { new, .. } | Delta::Updated { new, .. } => {
                // The one that was deleted in between is another one: the subscriber has to be told.
                if let (Before::Nothing, [], Now::Gone(last)) = (&self.before, &*self.between, &self.now) {
                    self.before = Before::Gone(last.clone());
                }
                Now::There(new)
            }
            Delta::Deleted { last } => Now::Gone(last),
        };
    }

    /// Keeps the present state, if it concerns others than `next` and than those that will be told anyway.
    fn pass(&mut self, next: &Arc<T>) {
        let (Now::There(now) | Now::Gone(now)) = &self.now;
        let first = match &self.before {
            Before::Nothing => None,
            Before::Told(old) | Before::Gone(old) => Some(old),
        };
        let told = first.into_iter().chain(&self.between).chain([next]);
        if !told.into_iter().any(|it| concerns_the_same(it, now)) {
            self.between.push(now.clone());
        }
    }

    fn deltas(self) -> VecDeque<Delta<T>> {
        let mut deltas = VecDeque::new();
        let mut before = self.before;
        for state in self.between {
            deltas.extend(step(before, Now::There(state.clone()), false));
            before = Before::Told(state);
        }
        deltas.extend(step(before, self.now, self.initial));
        deltas
    }
}

/// One change, or two if one would hide something: that the object is another one than before, or that it was not
/// deleted in the state that the subscriber knows, which may have belonged to somebody else.
fn step<T: Object>(before: Before<T>, now: Now<T>, initial: bool) -> impl Iterator<Item = Delta<T>> {
    let same = |a: &Arc<T>, b: &Arc<T>| a.meta().uid == b.meta().uid;
    let (first, second) = match (before, now) {
        (Before::Nothing, Now::There(new)) => (Delta::Added { new, initial }, None),
        (Before::Nothing, Now::Gone(last)) => (Delta::Deleted { last }, None),
        (Before::Told(old), Now::There(new)) if same(&old, &new) => (Delta::Updated { old, new }, None),
        (Before::Told(old), Now::Gone(last)) if same(&old, &last) => {
            if old == last {
                (Delta::Deleted { last }, None)
            } else {
                let new = last.clone();
                (Delta::Updated { old, new }, Some(Delta::Deleted { last }))
            }
        }
        (Before::Gone(old), Now::Gone(last)) if same(&old, &last) && concerns_the_same(&old, &last) => {
            (Delta::Deleted { last }, None)
        }
        (Before::Told(old) | Before::Gone(old), Now::There(new)) => {
            (Delta::Deleted { last: old }, Some(Delta::Added { new, initial }))
        }
        (Before::Told(old) | Before::Gone(old), Now::Gone(last)) => {
            (Delta::Deleted { last: old }, Some(Delta::Deleted { last }))
        }
    };
    [Some(first), second].into_iter().flatten()
}

/// Whether two states belong to the same owners, and are selected by the same ones.
fn concerns_the_same<T: Object>(a: &Arc<T>, b: &Arc<T>) -> bool {
    let (a, b) = (a.meta(), b.meta());
    a.owner_references == b.owner_references && a.labels == b.labels
}

#[cfg(test)]
mod tests;
