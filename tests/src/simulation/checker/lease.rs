//! S7: a process sends no unconditional write later than the renew deadline after its last successful renewal was sent, and none
//! beside kube-controller-manager. L4: after the end of a leader, another process leads soon.
//!
//! A process begins a new term when it acquires the Lease, and when it renews the Lease after the deadline, or after another
//! client has changed it. At the start of a term it has no memory, and reads everything again.

use std::time::Duration;

use super::super::record::{Request, Sender};
use super::context::{Change, Context, Found};
use super::requests::{Requests, Sent, Verb};
use super::rules::{LeaseRules, Rules};
use super::symbols::LEASES;
use super::view::{LeaseSpec, Skipped, View, is_conditional};

/// The bound on the time until a standby leads after an orderly release.
const TAKEOVER_MAX: Duration = Duration::from_secs(1);
/// The longest time that the requests of an election take.
const REQUESTS_MAX: Duration = Duration::from_secs(2);
/// The longest duration of a fault.
const FAULT_MAX: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    /// The send time of the last successful renewal by process; none if there is none, or after a release.
    renewed: Vec<Option<Duration>>,
    /// The process whose write of the Lease was executed last, unless it is a release.
    holder: Option<usize>,
    /// Another client has changed the Lease since.
    disturbed: bool,
    /// The time until which a process must lead.
    due: Option<Duration>,
    /// The time until which a fault may last.
    faulty_until: Option<Duration>,
}

/// A write of the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Claim,
    Release,
}

impl Leases {
    pub(super) fn started(&mut self, context: &Context, at: Duration) {
        if self.holder.is_none() && self.due.is_none() {
            let lease = context.rules.lease.as_ref();
            self.due = lease.map(|it| at + successor(&context.rules, it));
            self.extend(&context.rules);
        }
    }

    /// The due time of a successor counts from the end of the leader, and from the start of the process that is left.
    pub(super) fn ended(&mut self, context: &Context, process: usize, at: Duration) {
        let Some(rules) = context.rules.lease.as_ref() else {
            return;
        };
        let from = if self.holder == Some(process) {
            Some(at)
        } else {
            self.due
                .map(|it| it.saturating_sub(successor(&context.rules, rules)))
        };
        let Some(from) = from else {
            return;
        };
        self.holder = None;
        let standby = standby(&context.requests, process);
        self.due = standby.map(|(since, _)| from.max(since) + successor(&context.rules, rules));
        self.extend(&context.rules);
    }

    /// A fault may delay the election again. The end of a process does not cause it.
    pub(super) fn fault(&mut self, rules: &Rules, at: Duration, class: &str) {
        if !matches!(class, "F01" | "F02" | "F03" | "Crash") {
            self.faulty_until = Some(at + FAULT_MAX);
        }
        self.extend(rules);
    }

    fn extend(&mut self, rules: &Rules) {
        if let (Some(due), Some(until), Some(lease)) = (&mut self.due, self.faulty_until, &rules.lease) {
            *due = (*due).max(until + successor(rules, lease));
        }
    }

    /// Checks a request of a process.
    pub(super) fn sent(&mut self, context: &Context, request: &Request, sent: &Sent, found: &mut Found) {
        let (Some(rules), Some(actor)) = (&context.rules.lease, sent.actor) else {
            return;
        };
        if !sent.verb.is_write() {
            return;
        }
        if context.rules.yields && context.counts(sent) {
            let message = format!(
                "{} {} by {}, but kube-controller-manager may run",
                request.verb,
                request.uri,
                context.sender(sent)
            );
            found.add("S7", message);
        }
        if sent.collection == LEASES {
            if write(rules, request) == Some(Write::Release) {
                self.set_renewed(actor.process, None);
            }
            return;
        }
        let renewed = self.renewed.get(actor.process).copied().flatten();
        let until = renewed.map(|it| it + context.rules.longest(rules.renew_deadline));
        if until.is_some_and(|it| sent.at <= it) || context.is_unfenced(sent) {
            return;
        }
        let is_conditional = sent.verb != Verb::Create && is_conditional(&request.body);
        if !is_conditional {
            found.add(
                "S7",
                format!(
                    "{} {} by {} is not conditional, but the process {}",
                    request.verb,
                    request.uri,
                    context.sender(sent),
                    renewed.map_or("is not the leader".to_owned(), |it| {
                        format!(
                            "sent its last successful renewal at {it:?}, and the renew deadline is {:?}",
                            rules.renew_deadline
                        )
                    }),
                ),
            );
        }
    }

