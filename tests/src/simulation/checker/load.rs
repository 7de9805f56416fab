//! B1: the number of writes until convergence. B2: no requests in a steady state, and no second list of a resource that is idle.
//! B3: few requests during an outage, and a backoff after failures. B4: few creates in a terminating namespace.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::record::Request;
use super::context::{Context, Found};
use super::requests::{Sent, Verb};
use super::symbols::{EMPTY, INFORMERS, LEASES, NAMESPACES, PODS, Symbol};

/// The largest number of requests of one controller in [`OUTAGE`].
const REQUESTS_MAX: usize = 600;
const OUTAGE: Duration = Duration::from_mins(10);
/// The first delay of the exponential backoff.
const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const MINUTE: Duration = Duration::from_mins(1);
/// The largest number of failures of one request in a minute: the exponential backoffs of several dependents of one owner.
const FAILURES_MAX: usize = 100;
/// The time without a change after which a resource is idle.
const IDLE: Duration = Duration::from_secs(5);
/// The largest number of creates of one process in a terminating namespace in a minute.
const REFUSED_CREATES_MAX: usize = 10;

#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// The number of writes, without Leases and Events.
    pub(super) writes: usize,
    /// The time and the description of the last one.
    pub(super) last_write: Option<(Duration, String)>,
    steady: bool,
    outage: Option<Outage>,
    /// The times of failures in the last minute, by request.
    failures: BTreeMap<Target, VecDeque<Duration>>,
    /// The times of creates in the last minute, by process and terminating namespace.
    refused: BTreeMap<(usize, Symbol), VecDeque<Duration>>,
}

/// Process, controller, verb, resource, namespace and name of a request.
type Target = (usize, Symbol, Verb, Symbol, Symbol, Symbol);

/// The requests since the start of an outage.
#[derive(Clone, Debug)]
struct Outage {
    since: Duration,
    /// By process and controller.
    requests: BTreeMap<(usize, Symbol), usize>,
    /// By process, controller, verb and object.
    writes: BTreeMap<(usize, Symbol, &'static str, String), usize>,
}

impl Load {
    /// Starts the counts over.
    pub(super) fn begin(&mut self) {
        self.writes = 0;
        self.last_write = None;
    }

    pub(super) fn begin_steady(&mut self) {
        self.steady = true;
    }

    pub(super) fn end_steady(&mut self) {
        self.steady = false;
    }

    pub(super) fn begin_outage(&mut self, at: Duration) {
        self.outage = Some(Outage {
            since: at,
            requests: BTreeMap::new(),
            writes: BTreeMap::new(),
        });
    }

    pub(super) fn sent(&mut self, context: &Context, request: &Request, sent: &Sent, found: &mut Found) {
        let Some(actor) = sent.actor else { return };
        if context.counts(sent) {
            self.writes += 1;
            self.last_write = Some((sent.at, format!("{} {}", request.verb, request.uri)));
        }
        if self.steady && sent.verb != Verb::Watch && sent.collection != LEASES {
            found.add(
                "B2",
                format!(
                    "{} {} by {} in a steady state",
                    request.verb,
                    request.uri,
                    context.sender(sent)
                ),
            );
        }
        check_list(context, request, sent, found);
        self.check_create(context, sent, actor.process, found);
        let Some(outage) = &mut self.outage else { return };
        if sent.agent == INFORMERS || sent.verb == Verb::Watch {
            return;
        }
        *outage.requests.entry((actor.process, sent.agent)).or_default() += 1;
        if matches!(sent.verb, Verb::Update | Verb::Patch | Verb::Delete) && sent.collection != LEASES {
            let path = request.uri.split('?').next().unwrap_or_default().to_owned();
            let key = (actor.process, sent.agent, request.verb, path);
            *outage.writes.entry(key).or_default() += 1;
        }
    }

