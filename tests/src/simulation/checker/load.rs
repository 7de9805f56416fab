//! B1: the number of writes until convergence. B2: no requests in a steady state. B3: few requests during an outage.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::record::Request;
use super::context::{Context, Found};
use super::requests::{Sent, Verb};
use super::symbols::{INFORMERS, LEASES, Symbol};

/// The largest number of requests of one controller in [`OUTAGE`].
const REQUESTS_MAX: usize = 600;
const OUTAGE: Duration = Duration::from_mins(10);
/// The first delay of the exponential backoff.
const BACKOFF_FIRST: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// The number of writes, without Leases and Events.
    pub(super) writes: usize,
    /// The time and the description of the last one.
    pub(super) last_write: Option<(Duration, String)>,
    steady: bool,
    outage: Option<Outage>,
}

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
