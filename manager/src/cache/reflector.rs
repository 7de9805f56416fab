//! The reflector lists and watches one partition of a resource, and passes it to the informer.
//!
//! Each list is a quorum read, page by page, and items are decoded while they arrive. A page that arrives too slowly is
//! requested again with fewer objects, and later lists begin with such pages. The watch starts at the version of the list.
//! When a watch ends, it is reopened at the version that was reached. The reflector relists only if changes may have been
//! missed: see [`error`].
//!
//! A cache never goes back in time: a list that is older than the cache is rejected. If [`OLDER_LISTS_MAX`] lists in a row
//! are older, the store of the API server was restored from a backup, and the cache is rebuilt. A watch does not reveal a
//! restore, it only stays idle; so the reflector compares the versions before it reopens a watch that failed. A restore
//! that raised the revision is not visible in any version; so a list that is not older replaces the content of the store,
//! regardless of the versions of its objects.

mod crd;
mod error;

use std::cmp::Ordering;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::crd::CrdWatch;
use self::error::{Recovery, ReflectorError};
use super::informer::{Informer, List, ListStart, Unidentified};
use super::metrics::RelistReason;
use super::status::Status;
use super::store::{Partition, Stale};
use super::wire::{self, Event, RawItem};
use crate::backoff::Backoff;
use crate::client::{ListQuery, Page, Reader, View, WatchQuery, text};
use crate::env::{Env, later};
use crate::object::Version;
use crate::sync::watch;
use crate::trace::{self, Span, SpanKind};

/// The minimum timeout of a watch. The maximum is twice as long, so that the watches of many clients do not end together.
const WATCH_TIMEOUT_MIN: Duration = Duration::from_mins(5);
/// A watch without an event or bookmark for this long is closed. The server sends a bookmark every minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);
/// A watch that the server closes sooner has failed.
const WATCH_MIN: Duration = Duration::from_secs(1);
/// After watches have worked for this long, a relist need not back off.
const HEALTHY: Duration = Duration::from_secs(30);
/// The number of older lists in a row after which the store counts as restored.
const OLDER_LISTS_MAX: u32 = 3;

/// The longest Retry-After of a server that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);
/// The backoff of a resource that is not served ends early if its definition changes, unless it is this short.
const CRD_WATCH_MIN: Duration = Duration::from_millis(250);

/// Lists and watches one partition of a resource.
pub(super) struct Reflector {
    env: Env,
    client: Reader,
    /// Bounds the pages of all reflectors that are read at once.
    lists: Arc<Semaphore>,
    label_selector: String,
    informer: Arc<Informer>,
    partition: Partition,
    /// The representation in the last list, and in the watch that follows it.
    view: View,
    /// The maximum number of objects on the next page of a list.
    page: u32,
    /// None before the first failure.
    backoff: Option<Backoff>,
    /// Watched while the resource is not served, unless only its metadata is cached: the readers of metadata request only
    /// resources that are served.
    crd: Option<CrdWatch>,
    /// The number of lists in a row that were older than the cache.
    older_lists: u32,
    /// The time of the first event after the last list.
    first_event: Option<Instant>,
}

/// The end of a watch that did not fail.
enum End {
    /// The server closed it, as it does after the timeout.
    Closed,
    /// A relist was requested.
    RelistRequested,
}

impl From<Stale> for ReflectorError {
    fn from(stale: Stale) -> Self {
        Self::Older {
            shown: stale.offered,
            reached: stale.reached,
        }
    }
}

