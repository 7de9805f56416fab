//! A gate: matching requests wait in front of it until the test lets them pass.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Stops requests until they are released. Clones share the gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    arrived: Semaphore,
    released: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Inner {
            arrived: Semaphore::new(0),
            released: Semaphore::new(0),
        }))
    }
}

impl Gate {
    /// Waits until a request has arrived. Each arrival is reported once.
    pub async fn reached(&self) {
        if let Ok(arrival) = self.0.arrived.acquire().await {
            arrival.forget();
        }
    }

    /// Lets one request pass: the one that has waited longest, or the next one.
    pub fn release(&self) {
        self.0.released.add_permits(1);
    }

    /// Lets all requests pass from now on.
    pub fn open(&self) {
        self.0.released.close();
    }

    pub(super) async fn pass(&self) {
        self.0.arrived.add_permits(1);
        // An error: the gate is open.
        if let Ok(released) = self.0.released.acquire().await {
            released.forget();
        }
    }
}
