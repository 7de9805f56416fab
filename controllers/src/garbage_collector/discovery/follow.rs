//! Who looks: reads the documents when it is time, hears of CRDs and `APIService`s, and tells what has come of it.

use std::time::Duration;

use coxswain_manager::cache::{Cache, Caches, Delta, Status, Subscription};
use coxswain_manager::client::Client;
use coxswain_manager::env::{Env, later};
use prometheus::IntCounter;
use tokio::time::Instant;

use super::board::Board;
use super::definition::{DEFINITIONS, Definition, Definitions, defined};
use super::documents::{Documents, group_version};
use super::former::Former;
use super::merge::merge;
use super::registration::{REGISTRATIONS, Registration};
use super::round::Round;

/// How often the documents are read in any case.
const INTERVAL: Duration = Duration::from_mins(10);
/// From one reading to the next, at least.
const LEAST: Duration = Duration::from_secs(1);
/// How long to wait after one that was not complete, the first time and at most, before chance.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(48);
/// What has come of a reading after this long is told, whatever is still missing.
const GRACE: Duration = Duration::from_secs(1);
/// How long the first kinds are held back so that CRDs are known as such.
const SETTLE: Duration = Duration::from_secs(1);
/// How often it is looked whether they are, and later on whether that has changed: changes of a status are not announced.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Who looks.
pub(super) struct Follower {
    env: Env,
    caches: Caches,
    client: Client,
    incomplete: IntCounter,
    board: Board,
    definitions: Cache<Definition>,
    defined: Subscription<Definition>,
    /// None until it is known that there are any: some servers have none.
    registrations: Option<(Cache<Registration>, Subscription<Registration>)>,
    /// The documents as they were last read, with what could not be read as it was before.
    documents: Documents,
    former: Former,
    round: Option<Round>,
    /// What the round under way has come to is told as it comes.
    late: bool,
    /// The round under way may have missed something.
    again: bool,
    /// When the last round was begun.
    begun: Option<Instant>,
    /// When the next round is begun, if none is under way.
    next: Instant,
    /// The wait before that, if it is one after a failure.
    wait: Option<Duration>,
    /// What failed in the last round.
    failed: Vec<String>,
    /// When the first kinds are told, with or without CRDs; none before the first documents.
    settled: Option<Instant>,
    /// Whether CRDs were trusted when kinds were last told.
    trusted: bool,
}

impl Follower {
    pub(super) fn new(
        env: &Env,
        caches: &Caches,
        client: Client,
        incomplete: IntCounter,
        board: Board,
    ) -> Self {
        let definitions = caches.of::<Definition>(&DEFINITIONS);
        Self {
            env: env.clone(),
            caches: caches.clone(),
            client,
            incomplete,
            board,
            defined: definitions.subscribe(),
            definitions,
            registrations: None,
            documents: Documents::default(),
            former: Former::default(),
            round: None,
            late: false,
            again: false,
            begun: None,
            next: env.clock.now(),
            wait: None,
            failed: Vec::new(),
            settled: None,
            trusted: false,
        }
    }

    /// Looks for as long as there are caches.
    pub(super) async fn run(mut self) {
        let clock = self.env.clock.clone();
        loop {
            let alarm = self.alarm();
            tokio::select! {
                biased;
                change = self.defined.next() => {
                    if change.is_none() {
                        return;
                    }
                    // All that changed together is told together.
                    while self.defined.try_next().is_some() {}
                    self.tell();
                }
                change = registered(&mut self.registrations) => match change {
                    None => return,
                    Some(change) => if self.concerns(&change) {
                        self.hurry();
                    },
                },
                more = step(&mut self.round) => match more {
                    true if self.late => self.apply(),
                    true => {}
                    false => self.finish(),
                },
                () = clock.sleep_until(alarm) => self.on_time(),
            }
        }
    }

    /// When there is something to do though nothing happens.
    fn alarm(&self) -> Instant {
        let now = self.env.clock.now();
        let round = match &self.round {
            None => self.next,
            Some(round) if !self.late => later(round.begun(), GRACE),
            Some(_) => later(now, LOOK_AGAIN),
        };
        let is_held_back = self.settled.is_some() && self.board.is_empty();
        round.min(later(now, if is_held_back { LOOK } else { LOOK_AGAIN }))
    }

    fn on_time(&mut self) {
        let now = self.env.clock.now();
        match &self.round {
            None if now >= self.next => {
                self.round = Some(Round::begin(
                    &self.env,
                    &self.client,
                    self.failed.drain(..).collect(),
                ));
                self.begun = Some(now);
                (self.late, self.again) = (false, false);
            }
            Some(round) if !self.late && now >= later(round.begun(), GRACE) => {
                self.late = true;
                self.apply();
            }
            _ => {}
        }
        let (before, trusted) = (self.trusted, self.is_trusted());
        if self.board.is_empty() || before != trusted {
            self.tell();
        }
        if before && !trusted {
            // From now on the documents are all there is.
            self.hurry();
        }
    }

