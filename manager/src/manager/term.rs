//! One term of leadership: see what the last leader wrote, run the controllers, and see them end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Manager, ManagerError};
use crate::cache::CachePositions as _;
use crate::client::Term;
use crate::controller::{Fatal, Runnable};
use crate::election::Takeover;
use crate::object::Version;

/// How long the caches may take to see what the last leader wrote. A kind that cannot be read at all must not stop the
/// others; each write depends on the version that it was decided on anyway.
const CATCH_UP: Duration = Duration::from_secs(30);
/// How often those who do not stop are named, if there is no limit to divide.
const NAME_LAGGARDS: Duration = Duration::from_secs(5);

/// A controller that has ended, and how.
type Ended = Result<(String, Result<(), Fatal>), JoinError>;

impl Manager {
    /// Leads in `term` until it is over, or until `stop`. Returns the versions that a successor has to have seen; none if
    /// they are not known, because it ended before the writes of an earlier leader were looked for.
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
            // What this one had to see and did not get to see, its successor has to see.
            return Ok(match takeover {
                Takeover::Clean(versions) => Some(versions.clone()),
                Takeover::Unclean => None,
            });
        }
        let mut seen = self.seen();
        raise(&mut seen, known);
        let stopping = stop.child_token();
        let mut controllers = self.start(term, &stopping);
        let died = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = self.fence.closed(term) => None,
            died = died(&mut controllers) => Some(died),
        };
        // The workers finish the writes that they have sent, and wait for nothing else.
        self.fence.drain(term);
        stopping.cancel();
        if let Some(error) = died {
            return Err(error);
        }
        self.drain(controllers).await?;
        let ledger = self.transport.write_tracker();
        raise(&mut seen, ledger.written());
        // A version that does not cover every write is worse than none: without one the successor asks the API server.
        let unversioned = ledger.unversioned();
        seen.retain(|resource, _| !unversioned.contains(resource));
        self.retain_needed(&mut seen);
        let versions = seen.into_iter();
        let versions = versions.map(|(resource, version)| (resource, version.to_string()));
        Ok(Some(versions.collect()))
    }

    async fn catch_up(&self, known: &BTreeMap<String, Version>) {
        let caught_up = self.env.clock.timeout(CATCH_UP, self.caches.catch_up(known));
        let Some(missing) = caught_up.await else {
            tracing::warn!("Leading before all caches have seen what the last leader wrote");
            return;
        };
        for (resource, status) in missing {
            tracing::info!(%resource, %status, "Leading without a kind that cannot be read");
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

    /// Waits for the controllers to end what they are at.
    async fn drain(&self, mut controllers: JoinSet<(String, Result<(), Fatal>)>) -> Result<(), ManagerError> {
        let clock = &self.env.clock;
        let limit = self.options.shutdown_timeout;
        let deadline = clock.after(limit.unwrap_or(Duration::MAX));
        let interval = limit.map_or(NAME_LAGGARDS, |limit| limit / 3);
        let mut next = clock.after(interval);
        loop {
            tokio::select! {
                biased;
                ended = controllers.join_next() => match ended {
                    None => return Ok(()),
                    Some(ended) => judge(ended)?,
                },
                () = clock.sleep_until(deadline) => {
                    return Err(ManagerError::ShutdownTimeout { laggards: self.laggards() });
                }
                () = clock.sleep_until(next) => {
                    tracing::info!(controllers = self.laggards().join(", "), "Waiting for controllers to stop");
                    next = clock.after(interval.max(Duration::from_millis(1)));
                }
            }
        }
    }

    /// The controllers that have not stopped, with what they are at.
    fn laggards(&self) -> Vec<String> {
        let running = self
            .controllers
            .iter()
            .filter(|c| self.states.of(c.name()).is_running());
        running.map(|controller| laggard(&**controller)).collect()
    }

    /// Leaves out what no controller here has asked for by its projection: a successor that needs it asks the API server.
    /// They would be too many for an annotation where a thousand kinds are read for their metadata.
    fn retain_needed(&self, versions: &mut BTreeMap<String, Version>) {
        let needed = self.caches.summaries().into_iter().filter(|it| it.required);
        let needed: BTreeSet<String> = needed.map(|it| it.resource.to_string()).collect();
        versions.retain(|resource, _| needed.contains(resource));
    }

    /// How far each cache is, by the name of its resource.
    fn seen(&self) -> BTreeMap<String, Version> {
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

/// Resolves when a controller has died. One that has nothing to do and returns is no matter.
async fn died(controllers: &mut JoinSet<(String, Result<(), Fatal>)>) -> ManagerError {
    loop {
        match controllers.join_next().await {
            None => std::future::pending().await,
            Some(ended) => {
                if let Err(error) = judge(ended) {
                    return error;
                }
            }
        }
    }
}

fn judge(ended: Ended) -> Result<(), ManagerError> {
    let (what, reason) = match ended {
        Ok((_, Ok(()))) => return Ok(()),
        Ok((name, Err(fatal))) => (format!("controller {name}"), fatal.to_string()),
        Err(error) => ("a controller".to_owned(), error.to_string()),
    };
    Err(ManagerError::Died { what, reason })
}

fn laggard(controller: &dyn Runnable) -> String {
    let keys = controller.running();
    if keys.is_empty() {
        return controller.name().to_owned();
    }
    let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
    format!("{} ({})", controller.name(), keys.join(", "))
}
