//! Read-your-writes: a sync waits until the caches have seen what the last one wrote.
//!
//! A controller records each write for the object that it reconciles, before that key is done, and asks before the next
//! sync of it whether the caches have come that far. What is not in a cache proves nothing by itself: after a create it
//! may not be there *yet*. See [`Write::seen`].

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::object::{Key, Resource, Uid, Version};

/// A cache that has not shown a write for so long may never do so, because the object is out of its scope, or because
/// its watch is stuck: it has to list again.
const STUCK: Duration = Duration::from_secs(30);

/// The writes that no cache is known to have seen, by the object that they were made for.
#[derive(Debug, Default)]
pub struct Written(Mutex<BTreeMap<Key, BTreeMap<Resource, Vec<Record>>>>);

/// A write that was answered.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object that was written.
    pub object: Key,
    /// Which one it was.
    pub uid: Uid,
    /// The version that the answer gave it; none if it gave none, as for a deletion that was completed.
    pub version: Version,
    /// When the answer was there.
    pub at: Instant,
    /// The cache has shown this very object, by its uid, at any time before. Then, if the cache does not have it any more,
    /// it has seen the object's deletion, which comes after the write.
    pub seen: bool,
}

#[derive(Debug)]
struct Record {
    write: Write,
    epoch: u64,
}

/// Whether a sync may read the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// They have seen all that was written.
    Ready,
    /// One has not: put the key back.
    Behind {
        /// Whose cache it is.
        resource: Resource,
        /// For how long.
        since: Duration,
    },
    /// One has not for so long that it must be told to list again.
    Stuck {
        /// Whose cache it is.
        resource: Resource,
    },
}

/// How far a cache has come.
#[derive(Clone, Debug)]
pub struct ViewState {
    /// Everything up to this version is in it.
    pub version: Version,
    /// How often versions began anew.
    pub epoch: u64,
    /// When the last list that is in it was begun: one that the server may not answer from the past. If there are
    /// several, because of several namespaces, the one that was begun first.
    pub list_begun_at: Option<Instant>,
}

/// The caches, as far as this module asks.
pub trait Views {
    /// How far the cache of a resource has come; none if there is none, and so nothing to wait for.
    fn view(&self, resource: &Resource) -> Option<ViewState>;

    /// Which object is under a key, and its newest version, whether or not its state could be decoded.
    fn holds(&self, resource: &Resource, object: &Key) -> Option<(Uid, Version)>;
}

impl Written {
    /// Remembers a write, made while `owner` was reconciled.
    pub fn record(&self, owner: &Key, resource: &Resource, write: Write, views: &dyn Views) {
        let Some(view) = views.view(resource) else {
            return;
        };
        let record = Record {
            write,
            epoch: view.epoch,
        };
        self.records(|owners| {
            let resources = owners.entry(owner.clone()).or_default();
            add(resources.entry(resource.clone()).or_default(), record);
        });
    }

    /// Whether the caches have seen all that was written for `owner`; of several that have not, the one that is behind
    /// for longest.
    pub fn ready(&self, owner: &Key, now: Instant, views: &dyn Views) -> Readiness {
        self.records(|owners| {
            let Some(resources) = owners.get_mut(owner) else {
                return Readiness::Ready;
            };
            resources.retain(|resource, records| {
                records.retain_mut(|record| !record.is_settled(resource, views));
                !records.is_empty()
            });
            let open = resources.iter().flat_map(|(resource, records)| {
                records.iter().map(move |record| (record.write.at, resource))
            });
            let Some((at, resource)) = open.min() else {
                owners.remove(owner);
                return Readiness::Ready;
            };
            let resource = resource.clone();
            match now.saturating_duration_since(at) {
                since if since < STUCK => Readiness::Behind { resource, since },
                _ => Readiness::Stuck { resource },
            }
        })
    }

    /// Drops what was written for `owner`, because it is gone.
    pub fn forget(&self, owner: &Key) {
        self.records(|owners| owners.remove(owner));
    }

    /// Drops everything: a new term begins, before which all caches have caught up.
    pub fn clear(&self) {
        self.records(BTreeMap::clear);
    }

    fn records<R>(&self, with: impl FnOnce(&mut BTreeMap<Key, BTreeMap<Resource, Vec<Record>>>) -> R) -> R {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds a record to those of one owner and resource.
///
/// A cache that has seen a version has seen all that are less, but only in the same namespace: each may have a watch of
/// its own. So of those that compare one per namespace is enough, and of the rest one per object.
fn add(records: &mut Vec<Record>, mut new: Record) {
    let odd = |version: &Version| version.partial_cmp(version).is_none();
    records.retain(|old| {
        // Versions of an earlier epoch never come, and a later write of an object is seen after an earlier one.
        let superseded = odd(&old.write.version) && old.write.object == new.write.object;
        old.epoch == new.epoch && !superseded
    });
    let near = |old: &&mut Record| {
        old.write.object.namespace == new.write.object.namespace
            && old.write.version.partial_cmp(&new.write.version).is_some()
    };
    let Some(old) = records.iter_mut().find(near) else {
        records.push(new);
        return;
    };
    // A list has to begin after both.
    let at = old.write.at.max(new.write.at);
    if new.write.version > old.write.version {
        mem::swap(old, &mut new);
    }
    old.write.at = at;
}

impl Record {
    /// Whether the cache has seen the write. A look may show that it has the object: that is remembered.
    fn is_settled(&mut self, resource: &Resource, views: &dyn Views) -> bool {
        let Some(view) = views.view(resource) else {
            return true;
        };
        let Self { write, epoch } = self;
        if view.epoch != *epoch
            || view.version.has_reached(&write.version)
            || view.list_begun_at.is_some_and(|begun| begun > write.at)
        {
            return true;
        }
        match views.holds(resource, &write.object) {
            // Whichever object it is, a watch shows versions in order.
            Some((_, version)) if version.has_reached(&write.version) => true,
            Some((uid, version)) if uid == write.uid => {
                write.seen = true;
                version == write.version && !version.is_none()
            }
            _ => write.seen,
        }
    }
}

#[cfg(test)]
mod tests;
