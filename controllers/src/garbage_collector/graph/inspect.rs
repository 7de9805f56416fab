//! A read-only view of the graph for the debug page and the logs.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;

use steersman_manager::object::{OwnerRef, Uid};

use super::{Graph, Identity};

/// The number of owners or dependents of one object that are considered.
const NEAR_MAX: usize = 10_000;

/// A node or a virtual owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo<'a> {
    pub identity: Identity,
    pub owners: &'a [OwnerRef],
    pub deleting: bool,
    pub foreground: bool,
    /// False for a virtual owner.
    pub observed: bool,
    pub dependents: usize,
}

/// The numbers of objects in a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    pub observed: usize,
    pub virtual_owners: usize,
    /// Absent owners with dependents.
    pub absent: usize,
}

impl Graph {
    pub fn sizes(&self) -> Sizes {
        Sizes {
            observed: self.nodes.len(),
            virtual_owners: self.virtual_owners.len(),
            absent: self.tombstones.len(),
        }
    }

    /// Returns the identity of an observed object.
    pub fn identity(&self, uid: &Uid) -> Option<Identity> {
        self.nodes.get(uid).map(|node| node.identity(uid))
    }

    /// Returns all nodes and virtual owners ordered by identity, starting at `from`.
    pub fn nodes(&self, from: Option<&Identity>) -> impl Iterator<Item = NodeInfo<'_>> {
        let start = from.map_or(Bound::Unbounded, |from| Bound::Included(&from.uid));
        let mut nodes = self.nodes.range((start, Bound::Unbounded)).peekable();
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut virtual_owners = self
            .virtual_owners
            .range((start, Bound::Unbounded))
            .filter(|(it, _)| !self.nodes.contains_key(&it.uid))
            .peekable();
        std::iter::from_fn(move || {
            let next = match (nodes.peek(), virtual_owners.peek()) {
                (Some((uid, _)), Some((identity, _))) if identity.uid < **uid => None,
                (None, _) => None,
                (Some(_), _) => nodes.next(),
            };
            match next {
                Some((uid, node)) => Some(NodeInfo {
                    identity: node.identity(uid),
                    owners: &node.owners,
                    deleting: node.deleting,
                    foreground: node.is_foreground(),
                    observed: true,
                    dependents: self.links.get(uid).map_or(0, |it| it.dependents.len()),
                }),
                None => virtual_owners.next().map(|(identity, dependents)| NodeInfo {
                    identity: identity.clone(),
                    owners: &[],
                    deleting: false,
                    foreground: false,
                    observed: false,
                    dependents: dependents.len(),
                }),
            }
        })
    }

    /// Returns an object, its owners and its dependents, direct or not: at most `max`, the nearest ones first, and the
    /// number of objects next to these that are left out. Empty if the object is not in the graph.
    pub fn lineage(&self, uid: &Uid, max: usize) -> (Vec<Uid>, usize) {
        if !self.nodes.contains_key(uid) && !self.links.contains_key(uid) {
            return (Vec::new(), 0);
        }
        let mut part = Part {
            order: vec![uid.clone()],
            found: BTreeSet::from([uid.clone()]),
            left_out: 0,
            max,
        };
        let owners = |uid: &Uid| self.nodes.get(uid).into_iter().flat_map(|it| it.owners.iter());
        part.extend(uid, |uid| {
            owners(uid).map(|it| &it.uid).filter(|it| !it.is_empty())
        });
        let links = |uid: &Uid| self.links.get(uid).into_iter();
        part.extend(uid, |uid| links(uid).flat_map(|it| it.dependents.iter()));
        (part.order, part.left_out)
    }

    /// Returns all objects that are connected to these by references.
    pub fn component(&self, uids: &[Uid]) -> BTreeSet<Uid> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Uid> = uids.iter().collect();
        while let Some(uid) = open.pop() {
            let (node, links) = (self.nodes.get(uid), self.links.get(uid));
            if (node.is_none() && links.is_none()) || !found.insert(uid.clone()) {
                continue;
            }
            let owners = node.into_iter().flat_map(|it| it.owners.iter());
            open.extend(owners.map(|it| &it.uid).filter(|it| !it.is_empty()));
            open.extend(links.into_iter().flat_map(|it| it.dependents.iter()));
        }
        found
    }
}

/// A part of the graph that grows from one object.
struct Part {
    order: Vec<Uid>,
    found: BTreeSet<Uid>,
    left_out: usize,
    max: usize,
}

impl Part {
    /// Adds the objects that `next` leads to.
    fn extend<'a, I: Iterator<Item = &'a Uid>>(&mut self, from: &Uid, next: impl Fn(&Uid) -> I) {
        let mut open = VecDeque::from([from.clone()]);
        while let Some(from) = open.pop_front() {
            for near in next(&from).take(NEAR_MAX) {
                if self.found.contains(near) {
                    continue;
                }
                if self.order.len() == self.max {
                    self.left_out += 1;
                    continue;
                }
                self.found.insert(near.clone());
                self.order.push(near.clone());
                open.push_back(near.clone());
            }
        }
    }
}
