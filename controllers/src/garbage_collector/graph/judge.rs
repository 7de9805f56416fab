//! What is to be done with an object, and why.
//!
//! An object is deleted only if *every* owner that it names is proven gone, or is waiting for it by an answer that is fresh.
//! What cannot be proven is asked, waited for or left alone, in this order: an owner that nobody can name, one that nobody
//! can ask for, one whose kind is not known whole, one that has not been asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_manager::client::Propagation;
use coxswain_manager::object::{OwnerRef, Text, Uid};
use tokio::time::Instant;

use super::{
    Act, Deed, FOREGROUND, Graph, Identity, Judgement, Live, Node, ORPHAN, Question, Reason, Verdict, Work,
};

/// What one reference is worth.
enum Hold {
    /// Nobody can say who is meant.
    Astray,
    /// Nobody can say whether it exists.
    Unresolvable(Identity),
    /// Its kind is not known whole.
    Later(Duration),
    /// It has to be read.
    Ask(Question),
    /// The owner holds the object.
    Solid,
    /// The owner holds the object, against what the cache says.
    SolidForNow,
    /// The owner does not hold the object.
    Loose(Reason),
}

impl Graph {
    /// What is to be done. After an `Act` the object has another state, and is to be judged again.
    #[must_use]
    pub fn judge(&self, work: &Work, now: Instant) -> Judgement {
        match work {
            Work::Owner(identity) => self.judge_owner(identity, now),
            Work::Object(uid) => match self.nodes.get(uid) {
                Some(node) => self.judge_object(uid, node, now),
                None => Judgement::Nothing,
            },
        }
    }

    /// The namespace of the object, or of one that refers to the owner.
    #[must_use]
    pub fn namespace(&self, work: &Work) -> Option<Text> {
        let object = match work {
            Work::Object(uid) => uid,
            Work::Owner(owner) if !owner.namespace.is_empty() => return Some(owner.namespace.clone()),
            Work::Owner(owner) => self.unseen.get(owner)?.first()?,
        };
        Some(self.nodes.get(object)?.key.namespace.clone())
    }

    fn judge_owner(&self, identity: &Identity, now: Instant) -> Judgement {
        if !self.unseen.contains_key(identity) {
            return Judgement::Nothing;
        }
        match self.ask(identity, now) {
            Hold::Unresolvable(identity) => Judgement::Unresolvable(identity),
            Hold::Later(rest) => Judgement::Later(rest),
            Hold::Ask(question) => Judgement::Ask(vec![question]),
            // A cache shows it in other coordinates, and will show it go.
            _ if self.nodes.contains_key(&identity.uid) => Judgement::Nothing,
            _ => Judgement::Poll,
        }
    }

    fn judge_object(&self, uid: &Uid, node: &Node, now: Instant) -> Judgement {
        // Without a version no write could be held to what was judged.
        if node.deleted_at.is_some() || node.version.is_none() {
            return Judgement::Nothing;
        }
        if node.is_foreground() {
            return self.judge_waiting(uid, node, now);
        }
        if node.deleting || node.owners.is_empty() {
            return Judgement::Nothing;
        }
        let mut unresolvable = None;
        let mut later = None;
        let mut questions: Vec<Question> = Vec::new();
        let mut asked = BTreeSet::new();
        let mut solid = BTreeSet::new();
        let mut contradicted = false;
        let mut because = Vec::new();
        for reference in &node.owners {
            match self.hold(node, reference, now) {
                Hold::Astray => return Judgement::Nothing,
                Hold::Unresolvable(identity) => unresolvable = unresolvable.or(Some(identity)),
                Hold::Later(rest) => later = later.max(Some(rest)),
                Hold::Ask(question) => {
                    if asked.insert(question.identity.clone()) {
                        questions.push(question);
                    }
                }
                Hold::Solid => {
                    solid.insert(&reference.uid);
                }
                Hold::SolidForNow => {
                    solid.insert(&reference.uid);
                    contradicted = true;
                }
                Hold::Loose(reason) => because.push(reason),
            }
        }
        if let Some(identity) = unresolvable {
            return Judgement::Unresolvable(identity);
        }
        if let Some(rest) = later {
            return Judgement::Later(rest);
        }
        // With a solid owner the object stays, whatever the others are. It is evaluated again when one of those that no cache
        // has shown turns out to be absent; all answers about them may never be valid at the same time.
        if !solid.is_empty() {
            questions.retain(|it| !self.unseen.contains_key(&it.identity));
        }
        if !questions.is_empty() {
            return Judgement::Ask(questions);
        }
        match self.decide(uid, node, &solid, because) {
            Some(act) => Judgement::Act(act),
            None if contradicted => Judgement::Poll,
            None => Judgement::Nothing,
        }
    }

