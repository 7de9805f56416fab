//! One term of leadership: catch up with the previous leader, run the controllers, stop them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerError};
use crate::cache::CachePositions as _;
use crate::client::{Takeover, Term};
use crate::controller::{Fatal, Runnable};
use crate::object::Version;

/// The time for the caches to catch up with the previous leader. Then only the controllers of the other caches wait: one resource must
/// not block all of them.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval of logging controllers that have not stopped, if there is no shutdown timeout.
const SHUTDOWN_LOG_INTERVAL: Duration = Duration::from_secs(5);

type Ended = Result<(String, Result<(), Fatal>), JoinError>;

impl Manager {
    /// Leads in `term` until it ends or `stop`. Returns the versions that a successor must observe; none if they are
    /// unknown, because the term ended before the caches caught up.
    pub(super) async fn lead(
        &self,
        term: Term,
        takeover: &Takeover,
        stop: &CancellationToken,
    ) -> Result<Option<BTreeMap<String, String>>, ManagerError> {
        let known = match takeover {
            Takeover::Clean(versions) => versions
                .iter()
                .map(|(resource, version)| (resource.clone(), Version::from(version.as_str())))
                .collect(),
            Takeover::Unclean => BTreeMap::new(),
        };
        let caught_up = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.fence.closed(term) => false,
            () = self.catch_up(&known) => true,
        };
        if !caught_up {
            // The successor must observe what this leader did not.
            return Ok(match takeover {
                Takeover::Clean(versions) => Some(versions.clone()),
                Takeover::Unclean => None,
            });
        }
        let mut seen = self.cache_versions();
        raise(&mut seen, known);
        let stopping = stop.child_token();
        let mut controllers = self.start(term, &stopping);
        let failed = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = self.fence.closed(term) => None,
            failed = first_failure(&mut controllers) => Some(failed),
        };
        // Workers finish the writes in flight and start no others.
        self.fence.drain(term);
        stopping.cancel();
        if let Some(error) = failed {
            return Err(error);
        }
        self.drain(controllers).await?;
        let ledger = self.transport.write_tracker();
        raise(&mut seen, ledger.written());
        // A version that does not cover every write is worse than none: without one the successor reads it live.
        let unversioned = ledger.unversioned();
        seen.retain(|resource, _| !unversioned.contains(resource));
        self.retain_needed(&mut seen);
        let versions = seen.into_iter();
        let versions = versions.map(|(resource, version)| (resource, version.to_string()));
        Ok(Some(versions.collect()))
    }

    async fn catch_up(&self, known: &BTreeMap<String, Version>) {
        let caught_up = self
            .env
            .clock
            .timeout(CATCH_UP_TIMEOUT, self.caches.catch_up(known));
        let Some(missing) = caught_up.await else {
            tracing::warn!("Controllers wait for caches that have not caught up with the previous leader");
            self.caches.relist_behind();
            return;
        };
        for (resource, status) in missing {
            tracing::info!(%resource, %status, "Starting without unreadable resource");
        }
    }

    fn start(&self, term: Term, stop: &CancellationToken) -> JoinSet<(String, Result<(), Fatal>)> {
        let interval = self.options.start_interval;
        let mut running = JoinSet::new();
        for controller in &self.controllers {
            let delay = match interval {
                Duration::ZERO => Duration::ZERO,
                interval => self.env.rng.between(interval, 2 * interval),
            };
            let (clock, fence) = (self.env.clock.clone(), self.fence.clone());
            let (controller, stop) = (controller.clone(), stop.clone());
            let state = self.states.of(controller.name());
            running.spawn(async move {
                let name = controller.name().to_owned();
                let waited = tokio::select! {
                    biased;
                    () = stop.cancelled() => false,
                    () = clock.sleep(delay) => true,
                };
                if !waited {
                    return (name, Ok(()));
                }
                let _running = state.running();
                tracing::info!(controller = name, "Starting controller");
                let ended = controller.run(&fence, term, stop).await;
                (name, ended)
            });
        }
        running
    }

    /// Waits until the controllers have stopped.
    async fn drain(&self, mut controllers: JoinSet<(String, Result<(), Fatal>)>) -> Result<(), ManagerError> {
        let clock = &self.env.clock;
        let limit = self.options.shutdown_timeout;
        let deadline = clock.after(limit.unwrap_or(Duration::MAX));
        let interval = limit.map_or(SHUTDOWN_LOG_INTERVAL, |limit| limit / 3);
        let mut next = clock.after(interval);
        loop {
            tokio::select! {
                biased;
                ended = controllers.join_next() => match ended {
                    None => return Ok(()),
                    Some(ended) => check_ended(ended)?,
                },
                () = clock.sleep_until(deadline) => {
                    return Err(ManagerError::ShutdownTimeout { still_running: self.still_running() });
                }
                () = clock.sleep_until(next) => {
                    tracing::info!(controllers = self.still_running().join(", "), "Waiting for controllers to stop");
                    next = clock.after(interval.max(Duration::from_millis(1)));
                }
            }
        }
    }

    /// Returns the controllers that have not stopped, with the keys they are processing.
    fn still_running(&self) -> Vec<String> {
        let running = self
            .controllers
            .iter()
            .filter(|c| self.states.of(c.name()).is_running());
        running
            .map(|controller| describe_running(&**controller))
            .collect()
    }

    /// Removes resources that no controller caches by projection: a successor that needs them reads them live. Thousands of
    /// metadata-only resources would not fit into the annotation.
    fn retain_needed(&self, versions: &mut BTreeMap<String, Version>) {
        let needed = self.caches.summaries().into_iter().filter(|it| it.required);
        let needed: BTreeSet<String> = needed.map(|it| it.resource.to_string()).collect();
        versions.retain(|resource, _| needed.contains(resource));
    }

    /// Returns the resourceVersion that each cache has reached.
    fn cache_versions(&self) -> BTreeMap<String, Version> {
        let resources = self.caches.statuses().into_iter().map(|(resource, _)| resource);
        resources
            .filter_map(|resource| Some((resource.to_string(), self.caches.position(&resource)?.version)))
            .filter(|(_, version)| !version.is_none())
            .collect()
    }
}

/// Raises each version to the one in `others`.
fn raise(versions: &mut BTreeMap<String, Version>, others: BTreeMap<String, Version>) {
    for (resource, version) in others {
        let known = versions.entry(resource).or_default();
        if !known.has_reached(&version) {
            *known = version;
        }
    }
}

/// Resolves when a controller has failed. A controller may end without an error.
async fn first_failure(controllers: &mut JoinSet<(String, Result<(), Fatal>)>) -> ManagerError {
    loop {
        match controllers.join_next().await {
            None => std::future::pending().await,
            Some(ended) => {
                if let Err(error) = check_ended(ended) {
                    return error;
                }
            }
        }
    }
}

fn check_ended(ended: Ended) -> Result<(), ManagerError> {
    let (what, reason) = match ended {
        Ok((_, Ok(()))) => return Ok(()),
        Ok((name, Err(fatal))) => (format!("controller {name}"), fatal.to_string()),
        Err(error) => ("controller".to_owned(), error.to_string()),
    };
    Err(ManagerError::Failed { what, reason })
}

fn describe_running(controller: &dyn Runnable) -> String {
    let keys = controller.running();
    if keys.is_empty() {
        return controller.name().to_owned();
    }
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    format!("{} ({})", controller.name(), keys.join(", "))
}
