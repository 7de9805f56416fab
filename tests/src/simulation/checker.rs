//! The checker: evaluates the facts of a run against the invariants of the product.
//!
//! It keeps its own model of the store, built from the commits, and its own account of the knowledge of each process. It shares
//! no code with the product. [`Checker::observe`] is called with every fact, and costs a few microseconds per commit;
//! [`Checker::at_rest`] is called after the faults have ended and the run has become quiet.
//!
//! | invariant | file |
//! |---|---|
//! | S1, S2, L3 | `owners.rs` |
//! | S3 | `orphans.rs` |
//! | S4 | `finalizers.rs`, at rest `garbage.rs` |
//! | S5, S6 | `replicas.rs`, for Deployments `rollout.rs` |
//! | S7, L4 | `lease.rs` |
//! | S8 | `status.rs` |
//! | S9, S10, B5 | `figures.rs` |
//! | L1 | `rest.rs` |
//! | L2 | `garbage.rs` |
//! | B1, B2, B3, in a terminating namespace B4 | `load.rs` |
//! | B4 | `replacements.rs` |
//!
//! The record has to contain every object that exists: those from before its start are [loaded](Checker::load).

mod context;
mod figures;
mod finalizers;
mod garbage;
mod history;
mod kinds;
mod lease;
mod load;
mod model;
mod orphans;
mod owners;
mod replacements;
mod replicas;
mod requests;
mod rest;
mod rollout;
mod rules;
mod selector;
mod status;
mod symbols;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

pub use rules::{BUILT_IN, Isolation, Kind, LeaseRules, Rules};

use super::record::{Commit, Fact, Request, Violation};
use context::{Change, Context, Found};
use figures::Figures;
use lease::{Answer, Leases};
use load::Load;
use orphans::Orphans;
use owners::Owners;
use replicas::Replicas;
use requests::Requests;
use rest::Rest;
use rollout::Rollouts;
use symbols::{EVENTS, LEASES, NEW_EVENTS, Symbols};

/// Evaluates one run.
#[derive(Clone, Debug)]
pub struct Checker {
    context: Context,
    owners: Owners,
    orphans: Orphans,
    replicas: Replicas,
    rollouts: Rollouts,
    leases: Leases,
    load: Load,
    figures: Figures,
    rest: Rest,
    /// The writes of the Lease, by number.
    lease_writes: BTreeMap<usize, Request>,
}

