//! The effects of rules on a request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Gate, RecordedRequest, Refusal};

/// A function that runs before a request is sent.
pub(super) type Before = dyn Fn(Arc<RecordedRequest>) -> BoxFuture<'static, ()> + Send + Sync;
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
    /// The request is not executed; the answer has this code and body.
    Reply(u16, Bytes),
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
    /// The function runs before the request is sent.
    Before(Arc<Before>),
    /// The function changes the JSON body of the request, as a mutating webhook.
    ChangeRequest(Arc<Change>),
    /// The function changes the JSON body of the answer, or each event of a watch.
    ChangeAnswer(Arc<Change>),
    /// The watch ends early.
    CutWatch(Cut),
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
            Self::Before(_) => "Before",
            Self::ChangeRequest(_) => "ChangeRequest",
            Self::ChangeAnswer(_) => "ChangeAnswer",
            Self::CutWatch(_) => "CutWatch",
        }
    }
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
