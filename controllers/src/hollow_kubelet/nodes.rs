//! The nodes of the cluster: hollow ones, and whether there are others.

use std::collections::BTreeMap;

use steersman_manager::object::{Text, Uid};

use super::{LABEL, Node};

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    hollow: BTreeMap<Text, HollowNode>,
    /// The first node, by name, without the label.
    foreign: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HollowNode {
    ip: Text,
    is_schedulable: bool,
}

/// The cluster has a node that is not hollow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "hollow-kubelet simulates nodes and must not run beside other nodes, but node {node} is not simulated: remove \
     hollow-kubelet from --controllers, or, to simulate that node too, label it {LABEL}=true"
)]
pub struct ForeignNode {
    /// The first one by name.
    pub node: Text,
}

impl Nodes {
    /// Classifies nodes.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut all = Self::default();
        for node in nodes {
            let name = &node.metadata.name;
            if node.is_hollow() {
                let hollow = HollowNode {
                    ip: node.ip(),
                    is_schedulable: node.is_schedulable(),
                };
                all.hollow.insert(name.clone(), hollow);
            } else if all.foreign.as_ref().is_none_or(|first| name < first) {
                all.foreign = Some(name.clone());
            }
        }
        all
    }

    /// Fails if there is another node.
    pub fn all_hollow(&self) -> Result<(), ForeignNode> {
        match &self.foreign {
            Some(node) => Err(ForeignNode { node: node.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the address of a hollow node.
    pub(super) fn ip(&self, node: &str) -> Option<&Text> {
        self.hollow.get(node).map(|it| &it.ip)
    }

    /// Returns the node for a pod, always the same one for the same set of nodes.
    pub(super) fn node_for(&self, uid: &Uid) -> Option<&Text> {
        let schedulable: Vec<&Text> = self
            .hollow
            .iter()
            .filter(|(_, it)| it.is_schedulable)
            .map(|(name, _)| name)
            .collect();
        let count = u64::try_from(schedulable.len()).ok().filter(|it| *it > 0)?;
        let at = usize::try_from(hash(&uid.to_string()) % count).ok()?;
        schedulable.get(at).copied()
    }
}

/// FNV-1a: equal in every process, unlike the hashes of the standard library.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
