//! The status document. Field names follow the conventions of the Kubernetes API; durations are in seconds.

use jiff::Timestamp;
use serde::Serialize;

use super::history::History;
use crate::cache::CacheSummary;
use crate::controller::{RecentError, Runnable};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document<'a> {
    pub(super) manager: &'a str,
    pub(super) version: &'a str,
    pub(super) time: String,
    pub(super) start_time: String,
    /// The time between two values of a series.
    pub(super) interval_seconds: u64,
    pub(super) leader: Leader,
    /// The checks of `/healthz` that fail.
    pub(super) failing_checks: Vec<FailingCheck>,
    pub(super) controllers: Vec<ControllerEntry<'a>>,
    pub(super) caches: Vec<CacheEntry>,
    /// The resources whose list and watch does not work, or has not worked yet.
    pub(super) unsynced: Vec<String>,
    pub(super) errors: Vec<ErrorEntry<'a>>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leader {
    /// False if the manager runs without election: then it always leads.
    election: bool,
    leading: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    /// The namespace and the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    holder: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    leading_since: Option<String>,
    /// The number of terms of this process.
    terms: u64,
    /// The number of times that the Lease changed its holder.
    transitions: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct FailingCheck {
    pub(super) name: String,
    pub(super) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Running,
    /// Another process leads.
    Standby,
    /// It waits for caches.
    Waiting,
    Yielding,
    Unhealthy,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ControllerEntry<'a> {
    name: &'a str,
    state: State,
    /// The reason of the state, or a remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    queued: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<Oldest>,
    processing: usize,
    /// Since the start of the process, failed ones included.
    processed: u64,
    failed: u64,
    series: History,
}

#[derive(Debug, Serialize)]
struct Oldest {
    object: String,
    seconds: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CacheEntry {
    resource: String,
    version: String,
    kind: String,
    status: String,
    synced: bool,
    /// A controller needs more than its metadata.
    required: bool,
    objects: usize,
    bytes: usize,
    undecodable: usize,
    /// The time since the last event, bookmark or list.
    age_seconds: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ErrorEntry<'a> {
    controller: &'a str,
    object: String,
    message: String,
    count: u64,
    first: String,
    last: String,
}

impl Leader {
    /// Returns the state of a process without election, which always leads.
    pub(crate) fn without_election() -> Self {
        Self {
            leading: true,
            ..Self::default()
        }
    }

    #[cfg(feature = "election")]
    pub(crate) fn of(election: &crate::election::ElectionStatus) -> Self {
        let observed = election.observed();
        Self {
            election: true,
            leading: observed.leading_since.is_some(),
            identity: Some(election.identity().to_owned()),
            lease: Some(election.lease().to_string()),
            holder: observed.holder,
            leading_since: observed.leading_since.map(time),
            terms: observed.terms,
            transitions: observed.transitions,
        }
    }
}

impl<'a> ControllerEntry<'a> {
    pub(super) fn of(
        controller: &'a dyn Runnable,
        running: bool,
        caches: &[CacheSummary],
        history: &History,
    ) -> Self {
        let (state, reason) = state(controller, running, caches);
        let activity = controller.activity();
        Self {
            name: controller.name(),
            state,
            reason,
            queued: activity.queued,
            oldest: activity.oldest.map(|it| Oldest {
                object: it.item.to_string(),
                seconds: it.age.as_secs(),
            }),
            processing: activity.processing,
            processed: activity.processed,
            failed: activity.failed,
            series: history.clone(),
        }
    }
}

fn state(controller: &dyn Runnable, running: bool, caches: &[CacheSummary]) -> (State, Option<String>) {
    if let Err(unhealthy) = controller.health() {
        return (State::Unhealthy, Some(unhealthy.to_string()));
    }
    if let Some(reason) = controller.yields() {
        return (State::Yielding, Some(reason));
    }
    if !running {
        return (State::Standby, None);
    }
    let unsynced = controller.unsynced();
    if unsynced.is_empty() {
        return (State::Running, controller.remark());
    }
    let waits = unsynced.into_iter().map(|name| {
        let cache = caches.iter().find(|it| it.resource.to_string() == name);
        cache.map_or_else(|| name.clone(), |it| format!("{name} ({})", it.status))
    });
    let waits: Vec<_> = waits.collect();
    (State::Waiting, Some(format!("waiting for {}", waits.join(", "))))
}

impl CacheEntry {
    pub(super) fn of(cache: &CacheSummary) -> Self {
        Self {
            resource: cache.resource.to_string(),
            version: cache.resource.version.to_string(),
            kind: cache.resource.kind.to_string(),
            status: cache.status.to_string(),
            synced: cache.synced,
            required: cache.required,
            objects: cache.stats.objects,
            bytes: cache.stats.bytes,
            undecodable: cache.stats.undecodable,
            age_seconds: cache.stats.age.as_secs(),
        }
    }
}

impl<'a> ErrorEntry<'a> {
    pub(super) fn of((controller, error): (&'a str, RecentError)) -> Self {
        Self {
            controller,
            object: error.item.to_string(),
            message: error.message,
            count: error.count,
            first: time(error.first),
            last: time(error.last),
        }
    }
}

/// Formats a time in whole seconds.
pub(super) fn time(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second());
    seconds.unwrap_or(time).to_string()
}
