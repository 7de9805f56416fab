//! What is served at this moment: asked at every handshake, changed without ending a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::super::metrics::Reads;
use crate::serve::Health;

/// The pair that is served, if there is one.
#[derive(Debug)]
pub(crate) struct Served {
    state: Mutex<State>,
    reads: Reads,
}

#[derive(Debug, Default)]
struct State {
    pair: Option<Arc<CertifiedKey>>,
    /// It was good once, and is no more: nobody verifies it, but to serve nothing helps nobody either.
    ended: bool,
    /// What is wrong with what was read last, or with reading.
    problem: Option<String>,
}

impl Served {
    pub(crate) fn new(reads: Reads) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            reads,
        })
    }

    /// Something was read that is good: it is served from now on. True if it is another than before.
    pub(crate) fn serve(&self, pair: &Arc<CertifiedKey>) -> bool {
        self.reads.total.inc();
        let mut state = self.state();
        (state.problem, state.ended) = (None, false);
        let same = state.pair.as_ref().is_some_and(|it| it.cert == pair.cert);
        if !same {
            state.pair = Some(pair.clone());
        }
        !same
    }

    /// Something was read that is not to be served: this pair, if it is one. What is served stays. True if that is news.
    pub(crate) fn refuse(&self, pair: Option<&Arc<CertifiedKey>>, problem: &str) -> bool {
        self.reads.total.inc();
        self.reads.errors.inc();
        let mut state = self.state();
        state.ended = match (&state.pair, pair) {
            (Some(served), Some(read)) => served.cert == read.cert,
            _ => false,
        };
        state.turned(problem)
    }

    /// Nothing can be read for now, which matters where nothing was read before.
    pub(crate) fn note(&self, problem: &str) {
        let mut state = self.state();
        if state.pair.is_none() {
            state.turned(problem);
        }
    }

    /// There is nothing to serve. What is served stays, but its authority may be given up. True if that is news to who serves.
    pub(crate) fn lack(&self, problem: &str) -> bool {
        let mut state = self.state();
        let news = state.turned(problem);
        news && state.pair.is_some()
    }

    pub(crate) fn health(&self) -> Health {
        let state = self.state();
        match (&state.pair, &state.problem) {
            (Some(_), Some(problem)) if state.ended => Health::Failed(format!("the certificate: {problem}")),
            (Some(_), Some(problem)) => Health::Note(format!("serves an earlier certificate: {problem}")),
            (Some(_), None) => Health::Ok,
            (None, Some(problem)) => Health::Failed(format!("no certificate: {problem}")),
            (None, None) => Health::Failed("no certificate yet".to_owned()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether that is another problem than before.
    fn turned(&mut self, problem: &str) -> bool {
        let same = self.problem.as_deref() == Some(problem);
        self.problem = Some(problem.to_owned());
        !same
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.state().pair.clone()
    }
}
