//! The graph of owners and dependents. Pure: no clock, no client; every change returns the items to enqueue.
//!
//! - Nodes are objects that a cache has shown, by uid. An owner that is referred to but that no cache has shown *under that
//!   name, in any served version,* is **virtual**: it is read once, by its full identity, for all its dependents. So a wrong
//!   reference affects only the object that has it.
//! - A **tombstone** is the proof that an identity is absent. It is kept as long as a node refers to it.
//! - The blocking dependents of an owner in foreground deletion are counted: those whose reference matches and blocks.
//! - Flags are computed from the latest metadata. A state older than the known one is ignored.

mod evaluate;
mod identity;
mod inspect;
mod links;
mod node;
mod observe;
mod orphan;
mod sync;
mod tombstones;

#[cfg(test)]
mod tests;

pub use identity::Identity;
pub use inspect::{NodeInfo, Sizes};
pub use orphan::OrphanedOwners;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use steersman_manager::client::Propagation;
use steersman_manager::object::{Key, OwnerRef, Resource, Text, Uid, Version};
use tokio::time::Instant;

use self::links::Links;
use self::node::Node;
use self::tombstones::Tombstones;
use super::kinds::{Kind, Kinds};

/// The time for which a live read of an owner is valid after its answer arrived.
pub const FRESH: Duration = Duration::from_secs(1);
/// The maximum age of a live read that shows an owner in foreground deletion, from when the request was sent.
pub const FRESH_MAX: Duration = Duration::from_secs(10);
/// The maximum number of owners that are read in one pass.
pub const LOOKUPS_PER_PASS: usize = 16;
/// The time that decisions wait for a kind that does not sync.
pub const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// The finalizer of an object in foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are being orphaned.
pub const ORPHAN: &str = "orphan";

/// An item of the deletion queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkItem {
    /// An object that may be garbage.
    Object(Uid),
    /// A virtual owner.
    Owner(Identity),
}

/// The items to enqueue after a change.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Effects {
    pub attempt_to_delete: Vec<WorkItem>,
    /// Owners whose dependents are to be orphaned.
    pub attempt_to_orphan: Vec<Uid>,
    /// References to owners in another namespace.
    pub invalid_namespace: Vec<InvalidNamespace>,
}

/// A reference to an owner that is in another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNamespace {
    /// The kind of the dependent.
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: Uid,
    pub reference: OwnerRef,
}

/// The proof that an owner is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A complete cache of its kind observed its deletion.
    Watched,
    /// A live read returned 404.
    NotFound,
    /// A live read returned an object with the same name and another uid.
    OtherUid(Uid),
}

/// The state of an owner in a live read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveState {
    /// Not in foreground deletion.
    Solid,
    /// In foreground deletion.
    Waiting,
}

/// The result of an evaluation.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing to do before the next event.
    Nothing,
    /// Evaluate again after this time: a kind has not synced yet.
    Later(Duration),
    /// Read these owners first.
    LookUp(Vec<Lookup>),
    /// The kind of this owner is unknown: evaluate again later. Never a reason to delete.
    Unresolvable(Identity),
    /// The owner exists and no cache has shown it yet: evaluate again after the backoff.
    Poll,
    /// Send this write.
    Act(Action),
}

/// The answer to a live read of an owner.
#[derive(Clone, Debug)]
struct Answer {
    live: LiveState,
    sent: Instant,
    /// From when the request was sent.
    valid: Duration,
}

/// A live read of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub kind: Arc<Kind>,
    pub identity: Identity,
}

/// One write, with its preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: Uid,
    /// The version that was evaluated, and the precondition of the write.
    pub version: Version,
    pub operation: Operation,
    pub reasons: Vec<Reason>,
}

