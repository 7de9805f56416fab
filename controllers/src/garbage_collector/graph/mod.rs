//! Who owns whom, and what follows from it. Pure: no clock, no client; every step answers what is to be looked at next.
//!
//! - Objects are nodes, by their uid, and enter when a cache shows them. An owner that somebody refers to and that no cache
//!   has shown *in exactly those coordinates* is **unseen**: it is asked for once, by its full identity, however many
//!   dependents there are. So a wrong reference can only harm the object that has it.
//! - A **tombstone** is the proof that an identity is gone for ever. It is kept exactly, as long as a known object refers to
//!   it, and a while longer (bounded).
//! - What an owner in foreground deletion waits for is a *set* of dependents whose reference matches and blocks.
//! - Nothing here is sticky: flags follow the latest metadata, and a state that is older than the known one is ignored.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::client::Propagation;
use coxswain_manager::object::{Key, Meta, OwnerRef, Text, Uid, Version};
use tokio::time::Instant;

use super::kinds::{Kind, Kinds};

/// How long it counts that an owner was seen alive by asking for it.
pub const FRESH: Duration = Duration::from_secs(1);
/// How long a kind that does not sync is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One object, for all time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Its uid.
    pub uid: Uid,
    /// Its version and kind, as a reference writes it.
    pub api_version: Text,
    /// Its kind.
    pub kind: Text,
    /// Its namespace; empty if its kind is cluster-scoped. Of a kind that nobody knows: that of whoever refers to it.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

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
pub struct Misplaced {
    /// The kind of the dependent.
    pub kind: Arc<Kind>,
    /// The dependent.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// Its reference.
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
pub struct Question {
    /// Where.
    pub kind: Arc<Kind>,
    /// Who.
    pub identity: Identity,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The kind of the object.
    pub kind: Arc<Kind>,
    /// The object.
    pub key: Key,
    /// Its uid.
    pub uid: Uid,
    /// The version that was judged. The write holds for this one only.
    pub version: Version,
    /// What is done.
    pub deed: Deed,
    /// Why.
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
pub struct Reason {
    /// The owner.
    pub owner: Identity,
    /// What became of it.
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
pub struct Graph {}

#[allow(
    unused_variables,
    missing_docs,
    clippy::todo,
    clippy::needless_pass_by_value,
    clippy::unused_self
)]
impl Graph {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        todo!()
    }

    /// From now on these kinds are served. Scopes and what could not be resolved are looked at again. Kinds that are no
    /// longer collected leave: their nodes that have dependents become unseen owners, the others go; no tombstones.
    pub fn serve(&mut self, kinds: Arc<Kinds>, now: Instant) -> Effects {
        todo!()
    }

    /// All that there is of a kind has been told.
    pub fn synced(&mut self, kind: &Arc<Kind>) -> Effects {
        todo!()
    }

    /// A cache shows an object. An older state than the known one is ignored.
    pub fn observe(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        todo!()
    }

    /// An answer of the API server shows an object. Like `observe`, if the object is known; an object that no cache has shown
    /// may never be seen to go, and does not enter.
    pub fn refresh(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        todo!()
    }

    /// A cache of all objects of the kind saw an object go.
    pub fn gone(&mut self, kind: &Arc<Kind>, meta: &Meta) -> Effects {
        todo!()
    }

    /// The API server, asked, says that there is no such object.
    pub fn absent(&mut self, identity: &Identity, proof: Proof) -> Effects {
        todo!()
    }

    /// The API server, asked, showed this.
    pub fn exists(&mut self, identity: &Identity, live: Live, at: Instant) {
        todo!()
    }

    /// A DELETE of the object at this version was accepted, and it is not known to linger: until a newer state is seen, there
    /// is nothing to do with it.
    pub fn deleted(&mut self, uid: &Uid, version: &Version) {
        todo!()
    }

    /// Dependents of this owner are let go, not deleted, from now on: not all of them could be found.
    pub fn let_go(&mut self, owner: &Uid) {
        todo!()
    }

    /// The API's store was restored: who was dead may live. Forgets tombstones and whatever was asked.
    pub fn start_over(&mut self) -> Effects {
        todo!()
    }

    /// What is to be done.
    #[must_use]
    pub fn judge(&self, work: &Work, now: Instant) -> Judgement {
        todo!()
    }

    /// The collected kinds that have neither synced nor used up their time.
    #[must_use]
    pub fn unsettled(&self, now: Instant) -> Vec<Arc<Kind>> {
        todo!()
    }

    /// What has to be done to orphan the dependents of an owner that are known: an `Act` with `Deed::RemoveOwners` each.
    #[must_use]
    pub fn releases(&self, owner: &Uid) -> Vec<Act> {
        todo!()
    }

    /// What has to be done to finish the orphaning: none if the object is gone or not being deleted with that finalizer.
    #[must_use]
    pub fn finish_orphaning(&self, owner: &Uid) -> Option<Act> {
        todo!()
    }
}
