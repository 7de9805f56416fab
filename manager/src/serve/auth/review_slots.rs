//! The number of reviews in flight, which bounds requests to the API server and their memory.
//!
//! One client can occupy only some of the slots: a client that sends random tokens at a high rate delays the reviews of
//! other clients, but does not prevent them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The reviews in flight, including those that wait for the rate limiter.
pub(super) const REVIEWS_MAX: usize = 64;
/// The reviews in flight for one client.
pub(super) const REVIEWS_PER_PEER_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ReviewSlots(Mutex<BTreeMap<IpAddr, usize>>);

/// An occupied slot, freed on drop.
#[derive(Debug)]
pub(super) struct ReviewSlot {
    slots: Arc<ReviewSlots>,
    peer: IpAddr,
}

impl ReviewSlots {
    /// Occupies a slot for a request of `peer`; none if too many are occupied.
    pub(super) fn acquire(self: &Arc<Self>, peer: IpAddr) -> Option<ReviewSlot> {
        let mut occupied = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if occupied.values().sum::<usize>() >= REVIEWS_MAX {
            return None;
        }
        let count = occupied.entry(peer).or_default();
        if *count >= REVIEWS_PER_PEER_MAX {
            return None;
        }
        *count += 1;
        Some(ReviewSlot {
            slots: self.clone(),
            peer,
        })
    }
}

impl Drop for ReviewSlot {
    fn drop(&mut self) {
        let mut occupied = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = occupied.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                occupied.remove(&self.peer);
            }
        }
    }
}
