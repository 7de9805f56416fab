//! Merges the requests at the proxies and the changes in etcd into one record of facts, and evaluates it.
//!
//! The store gives the order of commits. A commit belongs to the request whose response has its resourceVersion; a removal
//! belongs to the request that received the removed object. Responses arrive after their commits, so facts are evaluated
//! [`DELAY`] after they happened. A commit without a request counts as a change by a user, which the checker allows.

mod evaluate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use serde::Deserialize;
use steersman_harness::time;

use super::etcd::Change;
use super::history::Histories;
use super::managers::{RENEW_DEADLINE, RETRY_PERIOD};
use crate::simulation::checker::{Checker, LeaseRules, Rules};
use crate::simulation::fault::Class;
use crate::simulation::network;
use crate::simulation::record::{Fact, Request, Sender, Violation};

/// The time from a fact to its evaluation, in which responses arrive.
const DELAY: Duration = Duration::from_secs(3);
/// The time in which a process may act on a state before a watch event that has passed the proxy.
const DELIVERY: Duration = Duration::from_secs(5);
/// The part by which times differ between the processes and the proxies: requests wait for a processor.
const CLOCK_RATE: f64 = 1.1;
/// The interval of the facts that responses are slow.
const SLOW_INTERVAL: Duration = Duration::from_secs(20);
/// The time without a write after which a round is at rest.
const REST: Duration = Duration::from_secs(4);

/// A handle of the record.
#[derive(Clone)]
pub(super) struct Recorder(Arc<Mutex<State>>);

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: usize,
    pub(super) commits: usize,
    /// The commits that belong to a request of a process.
    pub(super) own_commits: usize,
    pub(super) faults: BTreeMap<&'static str, usize>,
}

/// An open watch of a process.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) number: usize,
    pub(super) collection: String,
    /// The last event; empty before the first one.
    pub(super) last: Bytes,
}

struct State {
    begun: Instant,
    checker: Checker,
    entries: BTreeMap<(Duration, u64), Entry>,
    sequence: u64,
    /// Changes that were not evaluated, by revision, with the time at which etcd reported them.
    changes: BTreeMap<u64, (Duration, Change)>,
    /// The newest revision that etcd has reported.
    reported: u64,
    /// The newest revision that was evaluated.
    evaluated: u64,
    /// The requests that have committed a revision, and their codes.
    writes: BTreeMap<u64, (usize, u16)>,
    /// The requests that may have removed the object of a uid.
    removals: BTreeMap<String, Vec<Removal>>,
    /// The last revision that each request has seen or written.
    revisions: BTreeMap<usize, u64>,
    processes: usize,
    numbers: usize,
    watches: BTreeMap<usize, (usize, Watch)>,
    histories: Histories,
    violations: Vec<Violation>,
    /// The faults of the round, one per line.
    faults: Vec<String>,
    counts: Counts,
    last_change: Duration,
    last_slow: Option<Duration>,
}

/// An item of the record, at its time.
enum Entry {
    /// Follows the commit of a revision.
    Fact { fact: Box<Fact>, after: u64 },
    /// The commit of a revision.
    Commit(u64),
}

struct Removal {
    request: usize,
    code: u16,
    sent: Duration,
    answered: Duration,
}

