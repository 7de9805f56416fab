//! A bounded part of the graph in the DOT language, with the attributes of kube-controller-manager.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use steersman_manager::object::{Text, Uid};

use crate::garbage_collector::graph::{Identity, NodeInfo};

/// The number of vertices and edges after which no object is added. The last object can add some ten thousand references.
const MAX: usize = 20_000;

/// Ordered by uid, so that the same graph gives the same text.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    vertices: BTreeMap<Uid, Vertex>,
    /// From the dependent to the owner.
    edges: BTreeSet<(Uid, Uid)>,
    left_out: usize,
}

#[derive(Debug)]
struct Vertex {
    identity: Identity,
    /// As in [`FLAGS`].
    flags: [bool; 4],
}

/// An owner is virtual if no cache has shown it, and missing if only references name it.
const FLAGS: [&str; 4] = [
    "beingDeleted",
    "deletingDependents",
    "virtual",
    "missingFromGraph",
];

impl Drawing {
    pub(super) fn add(&mut self, node: NodeInfo<'_>) {
        if node.owners.is_empty() && node.dependents == 0 {
            return;
        }
        if self.vertices.len() + self.edges.len() >= MAX {
            self.left_out += 1;
            return;
        }
        let uid = node.identity.uid.clone();
        for owner in node.owners {
            self.edges.insert((uid.clone(), owner.uid.clone()));
            let vertex = self.vertices.entry(owner.uid.clone());
            vertex.or_insert_with(|| Vertex {
                identity: Identity {
                    uid: owner.uid.clone(),
                    api_version: owner.api_version.clone(),
                    kind: owner.kind.clone(),
                    namespace: Text::default(),
                    name: owner.name.clone(),
                },
                flags: [false, false, false, true],
            });
        }
        let vertex = Vertex {
            flags: [node.deleting, node.foreground, !node.observed, false],
            identity: node.identity,
        };
        self.vertices.insert(uid, vertex);
    }

    pub(super) fn text(&self) -> String {
        let mut text = "strict digraph full {\n".to_owned();
        if self.left_out > 0 {
            let left_out = self.left_out;
            let _ = writeln!(
                text,
                "  // {left_out} more objects are not shown: select some with ?uid="
            );
        }
        text.push_str("  // Node definitions.\n");
        for (uid, vertex) in &self.vertices {
            let _ = writeln!(text, "  {} [", quoted(uid));
            for (key, value) in vertex.attributes() {
                let _ = writeln!(text, "    {key}={}", quoted(&value));
            }
            text.push_str("  ];\n");
        }
        text.push_str("\n  // Edge definitions.\n");
        for (from, to) in &self.edges {
            let _ = writeln!(text, "  {} -> {};", quoted(from), quoted(to));
        }
        text.push_str("}\n");
        text
    }
}

impl Vertex {
    fn attributes(&self) -> [(&'static str, String); 11] {
        let Identity {
            uid,
            api_version,
            kind,
            namespace,
            name,
        } = &self.identity;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let dot = if group.is_empty() { "" } else { "." };
        let mut label = format!("uid={uid}\nnamespace={namespace}\n{kind}.{version}{dot}{group}/{name}\n");
        let flags = FLAGS
            .into_iter()
            .zip(self.flags)
            .filter_map(|(flag, is)| is.then_some(flag));
        let flags: Vec<_> = flags.collect();
        if !flags.is_empty() {
            let _ = writeln!(label, "{}", flags.join(","));
        }
        let [deleting, foreground, virtual_owners, missing] = self.flags;
        [
            ("label", label),
            ("group", group.to_owned()),
            ("version", version.to_owned()),
            ("kind", kind.to_string()),
            ("namespace", namespace.to_string()),
            ("name", name.to_string()),
            ("uid", uid.to_string()),
            ("missing", missing.to_string()),
            ("beingDeleted", deleting.to_string()),
            ("deletingDependents", foreground.to_string()),
            ("virtual", virtual_owners.to_string()),
        ]
    }
}

/// In quotes, on one line.
fn quoted(text: &impl ToString) -> String {
    let mut quoted = "\"".to_owned();
    for char in text.to_string().chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            char if char.is_control() => quoted.push('\u{fffd}'),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}
