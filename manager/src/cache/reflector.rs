//! From the API server to the store: one feed.
//!
//! It lists, page by page, always the present state confirmed by a majority of the store and never a cached one; then it
//! watches from the version of the list. A watch that ends is opened again where it ended; a list is read again only if
//! changes may have been missed. What went wrong and what is done about it is in `problem`.
//!
//! A view never goes back: a list older than what was seen is refused. If the API insists ([`INSISTS`] lists in a row),
//! its store was restored from a backup, and the cache starts over. A watch would not show that, it would only stay
//! silent: so one that did not end in order is opened again only after a look at the present version. A restore that
//! raised the revision shows in no version: so a list that is not older replaces the store, whatever its objects' versions.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::definition::Definition;
use super::item::Item;
use super::problem::{Problem, Reason, Then};
use super::shared::{AnyCache as _, Shared, Unreadable};
use super::status::Status;
use super::wire::{self, Event};
use crate::backoff::Backoff;
use crate::client::{Client, ListQuery, View, WatchQuery};
use crate::env::{Env, later};
use crate::object::{Object, Version};

/// The server ends a watch after a time from here to twice as long, so that those of many clients do not end together.
const WATCH: Duration = Duration::from_mins(5);
/// A watch on which nothing came for this long, although bookmarks come every minute, may be dead.
const SILENCE: Duration = Duration::from_secs(150);
/// A watch that ends this soon did not work; one without an event may have missed some.
const QUICK: Duration = Duration::from_secs(1);
/// A list that was good for this long may be read again at once.
const LASTING: Duration = Duration::from_secs(30);
/// After how many lists in a row that are older than what was seen these are believed.
const INSISTS: u32 = 3;

/// The longest Retry-After of a server that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// A wait for a kind that is not served ends early if its definition changes, unless it is this short anyway.
const SHORT: Duration = Duration::from_millis(250);

/// What it takes to follow one feed.
pub(super) struct Reflector<T: Object> {
    env: Env,
    client: Client,
    view: View,
    label_selector: String,
    shared: Arc<Shared<T>>,
    /// The number of the feed.
    feed: usize,
    /// None before the first failure.
    backoff: Option<Backoff>,
    /// Where to see that the kind may be served from now on. Who reads metadata only asks for kinds that are served.
    definition: Option<Definition>,
    /// How many lists in a row were older than what was seen.
    older: u32,
    /// When something first came on a watch after the last list.
    heard: Option<Instant>,
}

/// Why a watch is over that did not fail.
enum End {
    /// The server has ended it, as it does from time to time.
    Closed,
    /// A list is wanted.
    Asked,
}

impl<T: Object> Reflector<T> {
    pub(super) fn new(
        env: &Env,
        client: &Client,
        view: View,
        label_selector: &str,
        shared: &Arc<Shared<T>>,
        feed: usize,
    ) -> Self {
        Self {
            env: env.clone(),
            client: client.clone(),
            view,
            label_selector: label_selector.to_owned(),
            shared: Arc::clone(shared),
            feed,
            backoff: None,
            definition: Definition::of(&shared.resource).filter(|_| view == View::Full),
            older: 0,
            heard: None,
        }
    }

    /// Follows the feed for ever.
    pub(super) async fn run(mut self) -> Infallible {
        let mut asked = self.shared.asked(self.feed);
        loop {
            // Whoever asks from now on wants a later list than this one.
            asked.mark_unchanged();
            let reason = match self.list().await {
                Ok(()) => self.follow(&mut asked).await,
                Err(problem) => {
                    self.rest(&problem).await;
                    problem.reason()
                }
            };
            self.shared.meter.relisted(reason);
        }
    }

    /// Reads a list into the store.
    async fn list(&mut self) -> Result<(), Problem> {
        let begun = self.shared.begin_list(self.feed);
        let (version, items) = self.pages().await?;
        let reached = self.shared.reached(self.feed);
        let mut restored = false;
        if is_older(&version, &reached) {
            self.older += 1;
            self.shared.meter.refused.inc();
            restored = self.older >= INSISTS;
            if !restored {
                return Err(Problem::Older {
                    shown: version,
                    reached,
                });
            }
            tracing::error!(
                resource = %self.shared.resource,
                namespace = self.shared.namespace(self.feed),
                %version,
                %reached,
                "The API server's store was restored: the cache starts over"
            );
            self.shared.meter.restored.inc();
        }
        self.older = 0;
        self.heard = None;
        self.shared.replace(self.feed, items, version, begun, restored);
        Ok(())
    }

    /// Reads all pages of one list.
    async fn pages(&self) -> Result<(Version, Vec<Item<T>>), Problem> {
        type Listed<T> = (Option<Version>, Vec<Item<T>>);
        let add = |(version, items): &mut Listed<T>, body: &[u8]| {
            let page = wire::page(body)?;
            // The version is that of the first page: the watch shows later changes.
            version.get_or_insert(page.version);
            items.extend(page.items);
            Ok::<_, Problem>(page.continue_token)
        };
        let namespace = self.shared.namespace(self.feed);
        let query = self.query(T::PAGE);
        let pages = self
            .client
            .list_pages(&self.shared.resource, namespace, query, self.view, add);
        let (version, items) = pages.await?;
        Ok((version.unwrap_or_default(), items))
    }

