//! Read-your-writes: a sync waits until the caches include the writes of the previous sync.
//!
//! A controller records each write under the key that it reconciles, before that sync ends, and checks before the next
//! sync whether the caches include it. An object that is missing in a cache proves nothing by itself: after a create it may
//! not be there *yet*. See [`Write::seen`].

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::object::{Key, Resource, Uid, Version};
use crate::revived;

/// After this time without a write in the cache a relist is due: the object may be out of scope, or the watch stuck.
const RELIST_AFTER: Duration = Duration::from_secs(30);

/// The writes that the caches may not include yet, by the reconciled object.
#[derive(Debug, Default)]
pub struct PendingWrites(Mutex<BTreeMap<Key, BTreeMap<Resource, Vec<Record>>>>);

/// A successful write.
#[derive(Clone, Debug)]
pub struct Write {
    /// The written object.
    pub object: Key,
    #[expect(missing_docs, reason = "plain data")]
    pub uid: Uid,
    /// The resourceVersion in the response; none if it had none, as for a completed deletion.
    pub version: Version,
    /// The time of the response.
    pub at: Instant,
    /// The cache had an object of this uid before. Then, if the cache no longer has it, it includes the deletion, which came
    /// after the write.
    pub seen: bool,
}

#[derive(Debug)]
struct Record {
    write: Write,
    epoch: u64,
}

/// Whether the caches include the writes of earlier syncs.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The caches include all writes.
    Ready,
    /// The cache of this resource does not include a write, for this long: requeue the key.
    Behind { resource: Resource, since: Duration },
    /// The cache of this resource has not included a write for so long that it has to relist.
    Stuck { resource: Resource },
}

/// The position of a cache in the history of its resource.
#[derive(Clone, Debug)]
pub struct CachePosition {
    /// The cache includes all changes up to this version.
    pub version: Version,
    /// The number of times that the cache was rebuilt: versions of different epochs are not comparable.
    pub epoch: u64,
    /// The start of the last list that the cache includes, which was a quorum read. With several namespaces, the earliest.
    pub list_started_at: Option<Instant>,
}

/// The positions of a set of caches.
pub trait CachePositions {
    /// Returns the position of the cache of a resource; none if it is not cached.
    fn position(&self, resource: &Resource) -> Option<CachePosition>;

    /// Returns the uid and the latest version of the object under a key, decoded or not.
    fn identity(&self, resource: &Resource, object: &Key) -> Option<(Uid, Version)>;
}

impl PendingWrites {
    /// Records a write during the sync of `owner`.
    pub fn record(&self, owner: &Key, resource: &Resource, write: Write, positions: &dyn CachePositions) {
        let Some(position) = positions.position(resource) else {
            return;
        };
        let record = Record {
            write,
            epoch: position.epoch,
        };
        self.records(|owners| {
            let resources = owners.entry(owner.clone()).or_default();
            add(resources.entry(resource.clone()).or_default(), record);
        });
    }

    /// Checks whether the caches include all writes of `owner`. Returns the oldest write that they do not include.
    pub fn ready(&self, owner: &Key, now: Instant, positions: &dyn CachePositions) -> Readiness {
        if revived!(R4) {
            return Readiness::Ready;
        }
        self.records(|owners| {
            let Some(resources) = owners.get_mut(owner) else {
                return Readiness::Ready;
            };
            resources.retain(|resource, records| {
                records.retain_mut(|record| !record.is_included(resource, positions));
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
                since if since < RELIST_AFTER => Readiness::Behind { resource, since },
                _ => Readiness::Stuck { resource },
            }
        })
    }

    /// Drops the writes of `owner`, which is deleted.
    pub fn forget(&self, owner: &Key) {
        self.records(|owners| owners.remove(owner));
    }

    /// Drops all writes at the start of a term: all caches have caught up.
    pub fn clear(&self) {
        self.records(BTreeMap::clear);
    }

    fn records<R>(&self, with: impl FnOnce(&mut BTreeMap<Key, BTreeMap<Resource, Vec<Record>>>) -> R) -> R {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds a record to those of one owner and resource.
///
/// A cache at a version includes all lower ones of the same namespace; other namespaces may have their own watch. So one
/// record per namespace is sufficient for comparable versions, and one per object for others.
fn add(records: &mut Vec<Record>, mut new: Record) {
    let incomparable = |version: &Version| version.partial_cmp(version).is_none();
    records.retain(|old| {
        // Versions of an earlier epoch never arrive, and later writes of an object arrive after earlier ones.
        let superseded = incomparable(&old.write.version) && old.write.object == new.write.object;
        old.epoch == new.epoch && !superseded
    });
    let same_namespace = |old: &&mut Record| {
        old.write.object.namespace == new.write.object.namespace
            && old.write.version.partial_cmp(&new.write.version).is_some()
    };
    let Some(old) = records.iter_mut().find(same_namespace) else {
        records.push(new);
        return;
    };
    // A list has to start after both.
    let at = old.write.at.max(new.write.at);
    if new.write.version > old.write.version {
        mem::swap(old, &mut new);
    }
    old.write.at = at;
}

impl Record {
    /// Returns true if the cache includes the write. Remembers if the cache has the object.
    fn is_included(&mut self, resource: &Resource, positions: &dyn CachePositions) -> bool {
        let Some(position) = positions.position(resource) else {
            return true;
        };
        let Self { write, epoch } = self;
        if position.epoch != *epoch
            || position.version.has_reached(&write.version)
            || position.list_started_at.is_some_and(|begun| begun > write.at)
        {
            return true;
        }
        match positions.identity(resource, &write.object) {
            // A watch delivers versions in order, of any object.
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
