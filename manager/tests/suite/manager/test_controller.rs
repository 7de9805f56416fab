//! A controller that records its terms.

use std::sync::Arc;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use steersman_manager::client::{Fence, Term};
use steersman_manager::controller::{Fatal, Runnable, Unhealthy};
use steersman_manager::object::Key;
use steersman_manager::sync::watch;
use tokio_util::sync::CancellationToken;

/// The behavior of the controller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    Stops,
    IgnoresStop,
    Fails,
}

pub struct TestController {
    behavior: Behavior,
    /// The terms it was started in.
    pub terms: watch::Sender<Vec<Term>>,
    /// The number of ended terms.
    pub ended: watch::Sender<usize>,
    pub unsynced: Mutex<Vec<String>>,
    pub unhealthy: Mutex<Option<Unhealthy>>,
    pub remark: Mutex<Option<String>>,
}

/// A handle that a manager can own.
pub struct Shared(pub Arc<TestController>);

impl TestController {
    pub fn new(behavior: Behavior) -> Arc<Self> {
        Arc::new(Self {
            behavior,
            terms: watch::Sender::new(Vec::new()),
            ended: watch::Sender::new(0),
            unsynced: Mutex::default(),
            unhealthy: Mutex::default(),
            remark: Mutex::default(),
        })
    }

    /// Waits until it has been started this many times.
    pub async fn started(&self, times: usize) {
        let mut terms = self.terms.subscribe();
        terms
            .wait_for(|terms| terms.len() >= times)
            .await
            .expect("a running controller");
    }

    /// Returns how many times it was started and ended.
    pub fn counts(&self) -> (usize, usize) {
        (self.terms.borrow().len(), *self.ended.borrow())
    }
}

impl Runnable for Shared {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn unsynced(&self) -> Vec<String> {
        self.0.unsynced.lock().expect("no panic").clone()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move {
            self.0.terms.send_modify(|terms| terms.push(term));
            assert!(fence.allows(term), "started outside of its term");
            if self.0.behavior == Behavior::Fails {
                return Err(Fatal::Ended {
                    controller: "probe".to_owned(),
                    origin: "pods".to_owned(),
                });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = fence.closed(term) => {}
            }
            if self.0.behavior == Behavior::IgnoresStop {
                std::future::pending::<()>().await;
            }
            self.0.ended.send_modify(|ended| *ended += 1);
            Ok(())
        })
    }

    fn running(&self) -> Vec<Key> {
        vec![Key::new("default", "web")]
    }

    fn health(&self) -> Result<(), Unhealthy> {
        self.0
            .unhealthy
            .lock()
            .expect("no panic")
            .clone()
            .map_or(Ok(()), Err)
    }

    fn remark(&self) -> Option<String> {
        self.0.remark.lock().expect("no panic").clone()
    }
}
