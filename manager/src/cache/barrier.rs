//! The barrier of a new leader: it waits until its caches include the last writes of the previous leader.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::informer::Informer;
use super::status::Status;
use super::store::Partition;
use super::{Caches, MetaCache, until, until_some, wire};
use crate::client::{ListQuery, View};
use crate::env::Clock;
use crate::object::{Resource, Version};

/// The time that the watch of an idle resource has to reach a version before a relist.
const WATCH_TIMEOUT: Duration = Duration::from_millis(250);

impl MetaCache {
    /// Waits until the cache has reached `version`. Requests a relist if the watch takes longer than `timeout`. Cancel safe.
    pub async fn reach(&self, version: &Version, timeout: Duration, clock: &Clock) {
        let informer = &self.informer;
        let partitions = informer.partitions().map(|partition| async move {
            // A list that starts later includes everything.
            let lists = informer.lists_started(partition);
            let reached = || informer.has_caught_up(partition, version, lists);
            if clock.timeout(timeout, until(informer, reached)).await.is_none() {
                informer.relist_partition(partition);
                until(informer, reached).await;
            }
        });
        join_all(partitions).await;
    }
}

impl Caches {
    /// Waits until the caches of [`Caches::of`] include all writes before the call. Metadata-only caches are left out: there
    /// may be a thousand, and each write of their controllers is conditional on the object that was read.
    ///
    /// `known` is the last written version by resource, in the format of [`Resource`] (`replicasets.apps`), as the previous
    /// leader left it. For other resources the API server is asked. Returns the resources that are not served or forbidden,
    /// which it does not wait for. Cancel safe.
    pub async fn catch_up(&self, known: &BTreeMap<String, Version>) -> Vec<(Resource, Status)> {
        let informers = self.informers();
        let required = informers.iter().filter(|it| it.is_required());
        let caught_up = required.map(|informer| async move {
            let version = known.get(&informer.resource.to_string());
            let partitions = informer.partitions();
            let partitions =
                partitions.map(|partition| self.catch_up_partition(informer, partition, version.cloned()));
            let statuses = join_all(partitions).await;
            let waiting = statuses.into_iter().flatten().next()?;
            Some((informer.resource.clone(), waiting))
        });
        join_all(caught_up).await.into_iter().flatten().collect()
    }

    /// Requests a list of each cache that has not caught up. It is not synced before, so its controllers wait for it.
    pub fn relist_behind(&self) {
        for informer in self.informers() {
            for partition in informer.behind() {
                informer.relist_partition(partition);
            }
        }
    }

    /// Returns the status if the partition is unavailable, none once it has caught up.
    async fn catch_up_partition(
        &self,
        informer: &Informer,
        partition: Partition,
        version: Option<Version>,
    ) -> Option<Status> {
        // A list that starts later includes everything.
        let lists = informer.lists_started(partition);
        informer.require(partition, version.clone().unwrap_or_default(), lists);
        let target = match version {
            Some(version) => version,
            None => self
                .current_version(informer, partition)
                .await
                .unwrap_or_default(),
        };
        informer.require(partition, target.clone(), lists);
        // Both in one evaluation: the status may change at any time.
        let done = || {
            if informer.has_caught_up(partition, &target, lists) {
                return Some(None);
            }
            let status = informer.status(partition);
            status.is_unavailable().then_some(Some(status))
        };
        let timeout = if target.is_none() {
            Duration::ZERO
        } else {
            WATCH_TIMEOUT
        };
        let clock = &self.env().clock;
        if let Some(status) = clock.timeout(timeout, until_some(informer, done)).await {
            return status;
        }
        informer.relist_partition(partition);
        until_some(informer, done).await
    }

    /// Returns the current resourceVersion on the API server, if it can be read.
    async fn current_version(&self, informer: &Informer, partition: Partition) -> Option<Version> {
        let query = ListQuery {
            label_selector: self.scope().label_selector.clone(),
            limit: 1,
            ..ListQuery::default()
        };
        let namespace = informer.namespace(partition);
        let listed = self
            .client()
            .list(&informer.resource, namespace, &query, View::Metadata)
            .await;
        wire::list_version(&listed.ok()?).ok()
    }
}