/// The change that a write makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Delete(Propagation),
    RemoveOwners {
        uids: Vec<Uid>,
        /// The other references, for kinds without strategic merge patch.
        remaining: Box<[OwnerRef]>,
    },
    /// Sets blockOwnerDeletion to false in all references: the object is part of a cycle of foreground deletions.
    Unblock {
        references: Box<[OwnerRef]>,
    },
    RemoveFinalizer {
        finalizer: &'static str,
        /// The other finalizers.
        rest: Box<[Text]>,
    },
}

/// The reason why an owner does not keep an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub owner: Identity,
    pub state: OwnerState,
}

/// The state of an owner that does not keep its dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerState {
    Absent(Proof),
    /// In foreground deletion.
    Waiting,
    /// Deleted with its dependents orphaned.
    Orphaning,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Graph {
    kinds: Arc<Kinds>,
    /// The time and generation since which each collected kind is served. Every change of the kinds is a generation.
    served_since: BTreeMap<Resource, (Instant, u64)>,
    generation: u64,
    /// The collected kinds whose caches were applied completely.
    synced: BTreeSet<Resource>,
    /// The kinds whose caches were filled before the term and are not proven current.
    unproven: BTreeSet<Resource>,
    /// The end of the wait for their proof; none before a foreground deletion needs it.
    proof_deadline: Option<Instant>,
    nodes: BTreeMap<Uid, Node>,
    by_kind: BTreeMap<Resource, BTreeSet<Uid>>,
    /// Terminating nodes with a finalizer of the collector, and the generation in which that was first observed.
    finalizing: BTreeMap<Uid, u64>,
    /// The owners with the orphan finalizer, with the number of proofs of absence when the finalizer was observed.
    orphaning: BTreeMap<Uid, u64>,
    /// By owner uid, whether or not it has a node.
    links: BTreeMap<Uid, Links>,
    /// Virtual owners with their dependents. An identity is here or among the tombstones, never both.
    virtual_owners: BTreeMap<Identity, BTreeSet<Uid>>,
    /// Cluster-scoped objects with a reference to a namespaced kind. The reference has no namespace, so its target is unknown.
    ambiguous: BTreeSet<Uid>,
    tombstones: Tombstones,
    /// The objects with a write that failed without a response of the storage, with the number of proofs of absence at that time.
    doubted: BTreeMap<Uid, u64>,
    /// The objects with an accepted DELETE, or last PATCH, of their known version, with the time of the answer. They are not
    /// evaluated before a newer state is observed.
    accepted: BTreeMap<Uid, Instant>,
    /// The kinds whose list or watch has failed, with a number between the proofs of absence before that and those after it.
    failed: BTreeMap<Resource, u64>,
    /// The number of proofs of absence at the last restore of the storage.
    proofs_at_restore: u64,
    /// Live reads of owners, for [`FRESH_MAX`] or their validity, the longer of them.
    answers: BTreeMap<Identity, Answer>,
    /// The latency of the last GET of an owner, by resource.
    latencies: BTreeMap<Resource, Duration>,
    orphaned_owners: OrphanedOwners,
    /// Counts resolutions of the references of an object.
    #[cfg(test)]
    visits: std::cell::Cell<usize>,
}

impl Graph {
    /// An empty graph. It ignores all objects before [`Graph::set_kinds`]. Late dependents of `orphaned` owners are orphaned.
    #[must_use]
    pub fn new(orphaned: OrphanedOwners) -> Self {
        Self {
            orphaned_owners: orphaned,
            ..Self::default()
        }
    }
}

impl Effects {
    fn object(&mut self, uid: &Uid) {
        self.attempt_to_delete.push(WorkItem::Object(uid.clone()));
    }

    fn owner(&mut self, identity: &Identity) {
        self.attempt_to_delete.push(WorkItem::Owner(identity.clone()));
    }

    fn deduplicated(mut self) -> Self {
        if self.attempt_to_delete.len() > 1 {
            let mut known = BTreeSet::new();
            self.attempt_to_delete.retain(|it| known.insert(it.clone()));
        }
        let mut known = BTreeSet::new();
        self.attempt_to_orphan.retain(|it| known.insert(it.clone()));
        self
    }
}