    /// Everything is known: which owners hold the object, and why the others do not.
    fn decide(
        &self,
        uid: &Uid,
        node: &Node,
        solid: &BTreeSet<&Uid>,
        mut because: Vec<Reason>,
    ) -> Option<Act> {
        let orphaned = because.iter().any(|it| it.verdict == Verdict::Orphaning);
        if !solid.is_empty() || orphaned {
            // References go by uid: one that is right and one that is wrong go together, or not at all.
            because.retain(|it| !solid.contains(&it.owner.uid));
            let uids: BTreeSet<Uid> = because.iter().map(|it| it.owner.uid.clone()).collect();
            let deed = node.remove_owners(uids.into_iter().collect());
            return (!because.is_empty()).then(|| node.act(uid, deed, because));
        }
        let awaited = because.iter().any(|it| it.verdict == Verdict::Waiting);
        let has_dependents = self.links.contains_key(uid);
        let deed = if node.has(ORPHAN) {
            Deed::Delete(Propagation::Orphan)
        } else if awaited && has_dependents {
            self.unblock(uid, node)
                .unwrap_or(Deed::Delete(Propagation::Foreground))
        } else if node.has(FOREGROUND) {
            Deed::Delete(Propagation::Foreground)
        } else {
            Deed::Delete(Propagation::Background)
        };
        Some(node.act(uid, deed, because))
    }

    /// An object that is deleted in the foreground.
    fn judge_waiting(&self, uid: &Uid, node: &Node, now: Instant) -> Judgement {
        if self.links.get(uid).is_some_and(|it| !it.blocking.is_empty()) {
            let unblock = self.unblock(uid, node);
            return unblock.map_or(Judgement::Nothing, |deed| {
                Judgement::Act(node.act(uid, deed, Vec::new()))
            });
        }
        // Somebody of a kind that is not known whole may still block it.
        if let Some(rest) = self.unsettled(uid, now).max(self.unproven(now)) {
            return Judgement::Later(rest);
        }
        let deed = Deed::RemoveFinalizer {
            finalizer: FOREGROUND,
            rest: node.without(FOREGROUND),
        };
        Judgement::Act(node.act(uid, deed, Vec::new()))
    }

    /// What one reference of an object is worth.
    fn hold(&self, node: &Node, reference: &OwnerRef, now: Instant) -> Hold {
        let owner = &reference.uid;
        let Some(identity) = Identity::meant(&self.kinds, reference, &node.key.namespace) else {
            return Hold::Astray;
        };
        if owner.is_empty() || reference.name.is_empty() {
            return Hold::Unresolvable(identity);
        }
        if self.let_go.contains(owner) {
            return Hold::loose(identity, Verdict::Orphaning);
        }
        let known = self.nodes.get(owner);
        if let Some(known) =
            known.filter(|it| it.is_meant(&self.kinds, owner, reference, &node.key.namespace))
        {
            // Stale, this only delays: whoever depends on it is looked at when it goes.
            if !known.is_foreground() {
                return Hold::Solid;
            }
            let identity = known.identity(owner);
            return match self.answer(&identity, now) {
                Some(Live::Waiting) => Hold::loose(identity, Verdict::Waiting),
                Some(Live::Solid) => Hold::SolidForNow,
                None => Hold::Ask(Question {
                    kind: known.kind.clone(),
                    identity,
                }),
            };
        }
        match self.tombstones.proof(&identity) {
            Some(proof) => Hold::loose(identity, Verdict::Absent(proof.clone())),
            None => self.ask(&identity, now),
        }
    }

    /// What is known, by asking, of an owner that no cache has shown.
    fn ask(&self, identity: &Identity, now: Instant) -> Hold {
        let kind = self.kinds.resolve(&identity.api_version, &identity.kind);
        // Without a name, a whole collection would answer.
        let Some(kind) = kind.filter(|_| !identity.name.is_empty()) else {
            return Hold::Unresolvable(identity.clone());
        };
        if let Some(rest) = self.patience(&kind.resource, now) {
            return Hold::Later(rest);
        }
        match self.answer(identity, now) {
            Some(Live::Waiting) => Hold::loose(identity.clone(), Verdict::Waiting),
            Some(Live::Solid) => Hold::Solid,
            None => Hold::Ask(Question {
                kind: kind.clone(),
                identity: identity.clone(),
            }),
        }
    }

    fn answer(&self, identity: &Identity, now: Instant) -> Option<Live> {
        let (live, until) = self.answers.get(identity)?;
        (now <= *until).then_some(*live)
    }

    /// Who waits for somebody who waits for it has to stop to block, or both wait for ever. None if there is no such circle.
    fn unblock(&self, uid: &Uid, node: &Node) -> Option<Deed> {
        if !node.blocks() || !self.is_in_circle(uid, node) {
            return None;
        }
        let references = node.owners.iter().map(|reference| OwnerRef {
            block_owner_deletion: false,
            ..reference.clone()
        });
        Some(Deed::Unblock {
            references: references.collect(),
        })
    }

    /// Whether, from owner to owner that waits for it, the way leads back to the object. Every circle is found when the last
    /// of its members begins to wait, or to block: that one is looked at then.
    fn is_in_circle(&self, uid: &Uid, node: &Node) -> bool {
        let mut seen = BTreeSet::from([uid]);
        let mut open = vec![(uid, node)];
        while let Some((dependent, node)) = open.pop() {
            for reference in node.owners.iter().filter(|it| it.block_owner_deletion) {
                let Some((owner, known)) = self.nodes.get_key_value(&reference.uid) else {
                    continue;
                };
                if owner == dependent || !known.is_meant(&self.kinds, owner, reference, &node.key.namespace) {
                    continue;
                }
                if owner == uid {
                    return true;
                }
                if known.is_foreground() && seen.insert(owner) {
                    open.push((owner, known));
                }
            }
        }
        false
    }
}

impl Hold {
    fn loose(owner: Identity, verdict: Verdict) -> Self {
        Self::Loose(Reason { owner, verdict })
    }
}