    /// Reads the documents soon.
    fn hurry(&mut self) {
        let now = self.env.clock.now();
        let soon = self.begun.map_or(now, |begun| later(begun, LEAST));
        self.next = self.next.min(soon.max(now));
        self.again = true;
    }

    /// Takes what the round under way has come to so far.
    fn apply(&mut self) {
        let Some(round) = &self.round else { return };
        let mut documents = round.answers().documents.clone();
        documents.keep(&self.documents);
        self.former.correct(&mut documents, round.begun());
        self.documents = documents;
        if self.settled.is_none() && self.documents.is_known() {
            self.settled = Some(self.env.clock.after(SETTLE));
        }
        self.tell();
        if self.registrations.is_none() && self.documents.serves(&REGISTRATIONS) {
            let cache = self.caches.of::<Registration>(&REGISTRATIONS);
            let subscription = cache.subscribe();
            self.registrations = Some((cache, subscription));
        }
    }

    /// The round is over.
    fn finish(&mut self) {
        self.apply();
        let Some(round) = self.round.take() else { return };
        let now = self.env.clock.now();
        let mut wrong = round.answers().failed.clone();
        for missing in self.expected() {
            let why = "its APIService is available, but it is not listed".to_owned();
            wrong.entry(missing).or_insert(why);
        }
        self.failed = wrong.keys().cloned().collect();
        if wrong.is_empty() {
            self.wait = None;
            self.next = later(now, INTERVAL);
        } else {
            self.incomplete.inc();
            let wait = self.wait.map_or(FIRST_WAIT, |wait| LAST_WAIT.min(2 * wait));
            self.wait = Some(wait);
            self.next = later(now, self.env.rng.between(wait, wait + wait / 4));
        }
        wrong.extend(round.answers().skipped.clone());
        self.board.complain(wrong, self.env.clock.wall());
        if self.again {
            self.hurry();
        }
    }

    /// Tells the kinds as they are known now.
    fn tell(&mut self) {
        self.trusted = self.is_trusted();
        let defined: Option<Definitions> = self.trusted.then(|| defined(&self.definitions.all()));
        if let Some(defined) = &defined {
            let now = self.env.clock.now();
            self.former.see(defined, &mut self.documents, now);
        }
        if self.settled.is_none() {
            return;
        }
        let undecided = self.definitions.status() == Status::Filling
            && self.settled.is_some_and(|settled| self.env.clock.now() < settled);
        if self.board.is_empty() && undecided {
            return;
        }
        self.board.tell(merge(&self.documents, defined.as_ref()));
    }

    /// Whether it is known what is defined, well enough to doubt the documents.
    fn is_trusted(&self) -> bool {
        let definitions = &self.definitions;
        definitions.is_whole() && definitions.is_synced() && !definitions.status().is_waiting()
    }

    /// Whether the documents may be about to change. What is served by the API server itself is built in, or from a CRD.
    fn concerns(&self, change: &Delta<Registration>) -> bool {
        let it = change.latest();
        if !self.is_of_interest(it) {
            return false;
        }
        match change {
            // It was there before, maybe before the documents were read.
            Delta::Added { initial: true, .. } => !self.documents.lists(it.group(), it.version()),
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => {
                let told = |it: &Registration| (it.is_remote(), it.is_available());
                told(old) != told(new)
            }
        }
    }

    fn is_of_interest(&self, it: &Registration) -> bool {
        it.is_remote() || !self.is_trusted()
    }

    /// The versions that should be listed, and are not.
    fn expected(&self) -> Vec<String> {
        let registrations = self.registrations.iter().flat_map(|(cache, _)| cache.all());
        registrations
            .filter(|it| it.is_available() && self.is_of_interest(it))
            .filter(|it| !self.documents.lists(it.group(), it.version()))
            .map(|it| group_version(it.group(), it.version()))
            .collect()
    }
}

/// The next change of an `APIService`; none if the caches are gone.
async fn registered(
    registrations: &mut Option<(Cache<Registration>, Subscription<Registration>)>,
) -> Option<Delta<Registration>> {
    match registrations {
        Some((_, subscription)) => subscription.next().await,
        None => std::future::pending().await,
    }
}

/// One more answer of a round; false if there is none to come.
async fn step(round: &mut Option<Round>) -> bool {
    match round {
        Some(round) => round.step().await,
        None => std::future::pending().await,
    }
}
