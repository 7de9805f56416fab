//! The requests of a run, and the knowledge that each process has when it sends one.
//!
//! A process knows the states that were delivered to it. A request may be older than the last delivery: the sync that sends it
//! has read the caches before its first request. So the syncs of one controller in one process are bounded by its *activity*,
//! which lasts while a request of the controller is in flight, and during the short waits of its rate limiter. A sync that
//! receives an answer sends its next request before the process receives anything else.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::record::{Request, Sender};
use super::symbols::{INFORMERS, LEASES, Symbol, Symbols};

/// The longest wait between two requests of one sync.
const ACTIVITY_GAP: Duration = Duration::from_secs(1);
/// The time after which an unanswered request is not part of a sync any more.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The time that a sender waits for the answer to a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

/// A term of leadership of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) process: usize,
    pub(super) term: u32,
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// None for the user.
    pub(super) actor: Option<Actor>,
    pub(super) agent: Symbol,
    pub(super) verb: Verb,
    pub(super) collection: Symbol,
    pub(super) namespace: Symbol,
    /// Empty for a list, a watch and a create.
    pub(super) name: Symbol,
    pub(super) is_subresource: bool,
    /// A list or a watch of a cache.
    pub(super) fills_cache: bool,
    pub(super) at: Duration,
    /// The position in the run.
    pub(super) position: u64,
    /// The position at which the activity of the controller began.
    pub(super) began: u64,
    /// The revision at the start of the term.
    pub(super) term_revision: u64,
    /// The revision up to which the process knows its own writes, whether or not a new term has begun since.
    pub(super) own_revision: u64,
    /// The number of executions that succeeded.
    pub(super) executions: u8,
    /// It was executed after the sender had an answer, or had stopped waiting for it.
    pub(super) late: bool,
    pub(super) answered: Option<Duration>,
}

/// A process of the product.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// The position of the start.
    pub(super) started: u64,
    pub(super) started_at: Duration,
    pub(super) ended: bool,
    /// It has read the Lease, and follows it.
    pub(super) has_read_lease: bool,
    pub(super) term: u32,
    pub(super) term_revision: u64,
    pub(super) own_revision: u64,
    pub(super) term_began: Duration,
    controllers: BTreeMap<Symbol, Activity>,
    /// Position and revision of deliveries by resource, both ascending: a delivery hides the earlier ones that are newer.
    delivered: BTreeMap<Symbol, Vec<(u64, u64)>>,
    /// The position of the last delivery.
    last_delivery: u64,
}

/// The activity of one controller of a process.
#[derive(Clone, Debug, Default)]
struct Activity {
    began: u64,
    /// Time and position of the last request or answer.
    last: Option<(Duration, u64)>,
    /// Number and time of requests without an answer.
    in_flight: Vec<(usize, Duration)>,
}

/// All requests, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    sent: Vec<Option<Sent>>,
    /// The end of the last slow response: its sender waits for it after the answer.
    pub(super) slow_until: Duration,
    pub(super) processes: BTreeMap<usize, Process>,
}

impl Verb {
    fn of(verb: &str) -> Self {
        match verb {
            "list" => Self::List,
            "watch" => Self::Watch,
            "create" => Self::Create,
            "update" => Self::Update,
            "patch" => Self::Patch,
            "delete" => Self::Delete,
            "deletecollection" => Self::DeleteCollection,
            _ => Self::Get,
        }
    }

