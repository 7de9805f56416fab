//! Connection slots: a full server closes a connection to make room for the next one.
//!
//! A new connection is always accepted. If [`MAX_CONNECTIONS`] are open, one of the peer with the most connections is
//! closed: a connection without a request first, then an idle one, then one with a request in flight; the oldest first. So
//! a peer that opens connections at a high rate closes its own, and those of a kubelet or an API server stay open. If all
//! peers have equally many, the oldest silent connection is closed; a probe is served long before it becomes the oldest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::connection::Activity;

/// The number of concurrent connections.
pub const MAX_CONNECTIONS: usize = 256;

/// The open connections, oldest first.
#[derive(Default)]
pub(super) struct Slots {
    open: Vec<Slot>,
    /// Whether a connection was closed since there was last a free slot.
    full: bool,
}

struct Slot {
    peer: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl Slots {
    /// Registers a connection and closes another one if all slots are in use.
    pub(super) fn add(&mut self, peer: IpAddr, activity: Arc<Activity>, task: AbortHandle) {
        self.open.retain(|slot| !slot.task.is_finished());
        if self.open.len() < MAX_CONNECTIONS {
            self.full = false;
        } else {
            self.close_one();
        }
        self.open.push(Slot { peer, activity, task });
    }

    fn close_one(&mut self) {
        let mut counts = BTreeMap::<_, usize>::new();
        for slot in &self.open {
            *counts.entry(slot.peer).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let candidates = self.open.iter().enumerate();
        let candidates = candidates.filter(|(_, slot)| counts.get(&slot.peer).copied() == most);
        // Of several minima the first, which is the oldest.
        let Some((index, _)) = candidates.min_by_key(|(_, slot)| slot.activity.phase()) else {
            return;
        };
        let slot = self.open.remove(index);
        slot.task.abort();
        // Logged once per episode.
        if !std::mem::replace(&mut self.full, true) {
            tracing::warn!(peer = %slot.peer, limit = MAX_CONNECTIONS, "Too many connections, closed one");
        }
    }
}
