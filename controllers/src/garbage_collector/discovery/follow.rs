//! Schedules the rounds of discovery, and publishes their results.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use steersman_manager::backoff::Backoff;
use steersman_manager::cache::Caches;
use steersman_manager::client::Reader;
use steersman_manager::env::{Env, later};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Discovery;
use super::documents::{Documents, Root};
use super::publisher::Publisher;
use super::round::{DecodedRoots, Round};
use super::trigger::Triggers;

/// The time between two rounds when nothing changes.
const INTERVAL: Duration = Duration::from_secs(30);
/// The minimum time from the start of a round to the start of the next one.
const MIN_SPACING: Duration = Duration::from_millis(500);
/// The delays after incomplete rounds: from 250 ms at most to [`INTERVAL`] at most.
const RETRY: Backoff = Backoff::exponential(Duration::from_millis(200), Duration::from_secs(24)).jitter(0.25);
/// The time for which a resource that is defined but not listed keeps its last description.
const LOST_MAX: Duration = Duration::from_mins(1);
/// The time after which an unfinished round publishes the answers that have arrived.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Follower {
    env: Env,
    caches: Caches,
    client: Reader,
    refresh: Arc<Notify>,
    sync_errors: IntCounter,
    publisher: Publisher,
    triggers: Triggers,
    /// The latest documents; parts that could not be read keep their last description.
    documents: Documents,
    round: Option<Round>,
    /// The last decoded document of each root.
    decoded: DecodedRoots,
    /// The round has exceeded [`GRACE`].
    late: bool,
    /// Something changed after the round started.
    again: bool,
    started: Option<Instant>,
    next: Instant,
    retry: Backoff,
    /// The parts that failed in the last round.
    failed: BTreeSet<String>,
    /// Since when the documents have not listed a resource that is still defined.
    lost: Option<Instant>,
}

impl Follower {
    pub(super) fn new(
        env: &Env,
        caches: &Caches,
        client: Reader,
        discovery: &Discovery,
        publisher: Publisher,
    ) -> Self {
        Self {
            env: env.clone(),
            caches: caches.clone(),
            client,
            refresh: Arc::clone(&discovery.refresh),
            sync_errors: discovery.sync_errors.clone(),
            publisher,
            triggers: Triggers::default(),
            documents: Documents::default(),
            round: None,
            decoded: DecodedRoots::new(),
            late: false,
            again: false,
            started: None,
            next: env.clock.now(),
            retry: RETRY,
            failed: BTreeSet::new(),
            lost: None,
        }
    }

    pub(super) async fn run(mut self) {
        let clock = self.env.clock.clone();
        let refresh = Arc::clone(&self.refresh);
        loop {
            let alarm = match &self.round {
                None => self.next,
                Some(round) if !self.late => later(round.started(), GRACE),
                // Its requests time out.
                Some(_) => clock.after(INTERVAL),
            };
            tokio::select! {
                biased;
                changed = self.triggers.changed() => if changed || self.triggers.lags(&self.documents) {
                    self.hurry();
                },
                () = refresh.notified() => self.hurry(),
                more = step(&mut self.round) => match more {
                    true if self.late => self.apply(),
                    true => {}
                    false => self.finish(),
                },
                () = clock.sleep_until(alarm) => self.on_time(),
            }
        }
    }

    fn on_time(&mut self) {
        let now = self.env.clock.now();
        if self.round.is_some() {
            self.late = true;
            if self.again {
                self.finish();
            } else {
                self.apply();
            }
        } else if now >= self.next {
            let suspects = std::mem::take(&mut self.failed);
            let decoded = std::mem::take(&mut self.decoded);
            self.round = Some(Round::start(&self.env, &self.client, suspects, decoded));
            self.started = Some(now);
            (self.late, self.again) = (false, false);
        }
    }

    /// Begins a round as soon as the spacing allows. A part that hangs does not delay it.
    fn hurry(&mut self) {
        self.retry.reset();
        self.again = true;
        if self.late || self.round.is_none() {
            self.finish();
            self.soon();
        }
    }

    fn soon(&mut self) {
        let now = self.env.clock.now();
        let soon = self.started.map_or(now, |started| later(started, MIN_SPACING));
        self.next = self.next.min(soon.max(now));
    }

    /// Publishes the answers of the round so far.
    fn apply(&mut self) {
        let Some(round) = &self.round else { return };
        let mut documents = round.answers().documents.clone();
        documents.keep(&self.documents);
        let mut kept = documents.clone();
        let defines = |group: &str, version: &str, plural: &str| {
            self.triggers.define(&documents, group, version, plural)
        };
        if kept.keep_defined(&self.documents, defines) {
            let now = self.env.clock.now();
            if now < later(*self.lost.get_or_insert(now), LOST_MAX) {
                documents = kept;
            }
        } else {
            self.lost = None;
        }
        self.documents = documents;
        if self.documents.has_both_roots() {
            self.publisher.publish(self.documents.kinds());
        }
        self.triggers.follow(&self.documents, &self.caches);
    }

    /// Ends the round; parts without an answer count as failed.
    fn finish(&mut self) {
        self.apply();
        let Some(round) = self.round.take() else { return };
        self.late = false;
        let mut failed = round.failed();
        if Root::ALL.iter().any(|root| failed.contains_key(root.path())) {
            self.sync_errors.inc();
        }
        self.failed = failed.keys().cloned().collect();
        let complete = failed.is_empty() && !self.triggers.lags(&self.documents);
        let Env { clock, rng, .. } = &self.env;
        let delay = if complete {
            self.retry.reset();
            rng.between(INTERVAL * 4 / 5, INTERVAL)
        } else {
            self.retry.next(clock.now(), rng)
        };
        self.next = clock.after(delay);
        failed.extend(round.answers().skipped.clone());
        self.decoded = round.into_decoded();
        self.publisher.set_problems(failed, self.env.clock.wall());
        if self.again {
            self.soon();
        }
    }
}

/// Waits for one more answer of the round, if there is one.
async fn step(round: &mut Option<Round>) -> bool {
    match round {
        Some(round) => round.step().await,
        None => std::future::pending().await,
    }
}