impl Checker {
    /// Returns a checker of a run that has not started.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let kinds = kinds::Kinds::new(rules.kinds.clone());
        Self {
            context: Context {
                rules,
                symbols: Symbols::default(),
                kinds,
                model: model::Model::default(),
                requests: Requests::default(),
                now: Duration::ZERO,
                position: 0,
                faults: 0,
                last_slow: None,
                quiet: None,
            },
            owners: Owners::default(),
            orphans: Orphans::default(),
            replicas: Replicas::default(),
            rollouts: Rollouts::default(),
            leases: Leases::default(),
            load: Load::default(),
            figures: Figures::default(),
            rest: Rest::default(),
            lease_writes: BTreeMap::new(),
        }
    }

    /// Replaces the rules. The kinds stay.
    pub fn set_rules(&mut self, rules: Rules) {
        self.context.rules = rules;
    }

    /// Adds an object that exists before the first fact.
    pub fn load(&mut self, collection: &str, key: &str, object: Bytes) -> Result<(), Violation> {
        self.observe(&Fact::Commit(Commit {
            revision: 0,
            at: Duration::ZERO,
            collection: collection.to_owned(),
            key: key.to_owned(),
            before: None,
            after: Some(object),
            request: None,
            is_restored: false,
        }))
    }

    /// Evaluates a fact. Returns the first violation.
    pub fn observe(&mut self, fact: &Fact) -> Result<(), Violation> {
        let mut found = Found::default();
        self.context.position += 1;
        if let Some(at) = time(fact) {
            self.context.now = at;
            self.leases.check(&self.context, &mut found);
        }
        match fact {
            Fact::Started { process, at } => self.start(*process, *at),
            Fact::Ended {
                process, at, error, ..
            } => {
                if let Some(error) = error {
                    found.add("S10", format!("process {process} has exited: {error}"));
                }
                if let Some(process) = self.context.requests.processes.get_mut(process) {
                    process.ended = true;
                }
                self.leases.ended(&self.context, *process, *at);
            }
            Fact::Sent(request) => self.sent(request, &mut found),
            Fact::Executed { request, at, code } => {
                if let Some(sent) = self.context.requests.executed(*request, *at, *code).cloned() {
                    self.owners.executed(&self.context, *request, &sent, *code);
                }
            }
            Fact::Commit(commit) => self.commit(commit, &mut found),
            Fact::Answered { request, at, code } => self.answered(*request, *at, *code, &mut found),
            Fact::Delivered {
                process,
                collection,
                revision,
                request,
            } => {
                let collection = self.context.symbols.intern(collection);
                let request = self.context.requests.get(*request);
                // Other lists and watches do not change the state that the controllers read.
                if request.is_some_and(|it| it.fills_cache) {
                    let position = self.context.position;
                    let requests = &mut self.context.requests;
                    requests.delivered(*process, collection, *revision, position);
                }
            }
            Fact::Fault { at, class } => {
                self.context.faults += 1;
                if *class == "F14" {
                    self.context.last_slow = Some(*at);
                    self.context.requests.slow_until = *at + SLOW_RESPONSE;
                }
                if *class == "F24" {
                    let rate = &mut self.context.rules.clock_rate;
                    *rate = rate.max(DISTURBED_CLOCK_RATE);
                }
                self.leases.fault(&self.context.rules, *at, class);
            }
            Fact::Begun { .. } => {
                self.context.quiet = None;
                self.context.faults = 0;
                self.load.begin();
            }
            Fact::Quiet { at } => self.context.quiet = Some(*at),
            Fact::Figures { process, at, metrics } => {
                self.figures
                    .observe(&self.context, *process, *at, metrics, &mut found);
            }
        }
        found.0.into_iter().next().map_or(Ok(()), Err)
    }

    /// Evaluates the state after the faults have ended and the run has become quiet.
    pub fn at_rest(&mut self, now: Duration) -> Vec<Violation> {
        let mut found = Found::default();
        self.context.now = now;
        let context = &self.context;
        self.leases.check(context, &mut found);
        if context.rules.yields {
            return found.0;
        }
        rest::check_writes(context, self.load.last_write.as_ref(), &mut found);
        self.rest.check(context, &mut found);
        if context.rules.collects {
            garbage::at_rest(context, &mut found);
        }
        self.load.check_floor(context, &mut found);
        self.figures.at_rest(context, &mut found);
        found.0
    }

    /// From here on a process sends nothing but watches and Leases (B2).
    pub fn begin_steady(&mut self) {
        self.load.begin_steady();
    }

    /// Ends [`begin_steady`](Self::begin_steady).
    pub fn end_steady(&mut self) {
        self.load.end_steady();
    }

    /// From here on the API answers no request (B3).
    pub fn begin_outage(&mut self, at: Duration) {
        self.load.begin_outage(at);
    }

    /// Ends [`begin_outage`](Self::begin_outage), and evaluates the requests since then.
    pub fn end_outage(&mut self, at: Duration) -> Vec<Violation> {
        let mut found = Found::default();
        self.load.end_outage(&self.context, at, &mut found);
        found.0
    }

    fn start(&mut self, process: usize, at: Duration) {
        let context = &mut self.context;
        // Without an election the term begins with the process.
        let term_revision = match context.rules.lease {
            Some(_) => 0,
            None => context.model.revision,
        };
        let position = context.position;
        context.requests.started(process, at, position, term_revision);
        self.leases.started(context, at);
    }

    fn sent(&mut self, request: &Request, found: &mut Found) {
        let context = &mut self.context;
        let position = context.position;
        let sent = context
            .requests
            .sent(request, position, &mut context.symbols)
            .clone();
        if sent.actor.is_none() {
            return;
        }
        if sent.collection == LEASES && sent.verb.is_write() {
            self.lease_writes.insert(request.number, request.clone());
        }
        self.load.sent(context, request, &sent, found);
        self.leases.sent(context, request, &sent, found);
        replicas::sent(context, request, &sent, found);
    }

    fn answered(&mut self, number: usize, at: Duration, code: Option<u16>, found: &mut Found) {
        let context = &mut self.context;
        let position = context.position;
        let Some(sent) = context.requests.answered(number, at, position, code).cloned() else {
            return;
        };
        self.orphans.answered(context, &sent, code);
        self.load.answered(context, &sent, at, code, found);
        if let Some(request) = self.lease_writes.get(&number) {
            let answer = Answer {
                request,
                at,
                code,
                revision: context.model.revision,
            };
            self.leases
                .answered(&context.rules, &mut context.requests, &answer);
        }
    }

    fn commit(&mut self, commit: &Commit, found: &mut Found) {
        let context = &mut self.context;
        let collection = context.symbols.intern(&commit.collection);
        if matches!(collection, EVENTS | NEW_EVENTS) {
            return;
        }
        let position = context.position;
        let Context {
            model,
            symbols,
            kinds,
            ..
        } = &mut *context;
        let applied = match model.apply(commit, position, symbols, kinds) {
            Ok(Some(applied)) => applied,
            Ok(None) => return,
            Err(error) => {
                let (collection, key) = (&commit.collection, &commit.key);
                let message = format!(
                    "{collection} {key} at revision {} cannot be read: {error}",
                    commit.revision
                );
                found.add("record", message);
                return;
            }
        };
        let change = Change {
            uid: applied.uid,
            request: commit.request.and_then(|number| {
                let sent = context.requests.get(number)?;
                let object = context.model.get(applied.uid).or(applied.old.as_ref())?;
                let is_target = sent.collection == object.collection
                    && (sent.name == object.name || sent.name.is_empty())
                    && sent.namespace == object.namespace;
                (is_target && sent.actor.is_some()).then(|| sent.clone())
            }),
            old: applied.old,
            revision: commit.revision,
            at: commit.at,
            is_restored: commit.is_restored,
        };
        if collection == LEASES {
            if is_lease(&context.rules, &commit.key) {
                let request = commit.request.and_then(|it| self.lease_writes.get(&it));
                self.leases
                    .commit(&context.rules, &mut context.requests, &change, request);
            }
            return;
        }
        let context = &self.context;
        if context.rules.collects {
            self.orphans.commit(context, &change, &self.owners, found);
            self.owners.commit(context, &change, found);
            finalizers::commit(context, &change, found);
        }
        self.replicas.commit(context, &change, found);
        self.rollouts.commit(context, &change, found);
        status::commit(context, &change, found);
    }
}

/// The time of a slow response (F14).
const SLOW_RESPONSE: Duration = Duration::from_secs(10);
/// The largest clock rate with the fault F24.
const DISTURBED_CLOCK_RATE: f64 = 2.0;

/// Returns the time of a fact.
fn time(fact: &Fact) -> Option<Duration> {
    match fact {
        Fact::Started { at, .. }
        | Fact::Ended { at, .. }
        | Fact::Executed { at, .. }
        | Fact::Answered { at, .. }
        | Fact::Fault { at, .. }
        | Fact::Begun { at }
        | Fact::Quiet { at }
        | Fact::Figures { at, .. } => Some(*at),
        Fact::Sent(request) => Some(request.at),
        Fact::Commit(commit) => Some(commit.at),
        Fact::Delivered { .. } => None,
    }
}

fn is_lease(rules: &Rules, key: &str) -> bool {
    let lease = rules.lease.as_ref();
    lease.is_some_and(|it| key.split_once('/') == Some((it.namespace.as_str(), it.name.as_str())))
}