    /// Records the answer to a write of the Lease. A renewal after the deadline begins a new term.
    pub(super) fn answered(&mut self, rules: &Rules, requests: &mut Requests, answer: &Answer<'_>) {
        let (Some(lease), Sender::Process(process)) = (&rules.lease, answer.request.sender) else {
            return;
        };
        if write(lease, answer.request) != Some(Write::Claim) || answer.code.is_none_or(|it| it >= 300) {
            return;
        }
        let before = self.renewed.get(process).copied().flatten();
        if before.is_some_and(|it| it > answer.request.at) {
            // The process had stopped waiting for this answer.
            return;
        }
        let is_within = |time| before.is_some_and(|it| answer.at < it + time);
        if !is_within(rules.longest(lease.renew_deadline)) {
            begin_term(requests, process, answer.revision, answer.at);
        } else if !is_within(rules.shortest(lease.renew_deadline))
            && let Some(process) = requests.processes.get_mut(&process)
        {
            // By its clock, the term may have ended. A new one has to prove its caches current; the old one has not. Both know the
            // writes of the process.
            process.term += 1;
            process.own_revision = answer.revision;
        }
        self.set_renewed(process, Some(answer.request.at));
    }

    /// Records a change of the Lease. `request` is that of the change, by a process.
    pub(super) fn commit(
        &mut self,
        rules: &Rules,
        requests: &mut Requests,
        change: &Change,
        request: Option<&Request>,
    ) {
        let (Some(lease), Some(request)) = (&rules.lease, request) else {
            self.disturbed = true;
            return;
        };
        let Sender::Process(process) = request.sender else {
            self.disturbed = true;
            return;
        };
        match write(lease, request) {
            Some(Write::Claim) => {
                if self.holder != Some(process) || self.disturbed {
                    begin_term(requests, process, change.revision, change.at);
                }
                self.disturbed = false;
                let is_alive = requests.processes.get(&process).is_some_and(|it| !it.ended);
                self.holder = is_alive.then_some(process);
                // A late claim of an ended process delays its successor.
                self.due = match self.due {
                    Some(due) if !is_alive => Some(due.max(change.at + successor(rules, lease))),
                    _ => None,
                };
            }
            Some(Write::Release) => {
                self.holder = None;
                self.due = standby(requests, process).map(|(since, is_warm)| {
                    if is_warm && rules.takes_over_at_once {
                        change.at + TAKEOVER_MAX
                    } else {
                        change.at.max(since) + successor(rules, lease)
                    }
                });
                self.extend(rules);
            }
            None => self.disturbed = true,
        }
    }

    /// Checks that a process leads in time.
    pub(super) fn check(&mut self, context: &Context, found: &mut Found) {
        if let Some(due) = self.due.filter(|due| context.now > *due) {
            self.due = None;
            found.add(
                "L4",
                format!(
                    "no process has acquired the Lease until {due:?}; it is {:?}",
                    context.now
                ),
            );
        }
    }

    fn set_renewed(&mut self, process: usize, at: Option<Duration>) {
        if self.renewed.len() <= process {
            self.renewed.resize(process + 1, None);
        }
        self.renewed[process] = at;
    }
}

/// The answer to a request of a process.
pub(super) struct Answer<'a> {
    pub(super) request: &'a Request,
    pub(super) at: Duration,
    pub(super) code: Option<u16>,
    /// The newest revision.
    pub(super) revision: u64,
}

/// Returns the time in which a candidate acquires a Lease that is not renewed.
fn successor(rules: &Rules, lease: &LeaseRules) -> Duration {
    rules.longest(lease.lease_duration + 2 * lease.retry_period) + REQUESTS_MAX
}

/// Returns the start of the process that takes over from `leader`, and whether it follows the Lease.
fn standby(requests: &Requests, leader: usize) -> Option<(Duration, bool)> {
    let others = requests.processes.iter();
    let others = others.filter(|(number, it)| **number != leader && !it.ended);
    let others = others.map(|(_, it)| (it.started_at, it.has_read_lease || it.has_received(LEASES)));
    others.min_by_key(|(since, is_warm)| (!is_warm, *since))
}

fn begin_term(requests: &mut Requests, process: usize, revision: u64, at: Duration) {
    if let Some(process) = requests.processes.get_mut(&process) {
        process.term += 1;
        process.term_revision = revision;
        process.term_began = at;
    }
}

/// Returns the kind of a write of the Lease; none for other requests.
fn write(rules: &LeaseRules, request: &Request) -> Option<Write> {
    let is_write = matches!(request.verb, "create" | "update" | "patch");
    let is_named = request.name == rules.name || request.verb == "create";
    if !is_write || !is_named || request.namespace != rules.namespace {
        return None;
    }
    let lease: View<'_, LeaseSpec<'_>, Skipped> = serde_json::from_slice(&request.body).ok()?;
    let holder = lease.spec.holder_identity.unwrap_or_default();
    Some(if holder.is_empty() {
        Write::Release
    } else {
        Write::Claim
    })
}
