//! The candidate: does what [`View`](super::decide::View) decides, and opens and shuts the fence.
//!
//! One task, one request at a time. The watch runs beside it and is listened to also while a request is under way, so
//! that a leader whose renewal hangs still stops when its Lease is taken.

mod release;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use prometheus::Registry;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{Step, View};
use super::health::Health;
use super::metrics::Metrics;
use super::record::Record;
use super::{Config, ElectionError, Leadership, Release, ReleaseError};
use crate::client::{
    Client, ClientError, Fence, ObjectEvent, ObjectWatch, Term, View as ObjectView, WatchReport,
};
use crate::env::{Env, Mark, later};
use crate::events::{EventType, ObjectRef, Recorder};
use crate::object::{Key, Resource, Version};

/// How many sightings may wait. The watch waits for the elector beyond that.
const SIGHTINGS: usize = 16;

/// A candidate. Dropping it shuts the fence; the Lease then expires.
#[derive(Debug)]
pub struct Elector {
    env: Env,
    client: Client,
    fence: Fence,
    config: Config,
    resource: Resource,
    key: Key,
    metrics: Metrics,
    health: Health,
    leadership: watch::Sender<Leadership>,
    view: View,
    /// While the Lease is ours.
    seat: Option<Seat>,
    /// Since when it is tried to take the Lease, without an answer that says so.
    claiming: Option<Mark>,
    /// Whether the watch is open.
    watching: bool,
    /// When to do the next step, if no request is under way.
    next: Instant,
    /// The last conflict was answered by trying again at once. The next one is not: somebody may be writing all the time.
    hurried: bool,
    /// The holder that was last told of.
    leader: String,
    /// Tells the cluster who leads.
    recorder: Option<Recorder>,
}

/// The Lease is ours.
#[derive(Debug)]
struct Seat {
    /// When the last renewal that succeeded was sent.
    renewed: Mark,
    /// None while a holder before us may still believe to be alive.
    term: Option<Term>,
}

/// A request under way.
struct Trying {
    asked: Asked,
    /// On all clocks there are: what the fence counts from.
    sent: Mark,
    sent_at: Instant,
    answer: Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Read,
    Write,
}

impl Elector {
    /// A candidate that writes the Lease through `client` and lets `fence` follow. The client is not fenced, and has its
    /// own connection: a renewal must not wait behind other requests.
    pub fn new(
        env: &Env,
        client: Client,
        fence: Fence,
        config: Config,
        registry: &Registry,
    ) -> Result<Self, ElectionError> {
        config.check()?;
        let key = Key::new(config.namespace.as_str(), config.name.as_str());
        Ok(Self {
            env: env.clone(),
            client,
            fence,
            resource: Resource::of::<Lease>(),
            metrics: Metrics::register(&config.name, registry)?,
            health: Health::new(&env.clock, &config.name, config.lease_duration),
            leadership: watch::Sender::new(Leadership::Standby),
            view: View::new(key.clone(), config.identity.clone(), config.lease_duration),
            seat: None,
            claiming: None,
            watching: false,
            next: env.clock.now(),
            hurried: false,
            leader: String::new(),
            recorder: None,
            key,
            config,
        })
    }

