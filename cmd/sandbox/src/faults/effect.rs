//! The effects of rules on a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use serde_json::Value;

use super::refusal::json_response;
use super::{Gate, RecordedRequest, Refusal};
use crate::service::ApiService;

/// A function that runs before a request is sent, and returns one that runs after its execution.
pub(super) type Around = dyn Fn(Arc<RecordedRequest>) -> BoxFuture<'static, After> + Send + Sync;
/// A function that runs after a request was executed, with the code of the answer.
pub(super) type After = Box<dyn FnOnce(u16) -> BoxFuture<'static, ()> + Send>;
/// A function that changes the headers of a request.
pub(super) type ChangeHeaders = dyn Fn(&mut HeaderMap) + Send + Sync;
/// A function that changes a JSON document.
pub(super) type Change = dyn Fn(&mut Value) + Send + Sync;
/// A function that chooses the effect of each request.
pub(super) type Decide = dyn Fn(&RecordedRequest) -> Effect + Send + Sync;

/// The effect of a rule on a request. The effects up to [`Decide`](Self::Decide) decide the outcome of the request: later
/// rules do not apply to it.
#[derive(Clone)]
pub enum Effect {
    /// The request passes.
    Pass,
    /// The connection breaks before the request is sent.
    LoseRequest,
    /// The request is executed, and the connection breaks before the answer.
    LoseAnswer,
    /// The request is executed twice; the second answer is returned.
    Duplicate,
    /// The connection breaks, and the request is executed after this time.
    DeliverLate(Duration),
    /// The request is not executed, and no answer arrives.
    Hang,
    /// The request is executed, and no answer arrives.
    HangAnswer,
    /// The request is not executed; the answer is a `Status`.
    Refuse(Refusal),
    /// The request is not executed; this is the answer. See [`Effect::reply`].
    Reply(Response<Bytes>),
    /// The function chooses the effect.
    Decide(Arc<Decide>),
    /// The request is sent after this time.
    Delay(Duration),
    /// The answer is returned after this time.
    DelayAnswer(Duration),
    /// The body of the answer arrives byte by byte, each after this time.
    SlowBody(Duration),
    /// The request waits at a gate before it is sent.
    Gate(Gate),
    /// The answer waits at a gate.
    GateAnswer(Gate),
    /// The function runs before the request is sent, and the function that it returns after the execution.
    Around(Arc<Around>),
    /// Another API server executes the request.
    SendTo(ApiService),
    /// The function changes the headers of the request.
    ChangeHeaders(Arc<ChangeHeaders>),
    /// The function changes the JSON body of the request, as a mutating webhook.
    ChangeRequest(Arc<Change>),
    /// The function changes the JSON body of the answer, or each event of a watch.
    ChangeAnswer(Arc<Change>),
    /// The watch ends early.
    CutWatch(Cut),
    /// Several effects, in this order.
    All(Vec<Effect>),
}

/// The point at which a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The watch ends after this number of events, as after its timeout.
    Events(usize),
    /// The connection breaks after this number of bytes.
    Bytes(usize),
}

impl Effect {
    /// Returns the effect that answers with this code and JSON body, and does not execute the request.
    pub fn reply(code: u16, body: impl Into<Bytes>) -> Self {
        Self::Reply(json_response(code, body.into()))
    }

    /// Returns the effect of [`RuleBuilder::around`](super::RuleBuilder::around).
    pub fn around<F, A, G>(before: impl Fn(Arc<RecordedRequest>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = A> + Send + 'static,
        A: FnOnce(u16) -> G + Send + 'static,
        G: Future<Output = ()> + Send + 'static,
    {
        let boxed = |after: A| -> After { Box::new(move |code| after(code).boxed()) };
        Self::Around(Arc::new(move |request| before(request).map(boxed).boxed()))
    }

    /// Reports whether later rules do not apply.
    pub(super) fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Pass
                | Self::LoseRequest
                | Self::LoseAnswer
                | Self::Duplicate
                | Self::DeliverLate(_)
                | Self::Hang
                | Self::HangAnswer
                | Self::Refuse(_)
                | Self::Reply(..)
        )
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "Pass",
            Self::LoseRequest => "LoseRequest",
            Self::LoseAnswer => "LoseAnswer",
            Self::Duplicate => "Duplicate",
            Self::DeliverLate(_) => "DeliverLate",
            Self::Hang => "Hang",
            Self::HangAnswer => "HangAnswer",
            Self::Refuse(_) => "Refuse",
            Self::Reply(..) => "Reply",
            Self::Decide(_) => "Decide",
            Self::Delay(_) => "Delay",
            Self::DelayAnswer(_) => "DelayAnswer",
            Self::SlowBody(_) => "SlowBody",
            Self::Gate(_) => "Gate",
            Self::GateAnswer(_) => "GateAnswer",
            Self::Around(_) => "Around",
            Self::SendTo(_) => "SendTo",
            Self::ChangeHeaders(_) => "ChangeHeaders",
            Self::ChangeRequest(_) => "ChangeRequest",
            Self::ChangeAnswer(_) => "ChangeAnswer",
            Self::CutWatch(_) => "CutWatch",
            Self::All(_) => "All",
        }
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