    /// Records the answer to a request, and checks the number of failures.
    pub(super) fn answered(
        &mut self,
        context: &Context,
        sent: &Sent,
        at: Duration,
        code: Option<u16>,
        found: &mut Found,
    ) {
        let has_failed = code.is_some_and(|it| it == 403 || it >= 500);
        let Some(actor) = sent.actor.filter(|_| has_failed && !sent.name.is_empty()) else {
            return;
        };
        let target = (
            actor.process,
            sent.agent,
            sent.verb,
            sent.collection,
            sent.namespace,
            sent.name,
        );
        let count = count(self.failures.entry(target).or_default(), at);
        if count == FAILURES_MAX + 1 {
            found.add(
                "B3",
                format!(
                    "{:?} of {} {} by {} has failed {count} times in a minute",
                    sent.verb,
                    context.text(sent.collection),
                    context.text(sent.name),
                    context.sender(sent)
                ),
            );
        }
    }

    /// Checks the number of creates in a terminating namespace.
    fn check_create(&mut self, context: &Context, sent: &Sent, process: usize, found: &mut Found) {
        let is_pod = sent.verb == Verb::Create && sent.collection == PODS;
        let namespace = || context.model.at(NAMESPACES, EMPTY, sent.namespace);
        // A fault may hide the reason of a refused create.
        if !is_pod || context.faults > 0 || !namespace().is_some_and(|it| it.terminating) {
            return;
        }
        let count = count(
            self.refused.entry((process, sent.namespace)).or_default(),
            sent.at,
        );
        if count == REFUSED_CREATES_MAX + 1 {
            found.add(
                "B4",
                format!(
                    "{} has sent {count} creates in the terminating namespace {} in a minute",
                    context.sender(sent),
                    context.text(sent.namespace)
                ),
            );
        }
    }

    /// Checks the requests of an outage that ends.
    pub(super) fn end_outage(&mut self, context: &Context, at: Duration, found: &mut Found) {
        let Some(outage) = self.outage.take() else { return };
        let time = at.saturating_sub(outage.since);
        let scale = (time.as_secs_f64() / OUTAGE.as_secs_f64()).max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        for ((process, agent), count) in outage.requests {
            if count as f64 > REQUESTS_MAX as f64 * scale * context.rules.clock_rate {
                found.add(
                    "B3",
                    format!(
                        "{} in process {process} sent {count} requests in an outage of {time:?}",
                        context.text(agent)
                    ),
                );
            }
        }
        // Each attempt waits twice as long as the one before. An attempt may send a write twice.
        let delays = (context.rules.longest(time).as_secs_f64() / BACKOFF_FIRST.as_secs_f64() + 1.0).log2();
        let most = 2.0 * (delays.ceil() + 2.0);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        for ((process, agent, verb, path), count) in outage.writes {
            if count as f64 > most {
                found.add(
                    "B3",
                    format!(
                        "{} in process {process} sent {verb} {path} {count} times in an outage of {time:?}, more than \
                         {most}",
                        context.text(agent)
                    ),
                );
            }
        }
    }

    /// Checks the number of writes of a run that has converged.
    pub(super) fn check_floor(&self, context: &Context, found: &mut Found) {
        let Some(floor) = context.rules.write_floor else {
            return;
        };
        let most = floor + context.rules.writes_per_fault * context.faults;
        let is_exact = context.faults > 0 || self.writes == floor;
        if self.writes > most || !is_exact {
            found.add(
                "B1",
                format!(
                    "the run took {} writes; the floor is {floor}, and {} faults allow {most}",
                    self.writes, context.faults
                ),
            );
        }
    }
}

/// Checks that a resource that has not changed is not listed again.
fn check_list(context: &Context, request: &Request, sent: &Sent, found: &mut Found) {
    let is_list = sent.verb == Verb::List && sent.fills_cache && !request.uri.contains("continue=");
    // The election follows the Leases too.
    if !is_list || !context.rules.has_one_cache || context.faults > 0 || sent.collection == LEASES {
        return;
    }
    let shown = context.requests.delivered_revision(sent, sent.collection);
    let changed = context.model.changed(sent.collection);
    if shown > 0 && sent.at > changed + IDLE && context.kinds.is_built_in(&request.collection) {
        found.add(
            "B2",
            format!(
                "{} lists {} again, which has not changed since {changed:?}",
                context.sender(sent),
                request.collection
            ),
        );
    }
}

/// Adds a time, and returns the number of times in the last minute.
fn count(times: &mut VecDeque<Duration>, at: Duration) -> usize {
    times.push_back(at);
    while times.front().is_some_and(|it| at.saturating_sub(*it) >= MINUTE) {
        times.pop_front();
    }
    times.len()
}