    /// Events on the Lease say when this process begins and ceases to lead.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Whether this process leads. It says `Standby` at the latest when the fence shuts by itself.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// The health of the election.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Takes part until `finish` resolves. From `stop` on the Lease is not taken any more; one that is held is renewed,
    /// while the workers finish what they are at. Then `finish` says whether it can be given back. If not, and if the
    /// future is dropped, it is left to expire.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        finish: impl Future<Output = Option<Release>>,
    ) -> Result<(), ReleaseError> {
        let (send, sightings) = mpsc::channel(SIGHTINGS);
        let watch = ObjectWatch {
            env: self.env.clone(),
            client: self.client.clone(),
            resource: self.resource.clone(),
            key: self.key.clone(),
            view: ObjectView::Full,
            // A held Lease changes with every renewal.
            idle_timeout: self.config.lease_duration,
        };
        let release = tokio::select! {
            biased;
            release = finish => release,
            never = self.elect(&stop, sightings) => match never {},
            never = watch.run(send) => match never {},
        };
        match release {
            Some(release) => self.release(release).await,
            None => Ok(()),
        }
    }

    async fn elect(
        &mut self,
        stop: &CancellationToken,
        mut sightings: mpsc::Receiver<WatchReport>,
    ) -> Infallible {
        let clock = self.env.clock.clone();
        let mut trying: Option<Trying> = None;
        loop {
            self.review();
            tokio::select! {
                biased;
                Some(sighting) = sightings.recv() => {
                    let news = self.sighted(sighting);
                    // A read that is under way may be older than what was seen, and may hang.
                    trying = trying.filter(|trying| !news || trying.asked == Asked::Write);
                }
                () = self.turn() => {}
                (asked, sent, sent_at, answer) = answer(&mut trying) => {
                    trying = None;
                    match asked {
                        Asked::Read => self.read(answer),
                        Asked::Write => self.wrote(sent, sent_at, answer),
                    }
                }
                () = clock.sleep_until(self.next), if trying.is_none() => trying = self.begin(stop),
            }
        }
    }

    /// Waits until there may be something to [review](Self::review) that nobody tells of.
    async fn turn(&self) {
        match &self.seat {
            None => std::future::pending().await,
            Some(Seat { term: Some(term), .. }) => self.fence.closed(*term).await,
            Some(Seat { renewed, term: None }) => {
                let clock = &self.env.clock;
                let left = self.config.renew_deadline.saturating_sub(clock.elapsed(renewed));
                let end = clock.after(left);
                let clear = self.view.clear_at().unwrap_or(end);
                clock.sleep_until(clear.min(end)).await;
            }
        }
    }

    /// Brings the fence in line with what is known.
    fn review(&mut self) {
        self.tell();
        let Some(seat) = &self.seat else { return };
        if !self.view.is_held() {
            self.step_down();
            tracing::warn!(lease = %self.key, "Stood down: somebody else has changed the lease");
            self.next = self.env.clock.now();
            return;
        }
        let in_time = self.env.clock.elapsed(&seat.renewed) < self.config.renew_deadline;
        if !in_time || seat.term.is_some_and(|term| !self.fence.allows(term)) {
            // If the next try has no answer either, others have had to wait for long enough.
            self.claiming = Some(seat.renewed);
            self.step_down();
            tracing::warn!(lease = %self.key, "Stood down: the lease was not renewed in time");
            self.next = self.retry();
            return;
        }
        let now = self.env.clock.now();
        if seat.term.is_none() && self.view.clear_at().is_none_or(|clear| clear <= now) {
            let term = self.fence.open(seat.renewed, self.config.renew_deadline);
            self.seat = Some(Seat {
                renewed: seat.renewed,
                term: Some(term),
            });
            self.health.leads(Some(now));
            self.metrics.leading.set(1);
            let takeover = self.view.takeover();
            tracing::info!(lease = %self.key, identity = self.config.identity, "Became leader");
            self.record("became leader");
            self.leadership
                .send_replace(Leadership::Leading { term, takeover });
        }
    }

    /// Says who leads, when that has changed. Of ourselves it is said when we act.
    fn tell(&mut self) {
        if let Some(record) = self.view.record()
            && record.holder() != self.leader
        {
            record.holder().clone_into(&mut self.leader);
            if self.leader != self.config.identity {
                tracing::info!(lease = %self.key, holder = self.leader, "The lease has another holder");
            }
        }
    }

    fn record(&self, what: &str) {
        let (Some(recorder), Some(record)) = (&self.recorder, self.view.record()) else {
            return;
        };
        let lease = ObjectRef {
            api_version: self.resource.api_version().into(),
            kind: (*self.resource.kind).into(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            uid: record.uid().into(),
            resource_version: record.version(),
        };
        let message = format!("{} {what}", self.config.identity);
        recorder.event(&lease, EventType::Normal, "LeaderElection", &message);
    }

    fn step_down(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        self.fence.close();
        self.view.led();
        if seat.term.is_some() {
            self.health.leads(None);
            self.metrics.leading.set(0);
            tracing::info!(lease = %self.key, identity = self.config.identity, "Stopped leading");
            self.record("stopped leading");
            self.leadership.send_replace(Leadership::Standby);
        }
    }

    /// When to try again after a failure.
    fn retry(&self) -> Instant {
        let period = self.config.retry_period;
        let wait = self.env.rng.between(period, period * 11 / 5);
        self.env.clock.after(wait)
    }

    fn retry_after(&self, sent_at: Instant) -> Instant {
        if self.seat.is_some() {
            later(sent_at, self.config.retry_period)
        } else {
            self.retry()
        }
    }

    /// Takes note of what came over the watch; true if it is news about the Lease.
    fn sighted(&mut self, sighting: WatchReport) -> bool {
        let now = self.env.clock.now();
        let newest = self.view.newest();
        let is_old = |version: &Version| newest.partial_cmp(version) == Some(Ordering::Greater);
        match sighting {
            WatchReport::Opened(present) => {
                self.watching = true;
                let record = present.object.map(Record::new);
                let version = record.as_ref().map_or(present.version, Record::version);
                if is_old(&version) {
                    // From a server that is behind, or whose store was restored: a read tells.
                    if self.seat.is_none() {
                        self.view.doubt();
                        self.next = now;
                    }
                    return false;
                }
                match record {
                    Some(record) => self.view.observe(now, Some(record)),
                    None => self.view.observe_deletion(now, version),
                }
            }
            WatchReport::Ended(_) => {
                self.watching = false;
                if self.seat.is_none() {
                    self.next = self.next.min(self.retry());
                    self.view.doubt();
                }
                return false;
            }
            WatchReport::Event(ObjectEvent::Updated(lease)) => {
                let record = Record::new(lease);
                // Our own writes come back here, and those of a server that is behind.
                if newest.has_reached(&record.version()) {
                    return false;
                }
                self.view.observe(now, Some(record));
            }
            WatchReport::Event(ObjectEvent::Deleted(version)) if is_old(&version) => return false,
            WatchReport::Event(ObjectEvent::Deleted(version)) => self.view.observe_deletion(now, version),
        }
        if self.seat.is_none() {
            self.next = now;
        }
        true
    }

    /// Does the next step, or says when.
    fn begin(&mut self, stop: &CancellationToken) -> Option<Trying> {
        let clock = self.env.clock.clone();
        let now = clock.now();
        if self.seat.is_none() && stop.is_cancelled() {
            self.next = later(now, Duration::MAX);
            return None;
        }
        let client = self.client.clone();
        let (resource, key) = (self.resource.clone(), self.key.clone());
        let sent = clock.mark();
        let (asked, answer): (_, Pin<Box<dyn Future<Output = _> + Send>>) =
            match self.view.step(now, clock.wall()) {
                Step::Wait(until) => {
                    self.hurried = false;
                    self.claiming = None;
                    self.next = until;
                    if !self.watching {
                        self.next = until.min(self.retry());
                        self.view.doubt();
                    }
                    return None;
                }
                Step::Read => (
                    Asked::Read,
                    Box::pin(async move { client.get(&resource, &key).await }),
                ),
                Step::Create(lease) => (
                    Asked::Write,
                    Box::pin(async move {
                        let body = lease.to_string().into();
                        client.create(&resource, &key.namespace, body).await
                    }),
                ),
                Step::Replace(lease) => (
                    Asked::Write,
                    Box::pin(async move { client.replace(&resource, &key, lease.to_string().into()).await }),
                ),
            };
        if asked == Asked::Write && self.seat.is_none() {
            self.claiming.get_or_insert(sent);
        }
        let limit = self.limit();
        let request_line = format!("lease {}", self.key);
        Some(Trying {
            asked,
            sent,
            sent_at: now,
            answer: Box::pin(async move {
                let answer = clock.timeout(limit, answer).await;
                answer.unwrap_or(Err(ClientError::Timeout {
                    request_line,
                    deadline: limit,
                }))
            }),
        })
    }

    /// How long one request may take: two that hang must not cost the leadership by themselves.
    fn limit(&self) -> Duration {
        (self.config.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// No sighting came while the Lease was read, so this is the newest that there is of it, whatever its version: those
    /// of a store that was restored go back.
    fn read(&mut self, answer: Result<Value, ClientError>) {
        let now = self.env.clock.now();
        self.next = now;
        match answer {
            Ok(lease) => {
                self.view.observe(now, Some(Record::new(lease)));
                if self.seat.is_some() && self.view.is_held() {
                    self.metrics.slow.inc();
                }
            }
            Err(error) if error.is_not_found(&self.key.name) => self.view.observe(now, None),
            Err(error) => {
                tracing::warn!(%error, "The lease could not be read");
                self.next = self.retry_after(now);
            }
        }
    }

    fn wrote(&mut self, sent: Mark, sent_at: Instant, answer: Result<Value, ClientError>) {
        let now = self.env.clock.now();
        let lease = match answer {
            Ok(lease) => Record::new(lease),
            Err(error) => {
                self.view.doubt();
                let claiming = self.claiming.map(|since| self.env.clock.elapsed(&since));
                if claiming.is_some_and(|so_far| so_far >= self.config.renew_deadline) {
                    // Our record runs out, and others have a period to take it.
                    let wait = self.config.lease_duration + self.config.retry_period;
                    self.view.lapse(wait);
                    self.claiming = None;
                }
                let overtaken =
                    error.is_conflict() || error.is_already_exists() || error.is_not_found(&self.key.name);
                if overtaken && !self.hurried {
                    self.hurried = true;
                    self.next = now;
                } else {
                    tracing::warn!(%error, "The lease could not be written");
                    self.hurried = false;
                    self.next = self.retry_after(sent_at);
                }
                return;
            }
        };
        self.claiming = None;
        if self.view.newest().partial_cmp(&lease.version()) == Some(Ordering::Greater) {
            // It was ours, and is not any more; or the server answers with something else than was written.
            self.view.doubt();
            self.next = if self.hurried { self.retry() } else { now };
            self.hurried = !self.hurried;
            return;
        }
        self.hurried = false;
        self.view.wrote(now, lease);
        if self.seat.is_none() && !self.view.is_held() {
            tracing::warn!(lease = %self.key, "The server does not keep what is written to the lease");
            self.next = self.retry();
            return;
        }
        self.next = later(sent_at, self.config.retry_period);
        match &mut self.seat {
            None => {
                self.seat = Some(Seat {
                    renewed: sent,
                    term: None,
                });
            }
            Some(held) => {
                held.renewed = sent;
                if let Some(term) = held.term
                    && self.fence.extend(term, sent, self.config.renew_deadline)
                {
                    self.health.leads(Some(now));
                }
            }
        }
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        // Nobody renews any more.
        self.step_down();
    }
}

async fn answer(trying: &mut Option<Trying>) -> (Asked, Mark, Instant, Result<Value, ClientError>) {
    match trying {
        None => std::future::pending().await,
        Some(trying) => {
            let answer = trying.answer.as_mut().await;
            (trying.asked, trying.sent, trying.sent_at, answer)
        }
    }
}