impl Reflector {
    pub(super) fn new(
        env: &Env,
        client: &Reader,
        lists: &Arc<Semaphore>,
        label_selector: &str,
        informer: &Arc<Informer>,
        partition: Partition,
    ) -> Self {
        Self {
            env: env.clone(),
            client: client.clone(),
            lists: Arc::clone(lists),
            label_selector: label_selector.to_owned(),
            informer: Arc::clone(informer),
            partition,
            view: informer.view(),
            page: u32::MAX,
            backoff: None,
            crd: CrdWatch::of(&informer.resource),
            older_lists: 0,
            first_event: None,
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        let mut relist_requests = self.informer.relist_requests(self.partition);
        loop {
            let reason = match self.list(&mut relist_requests).await {
                Ok(()) => self.follow(&mut relist_requests).await,
                Err(error) => {
                    self.record(&error);
                    self.back_off(&error).await;
                    error.reason()
                }
            };
            self.informer.counters.relisted(reason);
        }
    }

    /// Lists, and replaces the content of the stores.
    async fn list(&mut self, relist_requests: &mut watch::Receiver<()>) -> Result<(), ReflectorError> {
        let lists = Arc::clone(&self.lists);
        // The semaphore is never closed.
        let mut permit = lists.acquire().await;
        // Later requests are not satisfied by this list.
        relist_requests.mark_unchanged();
        let start = self.informer.start_list(self.partition);
        self.view = start.view;
        let query = list_query(&self.label_selector, start.page);
        let namespace = self.informer.namespace(self.partition);
        let pages = self
            .client
            .pages(&self.informer.resource, namespace, query, start.view);
        let mut pages = pages.starting_with(self.page);
        let mut list = None;
        let version = loop {
            let page = pages.next(|version, item| {
                let item = wire::item(item)?;
                self.accept(&start, &mut list, version)?.add(&item);
                Ok::<_, ReflectorError>(())
            });
            let page = page.await;
            self.page = pages.limit();
            match page? {
                Page::Last(version) => break version,
                Page::More(version) => {
                    self.accept(&start, &mut list, &version)?.end_page();
                    self.informer.record_contact(self.partition);
                    // The other lists take turns with a long one.
                    drop(permit);
                    permit = lists.acquire().await;
                }
                Page::Expired(_) => list = None,
                Page::Smaller(error) => match &mut list {
                    Some(list) if !pages.is_first() => {
                        list.drop_page();
                        drop(permit);
                        let error = error.into();
                        self.record(&error);
                        self.back_off(&error).await;
                        permit = lists.acquire().await;
                    }
                    // There is nothing to continue.
                    _ => return Err(error.into()),
                },
            }
        };
        self.accept(&start, &mut list, &version)?;
        if let Some(list) = list {
            self.older_lists = 0;
            self.first_event = None;
            self.informer.counters.restores.inc_by(list.restored.into());
            self.informer.apply_list(self.partition, &start, list);
        }
        Ok(())
    }

    /// Returns the list in progress. The first page, with this version, begins it.
    fn accept<'a>(
        &mut self,
        start: &ListStart,
        list: &'a mut Option<List>,
        version: &Version,
    ) -> Result<&'a mut List, ReflectorError> {
        if let Some(list) = list {
            return Ok(list);
        }
        let stale = match start.accept(self.partition, version, false) {
            Ok(accepted) => return Ok(list.insert(accepted)),
            Err(stale) => stale,
        };
        self.older_lists += 1;
        self.informer.counters.older_lists.inc();
        if self.older_lists < OLDER_LISTS_MAX {
            return Err(stale.into());
        }
        tracing::error!(
            resource = %self.informer.resource,
            namespace = self.informer.namespace(self.partition),
            version = %stale.offered,
            reached = %stale.reached,
            "Store of the API server was restored, rebuilding cache"
        );
        Ok(list.insert(start.accept(self.partition, version, true)?))
    }

    /// Watches until a relist is due.
    async fn follow(&mut self, relist_requests: &mut watch::Receiver<()>) -> RelistReason {
        let mut in_order = true;
        loop {
            let error = match self.watch(relist_requests, in_order).await {
                Ok(End::Closed) => {
                    in_order = true;
                    continue;
                }
                Ok(End::RelistRequested) => return RelistReason::Requested,
                Err(error) => error,
            };
            if matches!(error, ReflectorError::Idle | ReflectorError::Stalled) {
                self.informer.counters.idle_watches.inc();
            }
            self.record(&error);
            let now = self.env.clock.now();
            let lasted = self.first_event.is_some_and(|at| now >= later(at, HEALTHY));
            let (recovery, backs_off) = error.recovery(lasted);
            if backs_off {
                self.back_off(&error).await;
            } else {
                self.log(&error, Duration::ZERO);
            }
            match recovery {
                Recovery::Relist(reason) => return reason,
                Recovery::Reopen => in_order = false,
            }
        }
    }

    /// Watches once, from the version that the store has reached.
    async fn watch(
        &mut self,
        relist_requests: &mut watch::Receiver<()>,
        in_order: bool,
    ) -> Result<End, ReflectorError> {
        // For example by a projection that was requested during the list.
        if relist_requests.has_changed().unwrap_or(false) {
            return Ok(End::RelistRequested);
        }
        let reached = self.informer.reached(self.partition);
        if !in_order {
            self.check_version(&reached).await?;
        }
        let query = WatchQuery {
            label_selector: self.label_selector.clone(),
            field_selector: String::new(),
            resource_version: reached,
            timeout_seconds: self
                .env
                .rng
                .between(WATCH_TIMEOUT_MIN, 2 * WATCH_TIMEOUT_MIN)
                .as_secs(),
        };
        let namespace = self.informer.namespace(self.partition);
        let opened = self.env.clock.now();
        let mut lines = self
            .client
            .watch(&self.informer.resource, namespace, &query, self.view)
            .await?;
        self.informer.set_watching(self.partition);
        let mut quiet = true;
        loop {
            let line = tokio::select! {
                biased;
                _ = relist_requests.changed() => return Ok(End::RelistRequested),
                line = self.env.clock.timeout(IDLE_TIMEOUT, lines.next()) => line,
            };
            let idle = if quiet && !in_order {
                ReflectorError::Stalled
            } else {
                ReflectorError::Idle
            };
            let Some(line) = line.ok_or(idle)?? else {
                return match self.env.clock.now() - opened < WATCH_MIN {
                    true if quiet => Err(ReflectorError::ClosedAtOnce),
                    true => Err(ReflectorError::ClosedEarly),
                    false => Ok(End::Closed),
                };
            };
            quiet = false;
            let span = self.client.tracer().root("watch event", SpanKind::Consumer);
            let text = text(&line);
            let (informer, partition) = (&self.informer, self.partition);
            let applied = match wire::event(&text)? {
                Event::Error(status) => return Err(ReflectorError::Event(Box::new(status))),
                Event::Put(item) => trace::in_scope(self.describe(span, &text, &item), || {
                    informer.put(partition, &item)
                }),
                Event::Deleted(item) => trace::in_scope(self.describe(span, &text, &item), || {
                    informer.remove(partition, &item)
                }),
                Event::Bookmark(version) => {
                    informer.bookmark(partition, &version);
                    Ok(())
                }
            };
            applied.map_err(|Unidentified| ReflectorError::Unidentified)?;
            self.first_event.get_or_insert_with(|| self.env.clock.now());
        }
    }

    /// Adds the attributes of an event to its span, which ends when the event enqueues a key.
    fn describe(&self, span: Option<Span>, text: &str, item: &RawItem<'_>) -> Option<Span> {
        let span = span?;
        span.set("resource", self.informer.resource.to_string());
        span.set("eventType", wire::event_type(text));
        if let Some(identity) = &item.identity {
            span.set("namespace", &*identity.namespace);
            span.set("name", &*identity.name);
            span.set("resourceVersion", identity.version.to_string());
        }
        Some(span)
    }

    /// Fails if the API server is behind the cache.
    async fn check_version(&self, reached: &Version) -> Result<(), ReflectorError> {
        let namespace = self.informer.namespace(self.partition);
        let query = list_query(&self.label_selector, 1);
        let page = self
            .client
            .list(&self.informer.resource, namespace, &query, self.view);
        let shown = wire::list_version(&page.await?)?;
        if is_older(&shown, reached) {
            return Err(ReflectorError::Older {
                shown,
                reached: reached.clone(),
            });
        }
        Ok(())
    }

    /// Counts the failure, unless the resource is not served.
    fn record(&self, error: &ReflectorError) {
        if !error.is_unserved() {
            self.informer.record_failure();
        }
    }

    /// Logs the failure, and waits before the next attempt.
    async fn back_off(&mut self, error: &ReflectorError) {
        let delay = self.delay(error);
        let clock = &self.env.clock;
        self.log(error, delay);
        self.informer.set_status(self.partition, error.status());
        if error.is_unserved() {
            self.informer.set_unserved(self.partition);
        }
        let watches = error.is_unserved() && delay > CRD_WATCH_MIN && self.informer.view() == View::Full;
        let Some(crd) = self.crd.as_mut().filter(|_| watches) else {
            return clock.sleep(delay).await;
        };
        tokio::select! {
            biased;
            () = clock.sleep(delay) => return,
            () = crd.changed(&self.env, &self.client, delay) => {}
        }
        // The server may take a moment to serve the resource.
        self.backoff = None;
        let soon = self.delay(error);
        self.env.clock.sleep(soon).await;
    }

    fn delay(&mut self, error: &ReflectorError) -> Duration {
        let Env { clock, rng, .. } = &self.env;
        let now = clock.now();
        let backoff = match &mut self.backoff {
            Some(backoff) if !backoff.is_healthy(now) => backoff,
            other => other.insert(error.backoff()),
        };
        backoff.next_at_least(error.retry_after(), RETRY_AFTER_MAX, now, rng)
    }

    /// Logs the first failure of a series as a warning.
    fn log(&self, error: &ReflectorError, delay: Duration) {
        let resource = &self.informer.resource;
        let namespace = self.informer.namespace(self.partition);
        let is_new = matches!(
            self.informer.status(self.partition),
            Status::Syncing | Status::Synced
        );
        if is_new && !delay.is_zero() {
            tracing::warn!(%resource, namespace, %error, delayMs = delay.as_millis(), "Watch failed, cache is stale");
        } else {
            tracing::debug!(%resource, namespace, %error, delayMs = delay.as_millis(), "Retrying list and watch");
        }
    }
}

fn list_query(label_selector: &str, limit: u32) -> ListQuery {
    ListQuery {
        label_selector: label_selector.to_owned(),
        limit,
        ..ListQuery::default()
    }
}

fn is_older(version: &Version, reached: &Version) -> bool {
    version.partial_cmp(reached) == Some(Ordering::Less)
}
