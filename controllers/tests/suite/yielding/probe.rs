//! A controller that records its runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use steersman_manager::client::{Fence, Term};
use steersman_manager::controller::{Fatal, Runnable, Unhealthy};
use steersman_manager::env::Clock;
use steersman_manager::object::Key;
use tokio_util::sync::CancellationToken;

pub struct Probe {
    pub name: &'static str,
    pub clock: Clock,
    /// Time to stop.
    pub drain: Duration,
    /// Called when the controller starts.
    pub count: Box<dyn Fn() -> usize + Send + Sync>,
    pub notes: Mutex<Notes>,
}

/// Numbers of starts, stops and ends, and the result of `count` at the last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub started: usize,
    pub stopped: usize,
    pub ended: usize,
    pub counted: usize,
}

/// A handle that a manager can own.
pub struct Shared(pub Arc<Probe>);

impl Probe {
    pub fn new(name: &'static str, clock: &Clock) -> Self {
        Self {
            name,
            clock: clock.clone(),
            drain: Duration::ZERO,
            count: Box::new(|| 0),
            notes: Mutex::default(),
        }
    }

    pub fn notes(&self) -> Notes {
        *self.notes.lock().expect("no panic")
    }

    pub fn runs(&self) -> bool {
        let notes = self.notes();
        notes.started > notes.ended
    }

    fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().expect("no panic"));
    }
}

impl Runnable for Shared {
    fn name(&self) -> &str {
        self.0.name
    }

    fn unsynced(&self) -> Vec<String> {
        Vec::new()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let (probe, fence) = (&self.0, fence.clone());
        Box::pin(async move {
            let counted = (probe.count)();
            assert!(!probe.runs(), "one run at a time");
            probe.note(|notes| {
                notes.started += 1;
                notes.counted = counted;
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = fence.closed(term) => {}
            }
            probe.note(|notes| notes.stopped += 1);
            probe.clock.sleep(probe.drain).await;
            probe.note(|notes| notes.ended += 1);
            Ok(())
        })
    }

    fn running(&self) -> Vec<Key> {
        Vec::new()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        Ok(())
    }
}
