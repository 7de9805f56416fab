//! hollow-kubelet behind the look at the cluster: it does not start where it must not play.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coxswain_manager::client::{Client, Fence, Term};
use coxswain_manager::controller::{self, Controller, ControllerError, Fatal, Runnable, Unhealthy};
use coxswain_manager::env::Clock;
use coxswain_manager::manager::Manager;
use coxswain_manager::object::Key;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::start::{StartError, may_start};
use super::{HollowKubelet, NAME, Options, build};

/// How long to wait before the nodes are asked for again, if they could not be read.
const AGAIN: Duration = Duration::from_secs(2);

/// No server is believed that asks for a longer wait.
const LONGEST: Duration = Duration::from_mins(5);

/// The controller, and why it does not run.
struct Guarded {
    inner: Controller<HollowKubelet>,
    client: Client,
    clock: Clock,
    options: Options,
    refusal: Mutex<Option<String>>,
}

/// The controller for `manager` to host, with so many workers.
///
/// # Panics
/// Outside a tokio runtime.
pub fn guarded(
    manager: &Manager,
    options: Options,
    workers: usize,
) -> Result<impl Runnable + use<>, ControllerError> {
    let client = manager.client(NAME);
    let how = controller::Options {
        workers,
        ..controller::Options::default()
    };
    let inner = build(
        manager.env(),
        manager.caches(),
        client.clone(),
        manager.registry(),
        options.clone(),
        how,
    )?;
    let clock = manager.env().clock.clone();
    Ok(Guarded {
        inner,
        client,
        clock,
        options,
        refusal: Mutex::default(),
    })
}

impl Guarded {
    /// Resolves when it may run: never, if it must not.
    async fn admitted(&self) {
        loop {
            match may_start(&self.client, &self.options).await {
                Ok(()) => return self.refuse(None),
                Err(StartError::Refused(refusal)) => {
                    tracing::error!(reason = %refusal, "hollow-kubelet does not start");
                    self.refuse(Some(refusal.to_string()));
                    std::future::pending::<()>().await;
                }
                Err(StartError::Look(error)) => {
                    tracing::warn!(%error, "hollow-kubelet cannot look at the nodes");
                    let asked = error.retry_after().unwrap_or_default();
                    self.clock.sleep(asked.clamp(AGAIN, LONGEST)).await;
                }
            }
        }
    }

    fn refuse(&self, reason: Option<String>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl Runnable for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn unsynced(&self) -> Vec<String> {
        self.inner.unsynced()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = fence.closed(term) => return Ok(()),
                () = self.admitted() => {}
            }
            self.inner.run(&fence, term, stop).await
        })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        let refusal = self
            .refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match refusal {
            Some(reason) => Err(Unhealthy::Refused { reason }),
            None => self.inner.health(),
        }
    }
}
