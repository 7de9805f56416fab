//! The queue of changes to one subscriber.
//!
//! The initial state is not queued: a scan reads it from the store, in the order of the keys, before the queued changes. A
//! change of an object that the scan has not reached is queued with the state before it, and the scan skips the object.
//!
//! A slow subscriber does not block the cache: its changes wait here, and several changes of one key are merged into one
//! from the first to the last state. A state in between with other owners or labels is kept: a controller may have read it
//! from the cache, and has to be triggered when it changes. So the backlog is bounded by the number of keys, unless owners
//! and labels change all the time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Delta;
use super::store::Partition;
use crate::object::{Key, Object};
use crate::trace::{self, Span};

/// The receiving end. Dropping it ends the subscription.
pub struct Subscription<T> {
    shared: Arc<Shared<T>>,
    snapshot: Box<dyn Snapshot<T>>,
    /// The remaining deltas of a merged change, for example a delete and an add under one name.
    next: VecDeque<Delta<T>>,
    /// The watch event of the last delta; none if it was listed or is not traced.
    event: Option<Span>,
}

/// The sending end. After it is dropped, the subscription ends when it is empty.
#[derive(Debug)]
pub(crate) struct Publisher<T>(Arc<Shared<T>>);

#[derive(Debug)]
pub(super) struct Shared<T> {
    backlog: Mutex<Backlog<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct Backlog<T> {
    /// The initial states that the subscriber has not received completely.
    scans: VecDeque<Scan>,
    /// The keys of `pending`, in the order of their first change.
    order: VecDeque<Key>,
    pending: BTreeMap<Key, Pending<T>>,
    /// One of the ends was dropped.
    closed: bool,
}

/// The initial state of a partition.
#[derive(Debug)]
struct Scan {
    partition: Partition,
    /// The last object that was read.
    after: Option<Key>,
}

/// Access to the objects of a store, under its lock.
pub(super) trait Snapshot<T>: Send + Sync {
    /// Returns the next object of a scan.
    fn next(&self, shared: &Shared<T>) -> Option<Arc<T>>;
    /// Returns the number of objects that the scans have not reached.
    fn remaining(&self, shared: &Shared<T>) -> usize;
}

/// No objects.
#[cfg(test)]
struct NoSnapshot;

/// The merged changes of one key that the subscriber has not received.
#[derive(Debug)]
struct Pending<T> {
    before: Before<T>,
    /// States in between with other owners or labels than those at both ends.
    between: Vec<Arc<T>>,
    now: Now<T>,
    /// All changes are initial adds.
    initial: bool,
    /// The first watch event that is traced.
    event: Option<Span>,
}

#[derive(Debug)]
enum Before<T> {
    /// The subscriber received no state, or a delete.
    Absent,
    /// The last state that the subscriber received.
    Received(Arc<T>),
    /// The first change is a delete of an object that the subscriber may not have received.
    Deleted(Arc<T>),
}

#[derive(Debug)]
enum Now<T> {
    Present(Arc<T>),
    Deleted(Arc<T>),
}

#[cfg(test)]
pub(crate) fn channel<T: Object>() -> (Publisher<T>, Subscription<T>) {
    channel_over(Box::new(NoSnapshot))
}

/// Returns both ends of a queue with the initial states in `snapshot`.
pub(super) fn channel_over<T: Object>(snapshot: Box<dyn Snapshot<T>>) -> (Publisher<T>, Subscription<T>) {
    let shared = Arc::new(Shared {
        backlog: Mutex::new(Backlog {
            scans: VecDeque::new(),
            order: VecDeque::new(),
            pending: BTreeMap::new(),
            closed: false,
        }),
        changed: Notify::new(),
    });
    let publisher = Publisher(shared.clone());
    let subscription = Subscription {
        shared,
        snapshot,
        next: VecDeque::new(),
        event: None,
    };
    (publisher, subscription)
}

impl<T: Object> Publisher<T> {
    #[cfg(test)]
    pub(crate) fn publish(&self, delta: Delta<T>) -> bool {
        self.publish_in(Partition::new(0), delta)
    }

    /// Adds the initial state of a partition, of which no change was published.
    pub(super) fn scan(&self, partition: Partition) {
        let after = None;
        self.0
            .backlog(|backlog| backlog.scans.push_back(Scan { partition, after }));
        self.0.changed.notify_one();
    }

    /// Returns false if the subscription has ended.
    pub(super) fn is_open(&self) -> bool {
        self.0.backlog(|backlog| !backlog.closed)
    }