/// A response of the API server.
pub(super) struct Executed<'a> {
    pub(super) number: usize,
    pub(super) sent: Duration,
    pub(super) verb: &'static str,
    pub(super) code: u16,
    pub(super) body: &'a [u8],
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Answer {
    metadata: AnswerMetadata,
    details: AnswerMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnswerMetadata {
    uid: String,
    resource_version: String,
}

impl Recorder {
    pub(super) fn new(converges_within: Duration) -> Self {
        let rules = Rules {
            // The bound on the election is not checked in real time.
            lease: Some(LeaseRules {
                lease_duration: Duration::from_hours(24),
                renew_deadline: RENEW_DEADLINE,
                retry_period: RETRY_PERIOD,
                ..LeaseRules::default()
            }),
            clock_rate: CLOCK_RATE,
            converges_within,
            rest: REST,
            ..Rules::default()
        };
        Self(Arc::new(Mutex::new(State {
            begun: time::now(),
            checker: Checker::new(rules),
            entries: BTreeMap::new(),
            sequence: 0,
            changes: BTreeMap::new(),
            reported: 0,
            evaluated: 0,
            writes: BTreeMap::new(),
            removals: BTreeMap::new(),
            revisions: BTreeMap::new(),
            processes: 0,
            numbers: 0,
            watches: BTreeMap::new(),
            histories: Histories::default(),
            violations: Vec::new(),
            faults: Vec::new(),
            counts: Counts::default(),
            last_change: Duration::ZERO,
            last_slow: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start of the run.
    pub(super) fn now(&self) -> Duration {
        self.state().begun.elapsed()
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Records the start of a process. Returns its number.
    pub(super) fn started(&self) -> usize {
        let mut state = self.state();
        let process = state.processes;
        state.processes += 1;
        let at = state.begun.elapsed();
        state.push(Fact::Started { process, at });
        process
    }

    pub(super) fn ended(&self, process: usize) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        state.push(Fact::Ended {
            process,
            at,
            clean: false,
            error: None,
        });
        state.watches.retain(|_, (of, _)| *of != process);
    }

    /// Records a request of a process.
    pub(super) fn sent(&self, process: usize, parts: &Parts, body: &Bytes) -> Request {
        let mut state = self.state();
        let number = state.numbers;
        state.numbers += 1;
        state.counts.requests += 1;
        let at = state.begun.elapsed();
        let request = network::request(number, Sender::Process(process), at, parts, body);
        state.histories.request(&request);
        state.push(Fact::Sent(request.clone()));
        request
    }

    /// Records a response of the API server, which the process may not receive.
    pub(super) fn executed(&self, executed: &Executed<'_>) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        let answer: Answer = serde_json::from_slice(executed.body).unwrap_or_default();
        let revision: u64 = answer.metadata.resource_version.parse().unwrap_or(0);
        let is_write = !matches!(executed.verb, "get" | "list" | "watch");
        let (number, code) = (executed.number, executed.code);
        if code < 300 {
            state.revisions.insert(number, revision);
        }
        if is_write && code < 300 {
            let is_old = revision <= state.evaluated
                || state
                    .changes
                    .get(&revision)
                    .is_some_and(|it| it.0 < executed.sent)
                || state.writes.contains_key(&revision);
            if !is_old {
                state.writes.insert(revision, (number, code));
                return;
            }
            // The object was removed, or not changed. Its execution is a fact if the removal is found.
            let uid = if answer.metadata.uid.is_empty() {
                answer.details.uid
            } else {
                answer.metadata.uid
            };
            let removal = Removal {
                request: number,
                code,
                sent: executed.sent,
                answered: at,
            };
            state.removals.entry(uid).or_default().push(removal);
            return;
        }
        let fact = Fact::Executed {
            request: number,
            at,
            code,
        };
        // A read shows the state of its revision; the revision of a list is that of the store.
        let after = if executed.verb == "get" && code < 300 {
            revision
        } else {
            0
        };
        state.insert(at, fact, after);
    }

    /// Records the response that a process receives.
    pub(super) fn answered(&self, request: &Request, code: Option<u16>) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        let revision = state.revisions.remove(&request.number).unwrap_or(0);
        let fact = Fact::Answered {
            request: request.number,
            at,
            code,
        };
        let is_read = matches!(request.verb, "list" | "watch");
        state.insert(at, fact, if is_read { 0 } else { revision });
        if request.verb == "list" && code == Some(200) {
            state.deliver(request, revision);
        }
    }

    /// Records an event that a watch delivers.
    pub(super) fn event(&self, request: &Request, line: &Bytes) {
        let mut state = self.state();
        if let Some(revision) = network::revision(line) {
            state.deliver(request, revision);
        }
        if let Some((_, watch)) = state.watches.get_mut(&request.number) {
            watch.last = line.clone();
        }
    }

    pub(super) fn watch_opened(&self, process: usize, request: &Request) {
        let watch = Watch {
            number: request.number,
            collection: request.collection.clone(),
            last: Bytes::new(),
        };
        self.state().watches.insert(request.number, (process, watch));
    }

    pub(super) fn watch_closed(&self, number: usize) {
        self.state().watches.remove(&number);
    }

    /// Returns the open watches of a process.
    pub(super) fn watches(&self, process: usize) -> Vec<Watch> {
        let state = self.state();
        let watches = state.watches.values().filter(|(of, _)| *of == process);
        watches.map(|(_, watch)| watch.clone()).collect()
    }

    /// Records a change in the store.
    pub(super) fn change(&self, change: Change) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        let revision = change.revision;
        state.reported = revision;
        state.counts.commits += 1;
        state.changes.insert(revision, (at, change));
        state.sequence += 1;
        let key = (at, state.sequence);
        state.entries.insert(key, Entry::Commit(revision));
    }

    pub(super) fn fault(&self, class: Class, text: &str) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        *state.counts.faults.entry(class.name()).or_default() += 1;
        let class = class.name();
        state
            .faults
            .push(format!("{:9.3} {class} {text}", at.as_secs_f64()));
        state.push(Fact::Fault { at, class });
    }

    /// Starts a round: forgets the faults and histories of earlier rounds.
    pub(super) fn begin_round(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.histories.clear();
    }

    /// The faults have ended.
    pub(super) fn quiet(&self) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        state.push(Fact::Quiet { at });
    }

    pub(super) fn figures(&self, process: usize, metrics: String) {
        let mut state = self.state();
        let at = state.begun.elapsed();
        state.push(Fact::Figures { process, at, metrics });
    }

    /// Adds a violation that is not found by the checker.
    pub(super) fn violation(&self, invariant: &'static str, message: String) {
        self.state().violations.push(Violation { invariant, message });
    }

    /// Evaluates all facts that are older than [`DELAY`].
    pub(super) fn evaluate(&self) {
        let mut state = self.state();
        let now = state.begun.elapsed();
        state.slow(now);
        state.evaluate(now.saturating_sub(DELAY));
    }

    /// Returns the unmet conditions of the desired state; none if writes were committed a short time ago.
    pub(super) fn at_rest(&self) -> Option<Vec<Violation>> {
        let mut state = self.state();
        let now = state.begun.elapsed();
        state.slow(now);
        state.evaluate(now.saturating_sub(DELAY));
        if now.saturating_sub(state.last_change) < DELAY + REST {
            return None;
        }
        Some(state.checker.at_rest(now))
    }

    /// Returns the violations so far, and forgets them.
    pub(super) fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.state().violations)
    }

    /// Returns the faults of the round, and the histories of the objects that a violation names.
    pub(super) fn report(&self, violation: &Violation) -> Vec<String> {
        let state = self.state();
        let mut lines = state.faults.clone();
        lines.extend(state.histories.of(&violation.message));
        lines
    }
}

impl State {
    fn push(&mut self, fact: Fact) {
        let at = self.begun.elapsed();
        self.insert(at, fact, 0);
    }

    fn insert(&mut self, at: Duration, fact: Fact, after: u64) {
        self.sequence += 1;
        let fact = Box::new(fact);
        self.entries
            .insert((at, self.sequence), Entry::Fact { fact, after });
    }

    /// On a busy machine any response can be slow.
    fn slow(&mut self, at: Duration) {
        if self.last_slow.is_none_or(|last| at > last + SLOW_INTERVAL) {
            self.last_slow = Some(at);
            self.push(Fact::Fault { at, class: "F14" });
        }
    }

    /// A process knows a revision of a resource soon.
    fn deliver(&mut self, request: &Request, revision: u64) {
        let Sender::Process(process) = request.sender else {
            return;
        };
        let fact = Fact::Delivered {
            process,
            collection: request.collection.clone(),
            revision,
            request: request.number,
        };
        let at = self.begun.elapsed() + DELIVERY;
        self.insert(at, fact, 0);
    }
}
