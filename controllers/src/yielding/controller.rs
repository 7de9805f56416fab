//! A controller that runs only while kube-controller-manager does not.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use steersman_manager::client::{Fence, Term};
use steersman_manager::controller::{Activity, Fatal, RecentError, Runnable, Unhealthy};
use steersman_manager::object::Key;
use tokio_util::sync::CancellationToken;

use super::shared_state::ObserverEnded;
use super::{KcmLease, State};

/// Bounds waiting for the caches to reach kube-controller-manager's last writes. A resource that cannot be read must not block
/// controllers of others.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// A controller that yields to kube-controller-manager.
#[derive(Debug)]
pub struct YieldingController<R> {
    inner: R,
    kcm: KcmLease,
}

impl<R: Runnable> YieldingController<R> {
    /// Wraps a controller.
    pub fn new(inner: R, kcm: KcmLease) -> Self {
        Self { inner, kcm }
    }

    /// Runs the controller whenever kube-controller-manager does not run, until `stop` or the end of the term.
    async fn run_while_free(&self, fence: &Fence, term: Term, stop: &CancellationToken) -> Result<(), Fatal> {
        let mut again = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = fence.closed(term) => return Ok(()),
                free = self.free(again) => free.map_err(|ObserverEnded| self.observer_ended())?,
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
            taken.map_err(|ObserverEnded| self.observer_ended())?;
            again = true;
        }
    }

    /// Resolves when the controller may run. After a wait, which is logged once, the caches have reached
    /// kube-controller-manager's last writes: it may have written just before it released the Lease. With `again`,
    /// kube-controller-manager was alive since the last run, even if it is not any more.
    async fn free(&self, again: bool) -> Result<(), ObserverEnded> {
        let shared = &self.kcm.state;
        if !again && shared.get()?.is_free() {
            return Ok(());
        }
        let controller = self.inner.name();
        // Nothing is logged before the first read.
        let state = shared.wait_for(|state| *state != State::Unread).await?;
        let yields = !state.is_free();
        if yields {
            tracing::info!(controller, state = %state, "Controller yields to kube-controller-manager");
        }
        loop {
            let state = shared.wait_for(State::is_free).await?;
            tokio::select! {
                biased;
                taken = self.taken() => taken?,
                () = self.catch_up() => {
                    if yields {
                        tracing::info!(controller, state = %state, "Controller stopped yielding to kube-controller-manager");
                    }
                    return Ok(());
                }
            }
        }
    }

    async fn taken(&self) -> Result<(), ObserverEnded> {
        self.kcm.state.wait_for(|state| !state.is_free()).await.map(drop)
    }

    async fn catch_up(&self) {
        let KcmLease { clock, caches, .. } = &self.kcm;
        let known = BTreeMap::new();
        if clock
            .timeout(CATCH_UP_TIMEOUT, caches.catch_up(&known))
            .await
            .is_none()
        {
            let controller = self.inner.name();
            tracing::warn!(
                controller,
                "Timed out waiting for caches to reach the last writes of kube-controller-manager"
            );
        }
    }

    fn observer_ended(&self) -> Fatal {
        Fatal::Ended {
            controller: self.inner.name().to_owned(),
            origin: format!("lease {}", self.kcm.lease),
        }
    }
}

impl<R: Runnable> Runnable for YieldingController<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn unsynced(&self) -> Vec<String> {
        self.inner.unsynced()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        self.kcm.begin(term);
        Box::pin(async move { self.run_while_free(&fence, term, &stop).await })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    /// A stale watch does not matter while the controller yields.
    fn health(&self) -> Result<(), Unhealthy> {
        match self.inner.health() {
            Err(Unhealthy::StaleWatch { .. }) if self.yields().is_some() => Ok(()),
            health => health,
        }
    }

    fn activity(&self) -> Activity {
        self.inner.activity()
    }

    fn recent_errors(&self) -> Vec<RecentError> {
        self.inner.recent_errors()
    }

    fn remark(&self) -> Option<String> {
        self.inner.remark()
    }

    fn yields(&self) -> Option<String> {
        self.kcm.reason()
    }
}
