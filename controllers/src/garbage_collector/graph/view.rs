//! The graph to look at: for whoever wants to know why something is still there.

use std::collections::BTreeSet;
use std::ops::Bound;

use coxswain_manager::object::{OwnerRef, Uid};

use super::{Graph, Identity};

/// An object of the graph, or an owner that no cache has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView<'a> {
    /// Who it is.
    pub identity: Identity,
    /// Its references.
    pub owners: &'a [OwnerRef],
    /// It is being deleted.
    pub deleting: bool,
    /// It is being deleted and waits for its dependents.
    pub foreground: bool,
    /// A cache has shown it.
    pub seen: bool,
    /// The number of objects that refer to it.
    pub dependents: usize,
}

impl Graph {
    /// All objects, and the owners that no cache has shown, ordered by uid; only those from a uid on, if one is given.
    pub fn nodes(&self, from: Option<&Uid>) -> impl Iterator<Item = NodeView<'_>> {
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let mut nodes = self.nodes.range((start, Bound::Unbounded)).peekable();
        let first = from.map(Identity::first_of);
        let start = first.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let mut unseen = self
            .unseen
            .range((start, Bound::Unbounded))
            .filter(|(it, _)| !self.nodes.contains_key(&it.uid))
            .peekable();
        std::iter::from_fn(move || {
            let next = match (nodes.peek(), unseen.peek()) {
                (Some((uid, _)), Some((identity, _))) if identity.uid < **uid => None,
                (None, _) => None,
                (Some(_), _) => nodes.next(),
            };
            match next {
                Some((uid, node)) => Some(NodeView {
                    identity: node.identity(uid),
                    owners: &node.owners,
                    deleting: node.deleting,
                    foreground: node.is_foreground(),
                    seen: true,
                    dependents: self.links.get(uid).map_or(0, |it| it.dependents.len()),
                }),
                None => unseen.next().map(|(identity, dependents)| NodeView {
                    identity: identity.clone(),
                    owners: &[],
                    deleting: false,
                    foreground: false,
                    seen: false,
                    dependents: dependents.len(),
                }),
            }
        })
    }

    /// All that hangs together with these, by owners and dependents.
    #[must_use]
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
