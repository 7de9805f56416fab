//! Who owns whom, and what follows from it. Pure: no clock, no client; every step answers what is to be looked at next.
//!
//! - Objects are nodes, by their uid, and enter when a cache shows them. An owner that somebody refers to and that no cache
//!   has shown *under that name, in any served version,* is **unseen**: it is asked for once, by its full identity, however many
//!   dependents there are. So a wrong reference can only harm the object that has it.
//! - A **tombstone** is the proof that an identity is gone forever. It is kept as long as a known object refers to it.
//! - What an owner in foreground deletion waits for is a *set* of dependents whose reference matches and blocks.
//! - Nothing here is sticky: flags follow the latest metadata, and a state that is older than the known one is ignored.

mod identity;
mod judge;
mod links;
mod node;
mod observe;
mod orphan;
mod serve;
mod tombstones;
mod view;

#[cfg(test)]
mod tests;

pub use identity::Identity;
pub use orphan::OrphanedOwners;
pub use view::NodeView;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::Propagation;
use coxswain_manager::object::{Key, OwnerRef, Resource, Text, Uid, Version};
use tokio::time::Instant;

use self::links::Links;
use self::node::Node;
use self::tombstones::Tombstones;
use super::kinds::{Kind, Kinds};

/// How long an answer of the API server about an owner is valid after it arrived.
pub const FRESH: Duration = Duration::from_secs(1);
/// How old an answer that an owner waits for its dependents may be on the slowest server, counted from when the request was
/// sent.
pub const FRESH_MAX: Duration = Duration::from_secs(10);
/// How long a kind that does not sync is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What an object that is deleted in the foreground has while its dependents go.
pub const FOREGROUND: &str = "foregroundDeletion";
/// What a deleted object has while its dependents are let go.
pub const ORPHAN: &str = "orphan";

/// What to look at: the items of the queue of deletions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// An object that may have to go.
    Object(Uid),
    /// An owner that no cache has shown.
    Owner(Identity),
}

/// What follows from a step.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Effects {
    /// To be looked at.
    pub look: Vec<Work>,
    /// Owners whose dependents are to be let go.
    pub orphan: Vec<Uid>,
    /// References into another namespace.
    pub misplaced: Vec<Misplaced>,
}

/// A reference to an owner that is in another namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Misplaced {
    /// The kind of the dependent.
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: Uid,
    pub reference: OwnerRef,
}

/// How it is known that an owner is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A cache of all objects of its kind has seen it go.
    Watched,
    /// The API server, asked for it, said that there is none.
    NotFound,
    /// The API server, asked for it, showed another one of that name.
    OtherUid(Uid),
}

/// What the API server, asked for an owner, showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// It lives.
    Solid,
    /// It is being deleted in the foreground.
    Waiting,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing; whatever changes that is an event.
    Nothing,
    /// Look again after this time: a kind has not synced yet.
    Later(Duration),
    /// These have to be asked for first.
    Ask(Vec<Question>),
    /// It is not known whether this owner exists, nor how to ask: look again after a backoff. Never a reason to delete.
    Unresolvable(Identity),
    /// It exists and no cache shows it yet: look again after a backoff.
    Poll,
    /// Do this.
    Act(Act),
}

/// One GET.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Question {
    pub kind: Arc<Kind>,
    pub identity: Identity,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Act {
    pub kind: Arc<Kind>,
    pub key: Key,
    pub uid: Uid,
    /// The version that was judged. The write holds for this one only.
    pub version: Version,
    pub deed: Deed,
    pub because: Vec<Reason>,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is deleted.
    Delete(Propagation),
    /// It loses the references to these owners.
    RemoveOwners {
        /// The owners.
        uids: Vec<Uid>,
        /// What remains, for kinds that know no strategic merge.
        remaining: Box<[OwnerRef]>,
    },
    /// It stops to block its owners: it is part of a circle.
    Unblock {
        /// All its references, as they will be.
        references: Box<[OwnerRef]>,
    },
    /// It loses a finalizer of the collector.
    RemoveFinalizer {
        /// Which one.
        finalizer: &'static str,
        /// What remains, in order.
        rest: Box<[Text]>,
    },
}

/// Why an owner does not hold an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct Reason {
    pub owner: Identity,
    pub verdict: Verdict,
}

/// What became of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is gone.
    Absent(Proof),
    /// It waits for its dependents to go.
    Waiting,
    /// It was deleted, and lets its dependents be.
    Orphaning,
}

/// The graph.
#[derive(Debug, Default)]
pub struct Graph {
    kinds: Arc<Kinds>,
    /// Since when, and since which turn, each collected kind is served. Every time kinds are told is a turn.
    began: BTreeMap<Resource, (Instant, u64)>,
    turn: u64,
    /// The collected kinds that have been told whole.
    synced: BTreeSet<Resource>,
    /// The kinds whose caches were filled before the term and are not proven current.
    unproven: BTreeSet<Resource>,
    /// When their proof is no longer waited for; none before it is needed.
    proof_deadline: Option<Instant>,
    nodes: BTreeMap<Uid, Node>,
    /// The nodes of each kind.
    by_kind: BTreeMap<Resource, BTreeSet<Uid>>,
    /// The nodes with a finalizer of the collector that is to go, with the turn in which they were first seen so.
    leaving: BTreeMap<Uid, u64>,
    /// By owner, whether or not it has a node.
    links: BTreeMap<Uid, Links>,
    /// What objects refer to and no node is, with those that do. An identity is here or among the tombstones, never both.
    unseen: BTreeMap<Identity, BTreeSet<Uid>>,
    /// Cluster-scoped objects with a reference to a namespaced kind: nobody can say which object is meant.
    astray: BTreeSet<Uid>,
    tombstones: Tombstones,
    /// Answers of the API server about owners, and until when they are valid.
    answers: BTreeMap<Identity, (Live, Instant)>,
    /// The time that the last GET of an owner took, by resource.
    latencies: BTreeMap<Resource, Duration>,
    let_go: OrphanedOwners,
    /// The number of times that the references of an object were resolved.
    #[cfg(test)]
    visits: std::cell::Cell<usize>,
}

impl Graph {
    /// An empty graph. It ignores all objects before [`Graph::serve`]. Late dependents of `orphaned` owners are orphaned.
    #[must_use]
    pub fn new(orphaned: OrphanedOwners) -> Self {
        Self {
            let_go: orphaned,
            ..Self::default()
        }
    }
}

impl Effects {
    fn object(&mut self, uid: &Uid) {
        self.look.push(Work::Object(uid.clone()));
    }

    fn owner(&mut self, identity: &Identity) {
        self.look.push(Work::Owner(identity.clone()));
    }

    /// Everything once, in the order in which it came first.
    fn tidy(mut self) -> Self {
        if self.look.len() > 1 {
            let mut known = BTreeSet::new();
            self.look.retain(|it| known.insert(it.clone()));
        }
        let mut known = BTreeSet::new();
        self.orphan.retain(|it| known.insert(it.clone()));
        self
    }
}
