//! The barrier that a new leader passes before it acts: its caches may be behind the last writes of the one before it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::shared::AnyCache;
use super::status::Status;
use super::{Caches, MetaCache, until, until_some, wire};
use crate::client::{ListQuery, View};
use crate::env::Clock;
use crate::object::{Resource, Version};

/// What an idle kind may take to show a version that others have moved on; then it is listed.
const PATIENCE: Duration = Duration::from_millis(250);

impl MetaCache {
    /// Resolves when it shows everything up to `version`: by itself, or, if that takes longer than `patience`, from a list that
    /// is read for it. Cancel safe.
    pub async fn reach(&self, version: &Version, patience: Duration, clock: &Clock) {
        let cache = &self.0;
        let feeds = (0..cache.namespaces().len()).map(|feed| async move {
            // A list that is begun from now on shows all.
            let lists = cache.begun(feed);
            let reached = || cache.has_caught_up(feed, version, lists);
            if clock.timeout(patience, until(&**cache, reached)).await.is_none() {
                cache.relist_feed(feed);
                until(&**cache, reached).await;
            }
        });
        join_all(feeds).await;
    }
}

impl Caches {
    /// Resolves when all caches that were asked for by their projection so far show everything that was written before the
    /// call. The others, of metadata only, are left out: there may be a thousand, and their readers write nothing that does
    /// not depend on what was read.
    ///
    /// `known` has the last written version by resource, as [`Resource`] is displayed (`replicasets.apps`), if the former
    /// leader has left it; for other resources the API server is asked. The kinds that are not served, or not to us, are
    /// returned: they are not waited for. Cancel safe.
    pub async fn catch_up(&self, known: &BTreeMap<String, Version>) -> Vec<(Resource, Status)> {
        let needed: Vec<_> = self.kept().into_iter().filter(|(_, needed)| *needed).collect();
        let caught_up = needed.iter().map(|(cache, _)| async move {
            let version = known.get(&cache.resource().to_string());
            let feeds = 0..cache.namespaces().len();
            let feeds = feeds.map(|feed| self.catch_up_feed(cache, feed, version.cloned()));
            let statuses = join_all(feeds).await;
            let waiting = statuses.into_iter().flatten().next()?;
            Some((cache.resource().clone(), waiting))
        });
        join_all(caught_up).await.into_iter().flatten().collect()
    }

    /// The status of a feed that is not waited for.
    async fn catch_up_feed(
        &self,
        cache: &Arc<dyn AnyCache>,
        feed: usize,
        version: Option<Version>,
    ) -> Option<Status> {
        // A list that is begun from now on shows all.
        let lists = cache.begun(feed);
        let target = match version {
            Some(version) => version,
            None => self.present_version(cache, feed).await.unwrap_or_default(),
        };
        // Looked at once: a status may change at any time, and with it what was waited for.
        let verdict = || {
            if cache.has_caught_up(feed, &target, lists) {
                return Some(None);
            }
            let status = cache.status(feed);
            status.is_waiting().then_some(Some(status))
        };
        let patience = if target.is_none() {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let clock = &self.env().clock;
        if let Some(verdict) = clock.timeout(patience, until_some(&**cache, verdict)).await {
            return verdict;
        }
        cache.relist_feed(feed);
        until_some(&**cache, verdict).await
    }

    /// The version of the present state; none if it is not to be had.
    async fn present_version(&self, cache: &Arc<dyn AnyCache>, feed: usize) -> Option<Version> {
        let query = ListQuery {
            label_selector: self.scope().label_selector.clone(),
            limit: 1,
            ..ListQuery::default()
        };
        let namespace = &cache.namespaces()[feed];
        let listed = self
            .client()
            .list(cache.resource(), namespace, &query, View::Metadata)
            .await;
        wire::list_version(&listed.ok()?).ok()
    }
}
