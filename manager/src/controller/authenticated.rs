//! A controller with the identity of a service account.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Activity, Fatal, RecentError, Runnable, Unhealthy};
use crate::client::{Fence, ServiceAccount, Term};
use crate::object::Key;

/// Keeps the token of a service account valid while a controller runs. The controller is unhealthy while there is none.
#[derive(Debug)]
pub struct AuthenticatedController<R> {
    inner: R,
    /// None for the identity of the process.
    account: Option<ServiceAccount>,
    running: AtomicBool,
}

/// Marks the controller as not running on drop.
struct Running<'a>(&'a AtomicBool);

impl<R: Runnable> AuthenticatedController<R> {
    /// Wraps a controller whose client is [authenticated as](crate::client::Reader::authenticated_as) `account`.
    pub fn new(inner: R, account: Option<ServiceAccount>) -> Self {
        Self {
            inner,
            account,
            running: AtomicBool::new(false),
        }
    }
}

impl<R: Runnable> Runnable for AuthenticatedController<R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn unsynced(&self) -> Vec<String> {
        self.inner.unsynced()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let run = self.inner.run(fence, term, stop);
        Box::pin(async move {
            self.running.store(true, Ordering::Relaxed);
            let _running = Running(&self.running);
            let keep_valid = async {
                match &self.account {
                    Some(account) => account.keep_valid().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = run => ended,
                never = keep_valid => match never {},
            }
        })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.inner.health()?;
        let failure = self.account.as_ref().and_then(ServiceAccount::failure);
        match failure.filter(|_| self.running.load(Ordering::Relaxed)) {
            Some(error) => Err(Unhealthy::Unauthenticated(error)),
            None => Ok(()),
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
        self.inner.yields()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
