//! Connection slots: a full server closes a connection to make room for the next one.
//!
//! A new connection is always accepted. If [`MAX_CONNECTIONS`] are open, one of the peer that holds the most is closed:
//! one without a request so far before one between two requests before one with a request in flight, the oldest first.
//! So a peer that opens connections by the thousand closes its own, at whatever rate, and the few of a kubelet or an API
//! server stay open. Peers that hold equally many are treated as one: a connection becomes the oldest silent one only after
//! as many others as there are slots, and a probe is answered long before that.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::connection::Activity;

/// Connections at a time.
pub const MAX_CONNECTIONS: usize = 256;

/// The open connections, the oldest first.
#[derive(Default)]
pub(super) struct Slots {
    open: Vec<Slot>,
    /// Whether a connection was closed since there was last room.
    full: bool,
}

struct Slot {
    peer: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl Slots {
    /// Registers a connection, and closes another one if there are too many.
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
        // The first of several equal ones: the oldest.
        let Some((index, _)) = candidates.min_by_key(|(_, slot)| slot.activity.phase()) else {
            return;
        };
        let slot = self.open.remove(index);
        slot.task.abort();
        // One line per episode, or a flood of connections would become one of the log.
        if !std::mem::replace(&mut self.full, true) {
            tracing::warn!(peer = %slot.peer, limit = MAX_CONNECTIONS, "Too many connections, closed the oldest of a peer");
        }
    }
}
