//! A bounded part of the graph as JSON, for the status page: one object with its owners and dependents, or the matches of a
//! search.

use serde::Serialize;
use steersman_manager::object::{OwnerRef, Text, Uid};

use super::SLICE;
use super::search::{Match, Search};
use crate::garbage_collector::graph::{Graph, Identity, NodeInfo};
use crate::garbage_collector::term::GcTerm;

/// The number of objects in a drawing.
const NODES_MAX: usize = 100;
/// The number of matches of a search.
const MATCHES_MAX: usize = 30;

/// An object with its owners and dependents.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lineage {
    selected: Uid,
    nodes: Vec<Node>,
    /// The number of objects next to these that are not in `nodes`.
    left_out: usize,
}

/// The matches of a search.
#[derive(Debug, Default, Serialize)]
pub(super) struct Matches {
    matches: Vec<ObjectName>,
    truncated: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectName {
    uid: Uid,
    api_version: Text,
    kind: Text,
    namespace: Text,
    name: Text,
}

#[expect(clippy::struct_excessive_bools, reason = "fields of the JSON")]
#[derive(Debug, Serialize)]
struct Node {
    #[serde(flatten)]
    object: ObjectName,
    owners: Vec<Uid>,
    /// The number of objects that refer to it.
    dependents: usize,
    deleting: bool,
    foreground: bool,
    /// No cache has shown it.
    #[serde(rename = "virtual")]
    unobserved: bool,
    /// Only references name it.
    missing: bool,
}

impl Lineage {
    /// The object is selected by its uid. Empty if it is not in the graph.
    pub(super) fn of(graph: &Graph, selected: &Uid) -> Self {
        let (uids, left_out) = graph.lineage(selected, NODES_MAX);
        let mut nodes: Vec<Node> = Vec::with_capacity(uids.len());
        let mut references: Vec<&OwnerRef> = Vec::new();
        for uid in &uids {
            let found = graph.nodes(Some(&Identity::first_of(uid))).next();
            if let Some(node) = found.filter(|it| it.identity.uid == *uid) {
                references.extend(node.owners);
                nodes.push(Node::of(&node));
            }
        }
        for reference in references {
            let named = |node: &Node| reference.uid == node.object.uid;
            if nodes.len() < NODES_MAX
                && !reference.uid.is_empty()
                && !nodes.iter().any(named)
                && !graph.contains(&reference.uid)
            {
                nodes.push(Node::missing(reference));
            }
        }
        Self {
            selected: selected.clone(),
            nodes,
            left_out,
        }
    }
}

impl Matches {
    /// Searches in slices, so that the workers are not blocked. If objects match exactly, others are left out.
    pub(super) fn of(term: &GcTerm, search: &Search) -> Self {
        let (mut exact, mut partial) = (Self::default(), Self::default());
        let mut from = None;
        loop {
            let last = from.take();
            from = term.read(|graph| {
                let mut nodes = graph.nodes(last.as_ref());
                for node in nodes.by_ref().take(SLICE) {
                    match search.matches(&node.identity) {
                        Some(Match::Exact) => exact.add(&node.identity),
                        Some(Match::Partial) => partial.add(&node.identity),
                        None => {}
                    }
                }
                nodes.next().map(|node| node.identity)
            });
            if from.is_none() || exact.truncated {
                return if exact.matches.is_empty() { partial } else { exact };
            }
        }
    }

    fn add(&mut self, object: &Identity) {
        if self.matches.iter().any(|it| object.uid == it.uid) {
            return;
        }
        if self.matches.len() < MATCHES_MAX {
            self.matches.push(ObjectName::of(object));
        } else {
            self.truncated = true;
        }
    }
}

impl ObjectName {
    fn of(object: &Identity) -> Self {
        Self {
            uid: object.uid.clone(),
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}

impl Node {
    fn of(node: &NodeInfo<'_>) -> Self {
        let owners = node.owners.iter().filter(|it| !it.uid.is_empty());
        Self {
            object: ObjectName::of(&node.identity),
            owners: owners.map(|it| it.uid.clone()).collect(),
            dependents: node.dependents,
            deleting: node.deleting,
            foreground: node.foreground,
            unobserved: !node.observed,
            missing: false,
        }
    }

    fn missing(reference: &OwnerRef) -> Self {
        Self {
            object: ObjectName::of(&Identity {
                uid: reference.uid.clone(),
                api_version: reference.api_version.clone(),
                kind: reference.kind.clone(),
                namespace: Text::default(),
                name: reference.name.clone(),
            }),
            owners: Vec::new(),
            dependents: 0,
            deleting: false,
            foreground: false,
            unobserved: false,
            missing: true,
        }
    }
}
