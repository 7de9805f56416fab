//! A controller that notes what is done with it.

use std::sync::Arc;
use std::sync::Mutex;

use coxswain_manager::client::{Fence, Term};
use coxswain_manager::controller::{Fatal, Runnable, Unhealthy};
use coxswain_manager::object::Key;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What it does when it is told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// It stops.
    Stops,
    /// It goes on.
    Stays,
    /// It does not even start.
    Dies,
}

pub struct Probe {
    manners: Manners,
    /// The terms in which it runs, or ran.
    pub terms: watch::Sender<Vec<Term>>,
    /// How many terms have ended.
    pub ended: watch::Sender<usize>,
    pub unsynced: Mutex<Vec<String>>,
    pub unhealthy: Mutex<Option<Unhealthy>>,
    pub remark: Mutex<Option<String>>,
}

/// A handle of one, which a manager can own.
pub struct Shared(pub Arc<Probe>);

impl Probe {
    pub fn new(manners: Manners) -> Arc<Self> {
        Arc::new(Self {
            manners,
            terms: watch::Sender::new(Vec::new()),
            ended: watch::Sender::new(0),
            unsynced: Mutex::default(),
            unhealthy: Mutex::default(),
            remark: Mutex::default(),
        })
    }

    /// Resolves when it has been started this often.
    pub async fn started(&self, times: usize) {
        let mut terms = self.terms.subscribe();
        terms
            .wait_for(|terms| terms.len() >= times)
            .await
            .expect("the probe lives");
    }

    /// How often it was started, and how often it ended.
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
            assert!(fence.allows(term), "a controller is started in its term");
            if self.0.manners == Manners::Dies {
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
            if self.0.manners == Manners::Stays {
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
