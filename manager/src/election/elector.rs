//! The candidate: carries out the steps of [`LeaseState`](super::lease_state::LeaseState), and opens and closes the fence.
//!
//! One task with one request at a time. Watch events are handled while a request is in flight, so that a leader whose renewal
//! hangs steps down when its Lease is taken.

mod release;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use crate::metrics::Registry;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use super::lease_state::{LeaseState, Step};
use super::metrics::Metrics;
use super::record::Record;
use super::{Config, ElectionError, ElectionStatus, Leadership, Release, ReleaseError};
use crate::client::{Client, ClientError, Fence, ObjectEvent, ObjectWatch, Reader, Term, View, WatchReport};
use crate::env::{Env, Mark, Tasks, later};
use crate::events::{EventType, ObjectRef, Recorder};
use crate::object::{Key, Resource, Version};
use crate::sync::watch;

/// The capacity of the channel of watch events.
const WATCH_BUFFER: usize = 16;

/// A candidate. Dropping it closes the fence; the Lease then expires.
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
    status: ElectionStatus,
    leadership: watch::Sender<Leadership>,
    state: LeaseState,
    /// Set while this candidate holds the Lease.
    holding: Option<Holding>,
    /// The first attempt to acquire the Lease that has no successful response yet.
    claiming_since: Option<Mark>,
    watching: bool,
    /// The time of the next step, if no request is in flight.
    next: Instant,
    /// The last conflict was retried immediately. The next one is not: another client may be writing continuously.
    retried_at_once: bool,
    /// The holder that was logged last.
    leader: String,
    /// Records `LeaderElection` events on the Lease.
    recorder: Option<Recorder>,
}

#[derive(Debug)]
struct Holding {
    /// The time at which the last successful renewal was sent.
    renewed: Mark,
    /// None while a previous holder may believe that it is the leader.
    term: Option<Term>,
}

struct InFlight {
    kind: RequestKind,
    /// On all clocks, for the fence.
    sent: Mark,
    sent_at: Instant,
    response: Pin<Box<dyn Future<Output = Result<Value, ClientError>> + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
}

