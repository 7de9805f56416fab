//! What is drawn of a graph: who has owners or dependents, and owners that nobody has seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::garbage_collector::graph::NodeView;

/// Ordered by uid, and edges by their ends: two pictures of one graph are the same text.
#[derive(Debug, Default)]
pub struct Picture {
    pub vertices: BTreeMap<String, Vertex>,
    /// From the dependent to the owner.
    pub edges: BTreeSet<(String, String)>,
    /// Vertices without owners: drawn only if something refers to them.
    alone: BTreeMap<String, Vertex>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent of each other, as they are printed"
)]
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Vertex {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// It is only known because somebody refers to it.
    pub missing: bool,
    pub deleting: bool,
    pub deleting_dependents: bool,
    pub unseen: bool,
}

impl Picture {
    pub fn add(&mut self, node: &NodeView<'_>) {
        let uid = node.identity.uid.to_string();
        let vertex = Vertex {
            deleting: node.deleting,
            deleting_dependents: node.foreground,
            unseen: !node.seen,
            ..Vertex::named(
                &node.identity.api_version,
                &node.identity.kind,
                &node.identity.namespace,
                &node.identity.name,
            )
        };
        if node.owners.is_empty() {
            // Of several that claim one uid, the one that was seen is drawn.
            match self.alone.get_mut(&uid) {
                Some(known) if !vertex.unseen => *known = vertex,
                Some(_) => {}
                None => drop(self.alone.insert(uid, vertex)),
            }
            return;
        }
        for owner in node.owners {
            self.edges.insert((uid.clone(), owner.uid.to_string()));
        }
        self.vertices.insert(uid, vertex);
        for owner in node.owners {
            let missing = || Vertex {
                missing: true,
                ..Vertex::named(&owner.api_version, &owner.kind, "", &owner.name)
            };
            self.vertices.entry(owner.uid.to_string()).or_insert_with(missing);
        }
    }

    /// Adds the vertices without owners that others refer to.
    pub fn finish(mut self) -> Self {
        for (uid, vertex) in std::mem::take(&mut self.alone) {
            if let Some(place) = self.vertices.get_mut(&uid)
                && place.missing
            {
                *place = vertex;
            }
        }
        self
    }

    /// At most so many vertices, the first ones, and how many are left out.
    pub fn cut(mut self, most: usize) -> (Self, usize) {
        let left_out = self.vertices.len().saturating_sub(most);
        if let Some(first) = self.vertices.keys().nth(most).cloned() {
            drop(self.vertices.split_off(&first));
            let Self { vertices, edges, .. } = &mut self;
            edges.retain(|(from, to)| vertices.contains_key(from) && vertices.contains_key(to));
        }
        (self, left_out)
    }
}

impl Vertex {
    fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// As `kubectl get` takes it.
    pub fn reference(&self) -> String {
        let Self {
            group,
            version,
            kind,
            name,
            ..
        } = self;
        let dot = if group.is_empty() { "" } else { "." };
        format!("{kind}.{version}{dot}{group}/{name}")
    }

    /// What is special about it.
    pub fn flags(&self) -> Vec<&'static str> {
        let flags = [
            (self.deleting, "beingDeleted"),
            (self.deleting_dependents, "deletingDependents"),
            (self.unseen, "virtual"),
            (self.missing, "missingFromGraph"),
        ];
        flags
            .into_iter()
            .filter_map(|(is, flag)| is.then_some(flag))
            .collect()
    }
}
