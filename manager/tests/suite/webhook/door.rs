//! A door that things go wrong at, and that keeps a list of what went through.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coxswain_sandbox::ResponseBody;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower_service::Service;

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before the server has seen it.
    Lost,
    /// The server does it, and its answer is lost.
    AnswerLost,
    /// The server gives up.
    Code(u16),
}

/// What is to happen, and what has.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Which write is next, counted from 0, and what happens to which.
    next: usize,
    planned: Option<(usize, Fault)>,
    /// From this write on nothing gets through.
    last: Option<usize>,
    /// Methods and paths, of writes and of reads of one object, without those of the election.
    log: Vec<String>,
}

pub struct Door {
    door: coxswain_sandbox::Door,
    faults: Faults,
}

impl Faults {
    /// Has this happen to the write of that number.
    pub fn plan(&self, number: usize, fault: Fault) {
        self.with(|state| state.planned = Some((number, fault)));
    }

    /// Has no write get through from the one of that number on.
    pub fn stop_at(&self, number: usize) {
        self.with(|state| state.last = Some(number));
    }

    /// Whether that has kept anything back.
    pub fn is_stopped(&self) -> bool {
        self.with(|state| state.last.is_some_and(|last| state.next > last))
    }

    /// What went through, and forgets it.
    pub fn take(&self) -> Vec<String> {
        self.with(|state| std::mem::take(&mut state.log))
    }

    /// The writes of what went through, and forgets all.
    pub fn take_writes(&self) -> Vec<String> {
        let mut log = self.take();
        log.retain(|it| !it.starts_with("GET"));
        log
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Door {
    pub fn new(door: coxswain_sandbox::Door, faults: Faults) -> Self {
        Self { door, faults }
    }
}

impl Service<Request<Body>> for Door {
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
        let lost = || Err(std::io::Error::other("the connection broke"));
        let request = match fault {
            Some(Fault::Lost) => return Box::pin(async move { lost() }),
            Some(Fault::Code(_)) => Request::get("/nowhere").body(Body::empty()).expect("a request"),
            _ => request,
        };
        let answer = self.door.call(request);
        Box::pin(async move {
            let mut response = answer.await.unwrap_or_else(|never: Infallible| match never {});
            match fault {
                Some(Fault::AnswerLost) => return lost(),
                Some(Fault::Code(code)) => *response.status_mut() = code.try_into().expect("a code"),
                _ => {}
            }
            Ok(response)
        })
    }
}