impl Elector {
    /// Returns a candidate that writes the Lease through `client` and controls `fence`. The client must not be fenced, and
    /// should have its own connection, so that renewals do not wait behind other requests.
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
            status: ElectionStatus::new(&env.clock, &config),
            leadership: watch::Sender::new(Leadership::Standby),
            state: LeaseState::new(key.clone(), config.identity.clone(), config.lease_duration),
            holding: None,
            claiming_since: None,
            watching: false,
            next: env.clock.now(),
            retried_at_once: false,
            leader: String::new(),
            recorder: None,
            key,
            config,
        })
    }

    /// Records events on the Lease when this process starts and stops leading.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Returns the role of this process. It changes to `Standby` at latest when the fence closes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Returns the tasks of its environment.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.env.tasks
    }

    /// Returns the health check of the election.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Returns the observed state of the election.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        self.status.clone()
    }

    /// Runs until `finish` resolves. After `stop` the Lease is not acquired any more; a held one is renewed while the workers
    /// stop. Then `finish` says whether the Lease can be released. Otherwise, and if the future is dropped, it expires.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        finish: impl Future<Output = Option<Release>>,
    ) -> Result<(), ReleaseError> {
        let (send, reports) = mpsc::channel(WATCH_BUFFER);
        let watch = ObjectWatch {
            env: self.env.clone(),
            client: Reader::clone(&self.client),
            resource: self.resource.clone(),
            key: self.key.clone(),
            view: View::Full,
            // A held Lease changes with every renewal.
            idle_timeout: self.config.lease_duration,
        };
        let release = tokio::select! {
            biased;
            release = finish => release,
            never = self.elect(&stop, reports) => match never {},
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
        mut reports: mpsc::Receiver<WatchReport>,
    ) -> Infallible {
        let clock = self.env.clock.clone();
        let mut in_flight: Option<InFlight> = None;
        loop {
            self.sync_fence();
            tokio::select! {
                biased;
                Some(report) = reports.recv() => {
                    let changed = self.on_watch_event(report);
                    // A read in flight may be older than the event, and may hang.
                    in_flight = in_flight.filter(|request| !changed || request.kind == RequestKind::Write);
                }
                () = self.next_deadline() => {}
                (kind, sent, sent_at, response) = response(&mut in_flight) => {
                    in_flight = None;
                    match kind {
                        RequestKind::Read => self.on_read(response),
                        RequestKind::Write => self.on_write(sent, sent_at, response),
                    }
                }
                () = clock.sleep_until(self.next), if in_flight.is_none() => in_flight = self.send_next(stop),
            }
        }
    }

    /// Waits until [`sync_fence`](Self::sync_fence) may have something to do without an event.
    async fn next_deadline(&self) {
        match &self.holding {
            None => std::future::pending().await,
            Some(Holding { term: Some(term), .. }) => self.fence.closed(*term).await,
            Some(Holding { renewed, term: None }) => {
                let clock = &self.env.clock;
                let left = self.config.renew_deadline.saturating_sub(clock.elapsed(renewed));
                let end = clock.after(left);
                let clear = self.state.earliest_start().unwrap_or(end);
                clock.sleep_until(clear.min(end)).await;
            }
        }
    }

    /// Opens or closes the fence according to the state.
    fn sync_fence(&mut self) {
        self.log_holder_change();
        let Some(holding) = &self.holding else { return };
        if !self.state.is_held() {
            self.step_down();
            tracing::warn!(object = %self.key.logged("Lease"), "Lost the lease, it was changed by another client");
            self.next = self.env.clock.now();
            return;
        }
        let in_time = self.env.clock.elapsed(&holding.renewed) < self.config.renew_deadline;
        if !in_time || holding.term.is_some_and(|term| !self.fence.allows(term)) {
            // If the next attempt fails too, other candidates have waited for long enough.
            self.claiming_since = Some(holding.renewed);
            self.step_down();
            tracing::warn!(object = %self.key.logged("Lease"), "Lost the lease, it was not renewed in time");
            self.next = self.retry();
            return;
        }
        let now = self.env.clock.now();
        if holding.term.is_none() && self.state.earliest_start().is_none_or(|clear| clear <= now) {
            let term = self.fence.open(holding.renewed, self.config.renew_deadline);
            self.holding = Some(Holding {
                renewed: holding.renewed,
                term: Some(term),
            });
            self.health.set_renewed(Some(now));
            self.metrics.leading.set(1);
            self.status.begin_term();
            let takeover = self.state.takeover();
            tracing::info!(object = %self.key.logged("Lease"), identity = self.config.identity, "Became leader");
            self.record("became leader");
            self.leadership
                .send_replace(Leadership::Leading { term, takeover });
        }
    }

    /// Logs a new holder. This process itself is logged when it starts leading.
    fn log_holder_change(&mut self) {
        let Some(record) = self.state.record() else {
            return;
        };
        self.status.observe(record.holder(), record.transitions());
        if record.holder() != self.leader {
            record.holder().clone_into(&mut self.leader);
            if self.leader != self.config.identity {
                tracing::info!(object = %self.key.logged("Lease"), holder = self.leader, "Lease holder changed");
            }
        }
    }

    fn record(&self, what: &str) {
        let (Some(recorder), Some(record)) = (&self.recorder, self.state.record()) else {
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
        let Some(holding) = self.holding.take() else {
            return;
        };
        self.fence.close();
        self.state.end_term();
        if holding.term.is_some() {
            self.health.set_renewed(None);
            self.metrics.leading.set(0);
            self.status.end_term();
            tracing::info!(object = %self.key.logged("Lease"), identity = self.config.identity, "Stopped leading");
            self.record("stopped leading");
            self.leadership.send_replace(Leadership::Standby);
        }
    }

    /// Returns the time of the next attempt after a failure.
    fn retry(&self) -> Instant {
        let period = self.config.retry_period;
        let wait = self.env.rng.between(period, period * 11 / 5);
        self.env.clock.after(wait)
    }

    fn retry_after(&self, sent_at: Instant) -> Instant {
        if self.holding.is_some() {
            later(sent_at, self.config.retry_period)
        } else {
            self.retry()
        }
    }

    /// Handles a watch event. Returns whether the Lease has changed.
    fn on_watch_event(&mut self, report: WatchReport) -> bool {
        let now = self.env.clock.now();
        let newest = self.state.newest();
        let is_old = |version: &Version| newest.partial_cmp(version) == Some(Ordering::Greater);
        match report {
            WatchReport::Opened(present) => {
                self.watching = true;
                let record = present.object.map(Record::new);
                let version = record.as_ref().map_or(present.version, Record::version);
                if is_old(&version) {
                    // The API server is behind, or its store was restored: only a read can tell.
                    if self.holding.is_none() {
                        self.state.invalidate();
                        self.next = now;
                    }
                    return false;
                }
                match record {
                    Some(record) => self.state.observe(now, Some(record)),
                    None => self.state.observe_deletion(now, version),
                }
            }
            WatchReport::Ended(_) => {
                self.watching = false;
                if self.holding.is_none() {
                    self.next = self.next.min(self.retry());
                    self.state.invalidate();
                }
                return false;
            }
            WatchReport::Event(ObjectEvent::Updated(lease)) => {
                let record = Record::new(lease);
                // Our own write, or an old event of an API server that is behind.
                if newest.has_reached(&record.version()) {
                    return false;
                }
                self.state.observe(now, Some(record));
            }
            WatchReport::Event(ObjectEvent::Deleted(version)) if is_old(&version) => return false,
            WatchReport::Event(ObjectEvent::Deleted(version)) => self.state.observe_deletion(now, version),
        }
        if self.holding.is_none() {
            self.next = now;
        }
        true
    }

    /// Sends the request of the next step, or schedules it.
    fn send_next(&mut self, stop: &CancellationToken) -> Option<InFlight> {
        let clock = self.env.clock.clone();
        let now = clock.now();
        if self.holding.is_none() && stop.is_cancelled() {
            self.next = later(now, Duration::MAX);
            return None;
        }
        let client = self.client.clone();
        let (resource, key) = (self.resource.clone(), self.key.clone());
        let sent = clock.mark();
        let (kind, response): (_, Pin<Box<dyn Future<Output = _> + Send>>) =
            match self.state.step(now, clock.wall()) {
                Step::Wait(until) => {
                    self.retried_at_once = false;
                    self.claiming_since = None;
                    self.next = until;
                    if !self.watching {
                        self.next = until.min(self.retry());
                        self.state.invalidate();
                    }
                    return None;
                }
                Step::Read => (
                    RequestKind::Read,
                    Box::pin(async move { client.get(&resource, &key).await }),
                ),
                Step::Create(lease) => (
                    RequestKind::Write,
                    Box::pin(async move {
                        let body = lease.to_string().into();
                        client.create(&resource, &key.namespace, body).await
                    }),
                ),
                Step::Replace(lease) => (
                    RequestKind::Write,
                    Box::pin(async move { client.replace(&resource, &key, lease.to_string().into()).await }),
                ),
            };
        if kind == RequestKind::Write && self.holding.is_none() {
            self.claiming_since.get_or_insert(sent);
        }
        let deadline = self.request_timeout();
        let request_line = format!("lease {}", self.key);
        Some(InFlight {
            kind,
            sent,
            sent_at: now,
            response: Box::pin(async move {
                let response = clock.timeout(deadline, response).await;
                response.unwrap_or(Err(ClientError::Timeout {
                    request_line,
                    deadline,
                }))
            }),
        })
    }

    /// Returns the timeout of one request: two hanging requests alone must not cost the leadership.
    fn request_timeout(&self) -> Duration {
        (self.config.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// There was no watch event during the read, so its result is the newest, whatever its version: the versions of a
    /// restored store go back.
    fn on_read(&mut self, response: Result<Value, ClientError>) {
        let now = self.env.clock.now();
        self.next = now;
        match response {
            Ok(lease) => {
                self.state.observe(now, Some(Record::new(lease)));
                if self.holding.is_some() && self.state.is_held() {
                    self.metrics.slow.inc();
                }
            }
            Err(error) if error.is_not_found(&self.key.name) => self.state.observe(now, None),
            Err(error) => {
                tracing::warn!(%error, "Failed to read lease");
                self.next = self.retry_after(now);
            }
        }
    }

    fn on_write(&mut self, sent: Mark, sent_at: Instant, response: Result<Value, ClientError>) {
        let now = self.env.clock.now();
        let lease = match response {
            Ok(lease) => Record::new(lease),
            Err(error) => {
                self.state.invalidate();
                let claiming = self.claiming_since.map(|since| self.env.clock.elapsed(&since));
                if claiming.is_some_and(|elapsed| elapsed >= self.config.renew_deadline) {
                    // The record expires, and other candidates have a retry period to acquire the Lease.
                    let wait = self.config.lease_duration + self.config.retry_period;
                    self.state.give_up_claim(wait);
                    self.claiming_since = None;
                }
                let outdated =
                    error.is_conflict() || error.is_already_exists() || error.is_not_found(&self.key.name);
                if outdated && !self.retried_at_once {
                    self.retried_at_once = true;
                    self.next = now;
                } else {
                    tracing::warn!(%error, "Failed to write lease");
                    self.retried_at_once = false;
                    self.next = self.retry_after(sent_at);
                }
                return;
            }
        };
        self.claiming_since = None;
        if self.state.newest().partial_cmp(&lease.version()) == Some(Ordering::Greater) {
            // The Lease has changed since, or the API server returned something else than was written.
            self.state.invalidate();
            self.next = if self.retried_at_once { self.retry() } else { now };
            self.retried_at_once = !self.retried_at_once;
            return;
        }
        self.retried_at_once = false;
        self.state.record_write(now, lease);
        if self.holding.is_none() && !self.state.is_held() {
            tracing::warn!(object = %self.key.logged("Lease"), "Failed to acquire lease, the API server did not store it");
            self.next = self.retry();
            return;
        }
        self.next = later(sent_at, self.config.retry_period);
        match &mut self.holding {
            None => {
                self.holding = Some(Holding {
                    renewed: sent,
                    term: None,
                });
            }
            Some(holding) => {
                holding.renewed = sent;
                if let Some(term) = holding.term
                    && self.fence.extend(term, sent, self.config.renew_deadline)
                {
                    self.health.set_renewed(Some(now));
                }
            }
        }
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        self.step_down();
    }
}

async fn response(
    in_flight: &mut Option<InFlight>,
) -> (RequestKind, Mark, Instant, Result<Value, ClientError>) {
    match in_flight {
        None => std::future::pending().await,
        Some(in_flight) => {
            let response = in_flight.response.as_mut().await;
            (in_flight.kind, in_flight.sent, in_flight.sent_at, response)
        }
    }
}