    fn query(&self, limit: u32) -> ListQuery {
        ListQuery {
            label_selector: self.label_selector.clone(),
            limit,
            ..ListQuery::default()
        }
    }

    /// Watches until a list is needed.
    async fn follow(&mut self, asked: &mut watch::Receiver<()>) -> Reason {
        let mut in_order = true;
        loop {
            let problem = match self.watch(asked, in_order).await {
                Ok(End::Closed) => {
                    in_order = true;
                    continue;
                }
                Ok(End::Asked) => return Reason::Asked,
                Err(problem) => problem,
            };
            if matches!(problem, Problem::Silent | Problem::Stalled) {
                self.shared.meter.silent.inc();
            }
            let now = self.env.clock.now();
            let lasted = self.heard.is_some_and(|heard| now >= later(heard, LASTING));
            let (then, wait) = problem.remedy(lasted);
            if wait {
                self.rest(&problem).await;
            } else {
                self.log(&problem, Duration::ZERO);
            }
            match then {
                Then::Relist(reason) => return reason,
                Then::Reopen => in_order = false,
            }
        }
    }

    /// One watch, from where the store is.
    async fn watch(&mut self, asked: &mut watch::Receiver<()>, in_order: bool) -> Result<End, Problem> {
        let reached = self.shared.reached(self.feed);
        if !in_order {
            self.look(&reached).await?;
        }
        let query = WatchQuery {
            label_selector: self.label_selector.clone(),
            field_selector: String::new(),
            resource_version: reached,
            timeout_seconds: self.env.rng.between(WATCH, 2 * WATCH).as_secs(),
        };
        let namespace = self.shared.namespace(self.feed);
        let opened = self.env.clock.now();
        let mut lines = self
            .client
            .watch(&self.shared.resource, namespace, &query, self.view)
            .await?;
        self.shared.set_status(self.feed, Status::Synced);
        let mut quiet = true;
        loop {
            let line = tokio::select! {
                biased;
                _ = asked.changed() => return Ok(End::Asked),
                line = self.env.clock.timeout(SILENCE, lines.next()) => line,
            };
            let silent = if quiet && !in_order {
                Problem::Stalled
            } else {
                Problem::Silent
            };
            let Some(line) = line.ok_or(silent)?? else {
                return match self.env.clock.now() - opened < QUICK {
                    true if quiet => Err(Problem::Quick),
                    true => Err(Problem::Brief),
                    false => Ok(End::Closed),
                };
            };
            quiet = false;
            let applied = match wire::event(&line)? {
                Event::Error(status) => return Err(Problem::Event(Box::new(status))),
                Event::Put(item) => self.shared.put(self.feed, item),
                Event::Deleted(item) => self.shared.remove(self.feed, item),
                Event::Bookmark(version) => self.shared.bookmark(self.feed, version),
            };
            applied.map_err(|Unreadable| Problem::Unreadable)?;
            self.heard.get_or_insert_with(|| self.env.clock.now());
        }
    }

    /// Makes sure that the API is not behind what was seen.
    async fn look(&self, reached: &Version) -> Result<(), Problem> {
        let namespace = self.shared.namespace(self.feed);
        let query = self.query(1);
        let page = self
            .client
            .list(&self.shared.resource, namespace, &query, self.view);
        let shown = wire::list_version(&page.await?)?;
        if is_older(&shown, reached) {
            return Err(Problem::Older {
                shown,
                reached: reached.clone(),
            });
        }
        Ok(())
    }

    /// Says what is wrong, and waits before the next try.
    async fn rest(&mut self, problem: &Problem) {
        let wait = self.delay(problem);
        let clock = &self.env.clock;
        self.log(problem, wait);
        self.shared.set_status(self.feed, problem.status());
        if problem.is_unknown() {
            self.shared.set_unknown(self.feed);
        }
        let long = problem.is_unknown() && wait > SHORT;
        let Some(definition) = self.definition.as_mut().filter(|_| long) else {
            return clock.sleep(wait).await;
        };
        tokio::select! {
            biased;
            () = clock.sleep(wait) => return,
            () = definition.changed(&self.env, &self.client, wait) => {}
        }
        // It may take a moment, from the word to the deed.
        self.backoff = None;
        let soon = self.delay(problem);
        self.env.clock.sleep(soon).await;
    }

    fn delay(&mut self, problem: &Problem) -> Duration {
        let Env { clock, rng, .. } = &self.env;
        let now = clock.now();
        let backoff = match &mut self.backoff {
            Some(backoff) if !backoff.is_healthy(now) => backoff,
            other => other.insert(problem.backoff()),
        };
        backoff.next_at_least(problem.retry_after(), RETRY_AFTER_MAX, now, rng)
    }

    /// Loud when it begins, quiet while it goes on.
    fn log(&self, problem: &Problem, wait: Duration) {
        let resource = &self.shared.resource;
        let namespace = self.shared.namespace(self.feed);
        let is_new = matches!(self.shared.status(self.feed), Status::Filling | Status::Synced);
        if is_new && !wait.is_zero() {
            tracing::warn!(%resource, namespace, error = %problem, wait_ms = wait.as_millis(), "A cache does not follow the API server");
        } else {
            tracing::debug!(%resource, namespace, error = %problem, wait_ms = wait.as_millis(), "A cache tries again");
        }
    }
}

fn is_older(version: &Version, reached: &Version) -> bool {
    version.partial_cmp(reached) == Some(Ordering::Less)
}
