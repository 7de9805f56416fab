//! The buffered bytes of all request bodies. If they exceed the limit, the address with the most bytes pays.
//!
//! So bodies of one address that stall, or that are sent at a high rate, are rejected in favour of those of an API server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The bodies that are read or reviewed.
pub(super) struct Buffer {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    total: usize,
    /// The oldest first.
    bodies: BTreeMap<u64, BufferedBody>,
}

struct BufferedBody {
    address: IpAddr,
    bytes: usize,
    rejected: CancellationToken,
}

/// The bytes of one body. They are released on drop.
pub(super) struct Buffered<'a> {
    buffer: &'a Buffer,
    id: u64,
    rejected: CancellationToken,
}

impl Buffer {
    pub(super) fn new(max: usize) -> Self {
        let state = Mutex::default();
        Self { max, state }
    }

    /// Registers a body without bytes.
    pub(super) fn add(&self, address: IpAddr) -> Buffered<'_> {
        let rejected = CancellationToken::new();
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        let body = BufferedBody {
            address,
            bytes: 0,
            rejected: rejected.clone(),
        };
        state.bodies.insert(id, body);
        Buffered {
            buffer: self,
            id,
            rejected,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffered<'_> {
    /// Adds bytes of the body. While there are too many, rejects the oldest body of the address with the most bytes, or this
    /// one if that is its own address. Returns false if this body is rejected.
    pub(super) fn grow(&self, bytes: usize) -> bool {
        let mut state = self.buffer.state();
        let Some(body) = state.bodies.get_mut(&self.id) else {
            return false;
        };
        body.bytes += bytes;
        let own = body.address;
        state.total += bytes;
        while state.total > self.buffer.max {
            let mut totals = BTreeMap::<_, usize>::new();
            for body in state.bodies.values() {
                *totals.entry(body.address).or_default() += body.bytes;
            }
            let most = totals.values().copied().max().unwrap_or_default();
            let bodies = state.bodies.iter();
            let oldest =
                { bodies }.find(|(_, body)| body.bytes > 0 && totals.get(&body.address) == Some(&most));
            match oldest {
                Some((&oldest, _)) if totals.get(&own) < Some(&most) => state.reject(oldest),
                _ => {
                    state.reject(self.id);
                    return false;
                }
            }
        }
        true
    }

    /// Resolves when the body is rejected.
    pub(super) async fn rejected(&self) {
        self.rejected.cancelled().await;
    }
}

impl State {
    fn reject(&mut self, id: u64) {
        if let Some(body) = self.bodies.remove(&id) {
            self.total -= body.bytes;
            body.rejected.cancel();
        }
    }
}

impl Drop for Buffered<'_> {
    fn drop(&mut self) {
        self.buffer.state().reject(self.id);
    }
}
