//! A controller that works while kube-controller-manager does not.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_manager::client::{Fence, Term};
use coxswain_manager::controller::{Fatal, Runnable, Unhealthy};
use coxswain_manager::object::Key;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::board::Abandoned;
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

impl<R: Runnable> Yields<R> {
    /// `inner`, which yields.
    pub fn new(inner: R, yielding: Yielding) -> Self {
        Self { inner, yielding }
    }

    /// Works whenever it may, until it is told to stop or the term is over.
    async fn work(&self, fence: &Fence, term: Term, stop: &CancellationToken) -> Result<(), Fatal> {
        let mut again = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = fence.closed(term) => return Ok(()),
                free = self.free(again) => free.map_err(|Abandoned| self.abandoned())?,
            }
            let halt = stop.child_token();
            let mut run = self.inner.run(fence, term, halt.clone());
            let taken = tokio::select! {
                biased;
                taken = self.taken() => taken,
                ended = &mut run => return ended,
            };
            halt.cancel();
            run.await?;
            taken.map_err(|Abandoned| self.abandoned())?;
            again = true;
        }
    }

    /// Resolves when it may run. If it had to wait, it has told so, once, and the caches have seen what
    /// kube-controller-manager wrote: one that gives its Lease back may have written just before. If it may run `again`,
    /// kube-controller-manager was there in between, though it may be gone by now.
    async fn free(&self, again: bool) -> Result<(), Abandoned> {
        let board = &self.yielding.board;
        if !again && board.state()?.is_free() {
            return Ok(());
        }
        let controller = self.inner.name();
        // The first answer is not long in coming: until then there is nothing to tell.
        let state = board.until(|state| *state != State::Unread).await?;
        let yields = !state.is_free();
        if yields {
            tracing::info!(controller, lease = %state, "Controller yields to kube-controller-manager");
        }
        loop {
            let state = board.until(State::is_free).await?;
            tokio::select! {
                biased;
                taken = self.taken() => taken?,
                () = self.catch_up() => {
                    if yields {
                        tracing::info!(controller, lease = %state, "Controller yields no more");
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn taken(&self) -> Result<(), Abandoned> {
        self.yielding
            .board
            .until(|state| !state.is_free())
            .await
            .map(drop)
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

    fn abandoned(&self) -> Fatal {
        Fatal::Ended {
            controller: self.inner.name().to_owned(),
            origin: format!("lease {}", self.yielding.lease),
        }
    }
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
        self.yielding.begin(term);
        Box::pin(async move { self.work(&fence, term, &stop).await })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.inner.health()
    }

    fn remark(&self) -> Option<String> {
        self.inner.remark()
    }

    fn yields(&self) -> Option<String> {
        self.yielding.reason()
    }
}
