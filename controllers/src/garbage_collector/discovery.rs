//! The kinds that the API serves.
//!
//! - Discovery documents (`/api`, `/apis`) are the only source. They are read again after each change of a CRD or an
//!   `APIService`, when a watch reports that its kind is not served, and every 30 seconds.
//! - Nothing is published before both roots were read once. A group-version that is named but not described is published as
//!   such: its kinds are unknown.
//! - A failed read removes nothing: a group-version that cannot be read keeps its last description, and a document without any
//!   group is a failed read.
//!
//! `round` (requests) → `decode` → `documents` → `publisher` (published kinds and problems). `follow` schedules the rounds,
//! `trigger` reports changes of CRDs and `APIService`s.

mod decode;
mod documents;
mod follow;
mod publisher;
mod round;
#[cfg(test)]
mod tests;
mod trigger;

use std::sync::Arc;

use prometheus::{IntCounter, Opts};
use steersman_manager::cache::Caches;
use steersman_manager::client::Reader;
use steersman_manager::env::Env;
use steersman_manager::metrics::Registry;
use steersman_manager::sync::watch;
use tokio::sync::Notify;

use self::follow::Follower;
use self::publisher::{Problems, Publisher};
use super::kinds::Kinds;

/// Discovery of the served kinds. Clones share it.
#[derive(Clone, Debug)]
pub struct Discovery {
    kinds: watch::Receiver<Option<Arc<Kinds>>>,
    problems: Problems,
    /// Notified when a watched kind turns out not to be served.
    pub refresh: Arc<Notify>,
    /// Counts failed discovery, and kinds that do not sync in time.
    pub(super) sync_errors: IntCounter,
}

impl Discovery {
    /// Kinds from another source. Its errors are not exported.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "the name of the counter is valid")]
    pub fn fixed(kinds: watch::Receiver<Option<Arc<Kinds>>>) -> Self {
        Self {
            kinds,
            problems: Problems::default(),
            refresh: Arc::default(),
            sync_errors: sync_errors().expect("a valid name"),
        }
    }

    /// Starts reading, until the tasks of `env` end. Documents are read through `client`; the metadata of CRDs and
    /// `APIService`s comes from `caches`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        env: &Env,
        caches: &Caches,
        client: Reader,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let sync_errors = sync_errors()?;
        registry.register(Box::new(sync_errors.clone()))?;
        let publisher = Publisher::new();
        let discovery = Self {
            kinds: publisher.kinds(),
            problems: publisher.problems(),
            refresh: Arc::default(),
            sync_errors,
        };
        let follower = Follower::new(env, caches, client, &discovery, publisher);
        // It ends with the task set.
        drop(env.tasks.spawn(follower.run()));
        Ok(discovery)
    }

    /// The served kinds; none until both roots were read.
    #[must_use]
    pub fn kinds(&self) -> watch::Receiver<Option<Arc<Kinds>>> {
        self.kinds.clone()
    }

    /// The parts of the API that cannot be discovered, with the time and the reason.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        publisher::list(&self.problems)
    }
}

fn sync_errors() -> Result<IntCounter, prometheus::Error> {
    IntCounter::with_opts(Opts::new(
        "garbagecollector_controller_resources_sync_error_total",
        "[ALPHA] Number of garbage collector resources sync errors.",
    ))
}
