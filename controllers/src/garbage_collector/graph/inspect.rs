//! A read-only view of the graph for the debug page.

use std::collections::BTreeSet;
use std::ops::Bound;

use coxswain_manager::object::{OwnerRef, Uid};

use super::{Graph, Identity};

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

impl Graph {
    /// Returns all nodes and virtual owners ordered by uid, starting at `from`.
    pub fn nodes(&self, from: Option<&Uid>) -> impl Iterator<Item = NodeInfo<'_>> {
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut nodes = self.nodes.range((start, Bound::Unbounded)).peekable();
        let first = from.map(Identity::first_of);
        let start = first.as_ref().map_or(Bound::Unbounded, Bound::Included);
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
