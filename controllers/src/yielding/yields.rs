//! A controller that works while kube-controller-manager does not.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_manager::client::{Fence, Term};
use coxswain_manager::controller::{Fatal, Runnable, Unhealthy};
use coxswain_manager::object::Key;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{State, Yielding};

/// How long the caches may take to see what kube-controller-manager wrote. A kind that cannot be read at all must not stop
/// the others.
const CATCH_UP: Duration = Duration::from_secs(30);

/// A controller, and whom it yields to.
#[derive(Debug)]
pub struct Yields<R> {
    inner: R,
    yielding: Yielding,
}

/// Nobody looks any more: a mistake in the program.
struct Unwatched;

impl<R: Runnable> Yields<R> {
    /// `inner`, which yields.
    pub fn new(inner: R, yielding: Yielding) -> Self {
        Self { inner, yielding }
    }

    /// Works whenever it may, until it is told to stop or the term is over.
    async fn work(&self, fence: &Fence, term: Term, stop: &CancellationToken) -> Result<(), Fatal> {
        let mut states = self.yielding.states.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = fence.closed(term) => return Ok(()),
                free = self.free(&mut states) => free.map_err(|Unwatched| self.unwatched())?,
            }
            let halt = stop.child_token();
            let mut run = self.inner.run(fence, term, halt.clone());
            let taken = tokio::select! {
                biased;
                taken = until(&mut states, |state| !state.is_free()) => taken,
                ended = &mut run => return ended,
            };
            halt.cancel();
            run.await?;
            taken.map_err(|Unwatched| self.unwatched())?;
        }
    }

    /// Resolves when it may run. If it had to wait, it has told so, once, and the caches have seen what
    /// kube-controller-manager wrote: one that gives its Lease back may have written just before.
    async fn free(&self, states: &mut watch::Receiver<State>) -> Result<(), Unwatched> {
        let controller = self.inner.name();
        let (mut waited, mut told) = (false, false);
        loop {
            let state = states.borrow_and_update().clone();
            if !state.is_free() {
                // The first answer is not long in coming: until then there is nothing to tell.
                if state != State::Unread && !told {
                    told = true;
                    tracing::info!(controller, ?state, "Controller yields to kube-controller-manager");
                }
                waited = true;
                states.changed().await.map_err(|_| Unwatched)?;
                continue;
            }
            if !waited {
                return Ok(());
            }
            tokio::select! {
                biased;
                taken = until(states, |state| !state.is_free()) => taken?,
                () = self.catch_up() => waited = false,
            }
            if told && !waited {
                tracing::info!(controller, ?state, "Controller wakes");
            }
        }
    }

    async fn catch_up(&self) {
        let Yielding { clock, caches, .. } = &self.yielding;
        let known = BTreeMap::new();
        if clock.timeout(CATCH_UP, caches.catch_up(&known)).await.is_none() {
            let controller = self.inner.name();
            tracing::warn!(
                controller,
                "Going on before all caches have seen what kube-controller-manager wrote"
            );
        }
    }

    fn unwatched(&self) -> Fatal {
        Fatal::Ended {
            controller: self.inner.name().to_owned(),
            origin: format!("lease {}", self.yielding.lease),
        }
    }
}

async fn until(
    states: &mut watch::Receiver<State>,
    holds: impl FnMut(&State) -> bool,
) -> Result<(), Unwatched> {
    states.wait_for(holds).await.map(drop).map_err(|_| Unwatched)
}

impl<R: Runnable> Runnable for Yields<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn unsynced(&self) -> Vec<String> {
        self.inner.unsynced()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move { self.work(&fence, term, &stop).await })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.inner.health()
    }

    fn yields(&self) -> Option<String> {
        self.yielding.reason()
    }
}
