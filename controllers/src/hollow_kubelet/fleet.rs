//! The nodes there are: its own, and whether there are others.

use std::collections::BTreeMap;

use coxswain_manager::object::{Text, Uid};

use super::{LABEL, Node};

/// The nodes of a cluster, as they matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    ours: BTreeMap<Text, Hollow>,
    /// The first node, by name, that does not carry the label.
    foreign: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hollow {
    ip: Text,
    takes_pods: bool,
}

/// Why it does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "hollow-kubelet would bind the pods of this cluster to nodes that run nothing, and node {node} is not one of them: \
     remove hollow-kubelet from --controllers, or, if that node is to be played too, label it {LABEL}=true"
)]
pub struct Refusal {
    /// The first node, by name, that does not carry the label.
    pub node: Text,
}

impl Fleet {
    /// Sorts these nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut fleet = Self::default();
        for node in nodes {
            let name = &node.metadata.name;
            if node.is_hollow() {
                let hollow = Hollow {
                    ip: node.ip(),
                    takes_pods: node.takes_pods(),
                };
                fleet.ours.insert(name.clone(), hollow);
            } else if fleet.foreign.as_ref().is_none_or(|first| name < first) {
                fleet.foreign = Some(name.clone());
            }
        }
        fleet
    }

    /// Whether it may start outside the sandbox: only if every node is its own.
    pub fn may_start(&self) -> Result<(), Refusal> {
        match &self.foreign {
            Some(node) => Err(Refusal { node: node.clone() }),
            None => Ok(()),
        }
    }

    /// The address of this node; none if it is not one of its own.
    pub(super) fn ip(&self, node: &str) -> Option<&Text> {
        self.ours.get(node).map(|it| &it.ip)
    }

    /// The node for a pod: always the same one while there are the same nodes.
    pub(super) fn node_for(&self, uid: &Uid) -> Option<&Text> {
        let open: Vec<&Text> = self
            .ours
            .iter()
            .filter(|(_, it)| it.takes_pods)
            .map(|(name, _)| name)
            .collect();
        let count = u64::try_from(open.len()).ok().filter(|it| *it > 0)?;
        let at = usize::try_from(hash(&uid.to_string()) % count).ok()?;
        open.get(at).copied()
    }
}

/// FNV-1a: the same in every process, unlike the hashes of the standard library.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