    pub(super) fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl Requests {
    pub(super) fn started(&mut self, process: usize, at: Duration, position: u64, term_revision: u64) {
        let new = Process {
            started: position,
            started_at: at,
            ended: false,
            has_read_lease: false,
            term: 0,
            term_revision,
            own_revision: term_revision,
            term_began: at,
            controllers: BTreeMap::new(),
            delivered: BTreeMap::new(),
            last_delivery: 0,
        };
        self.processes.insert(process, new);
    }

    pub(super) fn sent(&mut self, request: &Request, position: u64, symbols: &mut Symbols) -> &Sent {
        let verb = Verb::of(request.verb);
        let agent = symbols.intern(&request.agent);
        let mut sent = Sent {
            actor: None,
            agent,
            verb,
            collection: symbols.intern(&request.collection),
            namespace: symbols.intern(&request.namespace),
            name: symbols.intern(&request.name),
            is_subresource: !request.subresource.is_empty(),
            fills_cache: agent == INFORMERS && !request.uri.split(['?', '&']).any(|it| it == "limit=1"),
            at: request.at,
            position,
            began: position,
            term_revision: 0,
            own_revision: 0,
            executions: 0,
            late: false,
            answered: None,
        };
        if let Sender::Process(number) = request.sender
            && let Some(process) = self.processes.get_mut(&number)
        {
            sent.actor = Some(Actor {
                process: number,
                term: process.term,
            });
            sent.term_revision = process.term_revision;
            sent.own_revision = process.own_revision;
            if verb != Verb::Watch {
                let activity = process.controllers.entry(agent).or_default();
                let last = (position, process.last_delivery);
                sent.began = activity.sent(request.number, request.at, last, self.slow_until);
            }
        }
        if self.sent.len() <= request.number {
            self.sent.resize(request.number + 1, None);
        }
        self.sent[request.number].insert(sent)
    }

    pub(super) fn executed(&mut self, number: usize, at: Duration, code: u16) -> Option<&Sent> {
        let sent = self.sent.get_mut(number)?.as_mut()?;
        if (200..300).contains(&code) {
            sent.executions = sent.executions.saturating_add(1);
            sent.late = sent.answered.is_some() || at.saturating_sub(sent.at) > WRITE_TIMEOUT;
        }
        Some(sent)
    }

    pub(super) fn answered(
        &mut self,
        number: usize,
        at: Duration,
        position: u64,
        code: Option<u16>,
    ) -> Option<&Sent> {
        let sent = self.sent.get_mut(number)?.as_mut()?;
        sent.answered = Some(at);
        let mut process = sent.actor.and_then(|it| self.processes.get_mut(&it.process));
        if let Some(process) = &mut process {
            let is_lease = sent.verb == Verb::List && sent.collection == LEASES && sent.agent != INFORMERS;
            process.has_read_lease |= is_lease && code == Some(200);
        }
        if let Some(activity) = process.and_then(|it| it.controllers.get_mut(&sent.agent)) {
            activity.in_flight.retain(|it| it.0 != number);
            activity.last = Some((at, position));
        }
        Some(sent)
    }

    pub(super) fn delivered(&mut self, process: usize, collection: Symbol, revision: u64, position: u64) {
        let Some(process) = self.processes.get_mut(&process) else {
            return;
        };
        process.last_delivery = position;
        let all = process.delivered.entry(collection).or_default();
        while all.last().is_some_and(|it| it.1 >= revision) {
            all.pop();
        }
        all.push((position, revision));
    }

    pub(super) fn get(&self, number: usize) -> Option<&Sent> {
        self.sent.get(number)?.as_ref()
    }

    /// Returns the revision of a resource that the sender knew when the sync began that sent the request; 0 if nothing was
    /// delivered.
    pub(super) fn known_revision(&self, sent: &Sent, collection: Symbol) -> u64 {
        self.revision_between(sent, collection, sent.began)
    }

    /// Returns the revision of a resource that was delivered to the sender when it sent the request.
    pub(super) fn delivered_revision(&self, sent: &Sent, collection: Symbol) -> u64 {
        self.revision_between(sent, collection, sent.position)
    }

    /// Returns the oldest revision that was current in the sender between a position and the request.
    fn revision_between(&self, sent: &Sent, collection: Symbol, began: u64) -> u64 {
        let process = sent.actor.and_then(|it| self.processes.get(&it.process));
        let Some(all) = process.and_then(|it| it.delivered.get(&collection)) else {
            return 0;
        };
        let after = all.partition_point(|it| it.0 <= began);
        let first = all.get(after.saturating_sub(1));
        first.filter(|it| it.0 <= sent.position).map_or(0, |it| it.1)
    }
}

impl Process {
    /// Reports whether a state of a resource was delivered.
    pub(super) fn has_received(&self, collection: Symbol) -> bool {
        self.delivered.contains_key(&collection)
    }
}

impl Sent {
    /// Reports whether the network has repeated the request.
    pub(super) fn is_repeated(&self) -> bool {
        self.executions > 1
    }

    /// Reports whether a change at a revision, by an actor or another client, may be unknown to the sender. At the start of its
    /// term it has caught up with the writes of other processes.
    pub(super) fn may_ignore(&self, revision: u64, by: Option<Actor>, known_revision: u64) -> bool {
        let is_before = by.is_some() && revision <= self.term_revision;
        let process = |it: Option<Actor>| it.map(|it| it.process);
        let is_own = by == self.actor || process(by) == process(self.actor) && revision <= self.own_revision;
        !is_own && !is_before && revision > known_revision
    }
}

impl Activity {
    /// Records a request. Returns the start of the activity.
    fn sent(
        &mut self,
        number: usize,
        at: Duration,
        (position, last_delivery): (u64, u64),
        slow_until: Duration,
    ) -> u64 {
        self.in_flight
            .retain(|(_, sent)| at.saturating_sub(*sent) < TIMEOUT);
        let is_new = |(last, last_position): (Duration, u64)| {
            let gap = at.saturating_sub(last);
            let is_over = gap > ACTIVITY_GAP || gap.is_zero() && last_delivery > last_position;
            is_over && at > slow_until
        };
        if self.in_flight.is_empty() && self.last.is_none_or(is_new) {
            self.began = position;
        }
        self.in_flight.push((number, at));
        self.last = Some((at, position));
        self.began
    }
}
