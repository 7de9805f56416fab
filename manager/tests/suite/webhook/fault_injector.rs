//! A transport that injects faults and logs requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coxswain_sandbox::ResponseBody;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower_service::Service;

use crate::fixture::{Fault, send};

/// The planned faults and the log.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The number of the next write, from 0.
    next: usize,
    planned: Option<(usize, Fault)>,
    /// Writes from this number on are lost.
    last: Option<usize>,
    /// Methods and paths of requests other than watches and Leases.
    log: Vec<String>,
}

pub struct FaultInjector {
    service: coxswain_sandbox::ApiService,
    faults: Faults,
}

impl Faults {
    /// Plans a fault for one write.
    pub fn plan(&self, number: usize, fault: Fault) {
        self.with(|state| state.planned = Some((number, fault)));
    }

    /// Loses all writes from this number on.
    pub fn stop_at(&self, number: usize) {
        self.with(|state| state.last = Some(number));
    }

    /// Reports whether `stop_at` has lost a write.
    pub fn is_stopped(&self) -> bool {
        self.with(|state| state.last.is_some_and(|last| state.next > last))
    }

    /// Takes the log.
    pub fn take(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.log))
    }

    /// Takes the log without reads.
    pub fn take_writes(&self) -> Vec<String> {
        let mut log = self.take();
        log.retain(|it| !it.starts_with("GET"));
        log
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FaultInjector {
    pub fn new(service: coxswain_sandbox::ApiService, faults: Faults) -> Self {
        Self { service, faults }
    }
}

impl Service<Request<Body>> for FaultInjector {
    type Response = Response<ResponseBody>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let fault = if path.contains("/leases") {
            None
        } else {
            self.faults.with(|state| {
                let is_watch = request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch=true"));
                if !is_watch {
                    state.log.push(format!("{} {path}", request.method()));
                }
                if request.method() == Method::GET {
                    return None;
                }
                let number = state.next;
                state.next += 1;
                if state.last.is_some_and(|last| number >= last) {
                    return Some(Fault::Lost);
                }
                state
                    .planned
                    .filter(|(it, _)| *it == number)
                    .map(|(_, fault)| fault)
            })
        };
        send(&mut self.service, request, fault)
    }
}