    /// Adds a change of a partition to the backlog. Returns false if the subscription has ended.
    pub(super) fn publish_in(&self, partition: Partition, delta: Delta<T>) -> bool {
        let key = delta.key();
        let open = self.0.backlog(|backlog| {
            if backlog.closed {
                return false;
            }
            let event = trace::current();
            if let Some(pending) = backlog.pending.get_mut(&key) {
                pending.add(delta);
                pending.event = pending.event.take().or(event);
            } else {
                let mut pending = match delta {
                    // The subscriber has not received the old state.
                    Delta::Updated { old, new } if backlog.is_ahead(partition, &key) => {
                        let initial = true;
                        let mut pending = Pending::from(Delta::Added {
                            new: old.clone(),
                            initial,
                        });
                        pending.add(Delta::Updated { old, new });
                        pending
                    }
                    delta => Pending::from(delta),
                };
                pending.event = event;
                backlog.pending.insert(key.clone(), pending);
                backlog.order.push_back(key);
            }
            true
        });
        if open {
            self.0.changed.notify_one();
        }
        open
    }

    /// Returns the number of keys with pending changes, and of objects that scans of a store have not reached.
    pub(super) fn len(&self, objects: impl Fn(Partition, Option<&Key>) -> Vec<Key>) -> usize {
        let queued = self.0.backlog(|backlog| backlog.order.len());
        queued + self.0.remaining(objects)
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        self.0.backlog(|backlog| backlog.closed = true);
        self.0.changed.notify_one();
    }
}

impl<T: Object> Subscription<T> {
    /// Waits for the next change. Returns none once the cache is dropped and all changes were received. Cancel safe.
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

    /// Returns the next change, if there is one.
    pub fn try_next(&mut self) -> Option<Delta<T>> {
        if let Some(delta) = self.next.pop_front() {
            return Some(delta);
        }
        if self.shared.backlog(|backlog| !backlog.scans.is_empty())
            && let Some(new) = self.snapshot.next(&self.shared)
        {
            self.event = None;
            let initial = true;
            return Some(Delta::Added { new, initial });
        }
        let mut pending = self.shared.backlog(|backlog| {
            let key = backlog.order.pop_front()?;
            backlog.pending.remove(&key)
        })?;
        self.event = pending.event.take();
        self.next = pending.deltas();
        self.next.pop_front()
    }

    /// Returns the span of the watch event of the last change.
    pub(crate) fn event(&self) -> Option<&Span> {
        self.event.as_ref()
    }

    /// Returns the number of keys with pending changes.
    #[must_use]
    pub fn len(&self) -> usize {
        let queued = self.shared.backlog(|backlog| backlog.order.len());
        queued + self.snapshot.remaining(&self.shared) + usize::from(!self.next.is_empty())
    }

    /// Returns true if no changes are pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.shared.backlog(|backlog| {
            backlog.closed = true;
            backlog.scans.clear();
            backlog.order.clear();
            backlog.pending.clear();
        });
    }
}

#[cfg(test)]
impl<T> Snapshot<T> for NoSnapshot {
    fn next(&self, _: &Shared<T>) -> Option<Arc<T>> {
        None
    }

    fn remaining(&self, _: &Shared<T>) -> usize {
        0
    }
}

impl<T> std::fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<T: Object> Shared<T> {
    /// Returns the next object of the scans. `next` returns the object after a key of a partition.
    pub(super) fn next(&self, next: impl Fn(Partition, Option<&Key>) -> Option<Arc<T>>) -> Option<Arc<T>> {
        self.backlog(|backlog| {
            while let Some(scan) = backlog.scans.front_mut() {
                let Some(object) = next(scan.partition, scan.after.as_ref()) else {
                    backlog.scans.pop_front();
                    continue;
                };
                let key = object.meta().key();
                let is_pending = backlog.pending.contains_key(&key);
                scan.after = Some(key);
                if !is_pending {
                    return Some(object);
                }
            }
            None
        })
    }
}

impl<T> Shared<T> {
    /// Returns the number of objects that the scans have not reached. `objects` returns the keys after one of a partition.
    pub(super) fn remaining(&self, objects: impl Fn(Partition, Option<&Key>) -> Vec<Key>) -> usize {
        self.backlog(|backlog| {
            let scans = backlog.scans.iter();
            let keys = scans.flat_map(|scan| objects(scan.partition, scan.after.as_ref()));
            keys.filter(|key| !backlog.pending.contains_key(key)).count()
        })
    }

