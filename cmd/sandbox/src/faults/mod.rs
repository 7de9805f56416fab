//! Fault injection between a client and an API service.
//!
//! [`Faults`] holds rules and the record of requests. [`Faults::wrap`] puts it in front of a service; clients of several
//! services may share one `Faults`. A rule is a [`Matcher`], bounds on its number of uses, and an effect:
//!
//! ```
//! use steersman_sandbox::Sandbox;
//! use steersman_sandbox::faults::{Faults, Matcher, Refusal};
//!
//! let sandbox = Sandbox::builder().start()?;
//! let faults = Faults::new();
//! let client = faults.wrap(sandbox.service());
//! // The second and third POST of a pod are executed, but their answers are lost.
//! faults.on(Matcher::verb("create").resource("pods")).after(1).times(2).lose_answer();
//! // Every write of the Deployment "web" fails.
//! let refusal = Refusal::new(503).message("etcdserver: leader changed").retry_after(1);
//! faults.on(Matcher::writes().resource("deployments.apps").name("web")).refuse(refusal);
//! # Ok::<_, steersman_sandbox::StartError>(())
//! ```
//!
//! The rules apply in the order of their registration. An effect that decides the outcome of a request ([`Effect`] says
//! which do) is the last one: later rules neither apply to the request nor count it. Waiting uses the time of tokio, so
//! that faults work under a paused clock. Random rules draw from the seed of [`Faults::seeded`].

mod body;
mod effect;
mod gate;
mod matcher;
mod refusal;
mod request;
mod rule;
mod service;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::sync::mpsc;

pub use body::FaultBody;
pub use effect::{Cut, Effect};
pub use gate::Gate;
pub use matcher::Matcher;
pub use refusal::Refusal;
pub use request::RecordedRequest;
pub use rule::{RuleBuilder, RuleHandle};
pub use service::FaultService;

use crate::storage::changes::Changes;
use body::Command;
use rule::Rule;

/// The rules and the record of requests. Clones share both.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Wakes held watches when a hold changes.
    holds_changed: Changes,
}

struct State {
    rng: StdRng,
    next_id: u64,
    rules: Vec<Rule>,
    recorded: Vec<Arc<RecordedRequest>>,
    holds: Vec<(u64, Arc<Matcher>)>,
    open_watches: Vec<(Arc<RecordedRequest>, mpsc::UnboundedSender<Command>)>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    clippy::must_use_candidate,
    reason = "most tests do not need the number of watches"
)]
impl Faults {
    /// Returns a layer without rules. Random rules draw from the seed 0.
    #[must_use]
    pub fn new() -> Self {
        Self::seeded(0)
    }

    /// Returns a layer without rules, whose random rules draw from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let state = State {
            rng: StdRng::seed_from_u64(seed),
            next_id: 0,
            rules: Vec::new(),
            recorded: Vec::new(),
            holds: Vec::new(),
            open_watches: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                holds_changed: Changes::default(),
            }),
        }
    }

    /// Wraps a service: its requests are recorded and pass the rules.
    #[must_use]
    pub fn wrap<S>(&self, service: S) -> FaultService<S> {
        FaultService::new(self.clone(), service)
    }

    /// Starts a rule for the requests that match.
    pub fn on(&self, matcher: Matcher) -> RuleBuilder<'_> {
        RuleBuilder::new(self, matcher)
    }

    /// Removes all rules and holds. Requests that wait at a gate keep waiting for it.
    pub fn clear(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.holds.clear();
        drop(state);
        self.shared.holds_changed.bump();
    }

    /// Returns the requests that match, in the order of their arrival.
    #[must_use]
    pub fn requests(&self, matcher: &Matcher) -> Vec<Arc<RecordedRequest>> {
        let mut recorded = self.state().recorded.clone();
        recorded.retain(|request| matcher.matches(request));
        recorded
    }

    /// Returns the number of requests that match.
    #[must_use]
    pub fn count(&self, matcher: &Matcher) -> usize {
        self.requests(matcher).len()
    }

    /// Discards the record of requests. Rules keep their counts.
    pub fn forget(&self) {
        self.state().recorded.clear();
    }

    /// Delivers no events on matching watches, open and future ones, until the hold is dropped.
    #[must_use = "dropping the hold releases the watches"]
    pub fn hold_watches(&self, matcher: Matcher) -> WatchHold {
        let mut state = self.state();
        let id = state.next_id();
        state.holds.push((id, Arc::new(matcher)));
        drop(state);
        self.shared.holds_changed.bump();
        WatchHold {
            faults: self.clone(),
            id,
        }
    }

    /// Ends the matching open watches as the server does after their timeout. Returns their number.
    pub fn end_watches(&self, matcher: &Matcher) -> usize {
        self.command(matcher, || Command::End)
    }

    /// Breaks the connections of the matching open watches. Returns their number.
    pub fn reset_watches(&self, matcher: &Matcher) -> usize {
        self.command(matcher, || Command::Reset)
    }

    /// Delivers nothing more on the matching open watches and keeps them open, as a broken connection without an error.
    /// Returns their number.
    pub fn silence_watches(&self, matcher: &Matcher) -> usize {
        self.command(matcher, || Command::Silence)
    }

    /// Sends a watch event on the matching open watches, such as an `ERROR` event. Returns their number.
    pub fn send_event(&self, matcher: &Matcher, event: &Value) -> usize {
        self.send_line(matcher, &event.to_string())
    }

    /// Sends a line, such as a malformed event, on the matching open watches. Returns their number.
    pub fn send_line(&self, matcher: &Matcher, line: &str) -> usize {
        let line = Bytes::from(format!("{line}\n"));
        self.command(matcher, || Command::Send(line.clone()))
    }

    /// Returns the number of matching open watches.
    #[must_use]
    pub fn open_watches(&self, matcher: &Matcher) -> usize {
        self.matching_watches(matcher).len()
    }

    fn command(&self, matcher: &Matcher, command: impl Fn() -> Command) -> usize {
        let watches = self.matching_watches(matcher);
        let sent = watches.iter().filter(|watch| watch.send(command()).is_ok());
        sent.count()
    }

    fn matching_watches(&self, matcher: &Matcher) -> Vec<mpsc::UnboundedSender<Command>> {
        let mut open = {
            let mut state = self.state();
            state.open_watches.retain(|(_, commands)| !commands.is_closed());
            state.open_watches.clone()
        };
        open.retain(|(request, _)| matcher.matches(request));
        open.into_iter().map(|(_, commands)| commands).collect()
    }

    fn is_held(&self, request: &RecordedRequest) -> bool {
        let holds = self.state().holds.clone();
        holds.iter().any(|(_, matcher)| matcher.matches(request))
    }

    fn record(&self, request: RecordedRequest) -> Arc<RecordedRequest> {
        let request = Arc::new(request);
        self.state().recorded.push(request.clone());
        request
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// Holds matching watches until it is dropped.
pub struct WatchHold {
    faults: Faults,
    id: u64,
}

impl Drop for WatchHold {
    fn drop(&mut self) {
        self.faults.state().holds.retain(|(id, _)| *id != self.id);
        self.faults.shared.holds_changed.bump();
    }
}