    fn backlog<R>(&self, with: impl FnOnce(&mut Backlog<T>) -> R) -> R {
        with(&mut self.backlog.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Backlog<T> {
    /// Returns true if a scan has not reached this key.
    fn is_ahead(&self, partition: Partition, key: &Key) -> bool {
        let mut scans = self.scans.iter().filter(|scan| scan.partition == partition);
        scans.any(|scan| scan.after.as_ref().is_none_or(|after| key > after))
    }
}

impl<T> From<Delta<T>> for Pending<T> {
    fn from(delta: Delta<T>) -> Self {
        match delta {
            Delta::Added { new, initial } => Self {
                before: Before::Absent,
                between: Vec::new(),
                now: Now::Present(new),
                initial,
                event: None,
            },
            Delta::Updated { old, new } => Self {
                before: Before::Received(old),
                between: Vec::new(),
                now: Now::Present(new),
                initial: false,
                event: None,
            },
            Delta::Deleted { last } => Self {
                before: Before::Deleted(last.clone()),
                between: Vec::new(),
                now: Now::Deleted(last),
                initial: false,
                event: None,
            },
        }
    }
}

impl<T: Object> Pending<T> {
    fn add(&mut self, delta: Delta<T>) {
        self.initial &= matches!(delta, Delta::Added { initial: true, .. });
        self.keep_current(delta.latest());
        self.now = match delta {
            Delta::Added { new, .. } | Delta::Updated { new, .. } => {
                // Another object was deleted in between: the subscriber has to receive the delete.
                if let (Before::Absent, [], Now::Deleted(last)) = (&self.before, &*self.between, &self.now) {
                    self.before = Before::Deleted(last.clone());
                }
                Now::Present(new)
            }
            Delta::Deleted { last } => Now::Deleted(last),
        };
    }

    /// Keeps the current state, unless `next` or another state to send has the same owners and labels.
    fn keep_current(&mut self, next: &Arc<T>) {
        let (Now::Present(now) | Now::Deleted(now)) = &self.now;
        let first = match &self.before {
            Before::Absent => None,
            Before::Received(old) | Before::Deleted(old) => Some(old),
        };
        let sent = first.into_iter().chain(&self.between).chain([next]);
        if !sent.into_iter().any(|it| has_same_owners_and_labels(it, now)) {
            self.between.push(now.clone());
        }
    }

    fn deltas(self) -> VecDeque<Delta<T>> {
        let mut deltas = VecDeque::new();
        let mut before = self.before;
        for state in self.between {
            deltas.extend(deltas_between(before, Now::Present(state.clone()), false));
            before = Before::Received(state);
        }
        deltas.extend(deltas_between(before, self.now, self.initial));
        deltas
    }
}

/// Returns one delta, or two if the object was replaced by another one, or if it was deleted in another state than the
/// subscriber received, which may have had other owners.
fn deltas_between<T: Object>(
    before: Before<T>,
    now: Now<T>,
    initial: bool,
) -> impl Iterator<Item = Delta<T>> {
    let same = |a: &Arc<T>, b: &Arc<T>| a.meta().uid == b.meta().uid;
    let (first, second) = match (before, now) {
        (Before::Absent, Now::Present(new)) => (Delta::Added { new, initial }, None),
        (Before::Absent, Now::Deleted(last)) => (Delta::Deleted { last }, None),
        (Before::Received(old), Now::Present(new)) if same(&old, &new) => (Delta::Updated { old, new }, None),
        (Before::Received(old), Now::Deleted(last)) if same(&old, &last) => {
            if old == last {
                (Delta::Deleted { last }, None)
            } else {
                let new = last.clone();
                (Delta::Updated { old, new }, Some(Delta::Deleted { last }))
            }
        }
        (Before::Deleted(old), Now::Deleted(last))
            if same(&old, &last) && has_same_owners_and_labels(&old, &last) =>
        {
            (Delta::Deleted { last }, None)
        }
        (Before::Received(old) | Before::Deleted(old), Now::Present(new)) => {
            (Delta::Deleted { last: old }, Some(Delta::Added { new, initial }))
        }
        (Before::Received(old) | Before::Deleted(old), Now::Deleted(last)) => {
            (Delta::Deleted { last: old }, Some(Delta::Deleted { last }))
        }
    };
    [Some(first), second].into_iter().flatten()
}

fn has_same_owners_and_labels<T: Object>(a: &Arc<T>, b: &Arc<T>) -> bool {
    let (a, b) = (a.meta(), b.meta());
    a.owner_references == b.owner_references && a.labels == b.labels
}

#[cfg(test)]
mod tests;
