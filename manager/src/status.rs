//! The state of a manager as JSON, and a page that shows it.
//!
//! - [`StatusReporter::answer`] serves leader, controllers, caches and recent errors. Leaders and standbys serve the same
//!   document. It contains names of objects and messages of errors, so it needs authorization like any other path.
//! - [`page`] serves an HTML page that contains no data: it fetches the document every few seconds.
//! - One task samples the controllers every [`SAMPLE_INTERVAL`]. Memory is bounded by the number of controllers.
//!
//! [`Manager::builder`](crate::manager::Manager::builder) serves both at these paths. Without a builder:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use steersman_manager::{client::Transport, health::Checks, manager::{Manager, Options}};
//! # use steersman_manager::serve::{Access, Endpoints};
//! # use std::future::ready;
//! # let tasks = steersman_manager::env::TaskSet::new();
//! # let env = steersman_manager::env::Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let service = steersman_sandbox::Sandbox::builder().start()?.service();
//! # let transport = Transport::from_service(service, "sandbox", "example", &env.clock, &registry)?;
//! # let checks = Checks::new();
//! # let manager = Manager::new(&env, &registry, &checks, transport, Options::new("greeter"))?;
//! # let endpoints = Endpoints::new(&checks, registry, Access::new([PAGE_PATH])?, &env.clock)?;
//! use steersman_manager::status::{PAGE_PATH, STATUS_PATH, page};
//!
//! let status = manager.status("v1.2.0");
//! assert_eq!(status.answer().headers()["content-type"], "application/json");
//! let endpoints = endpoints
//!     .mount(PAGE_PATH, |_| ready(page()))
//!     .mount(STATUS_PATH, move |_| ready(status.answer()));
//! # Ok(())
//! # }
//! ```

mod document;
mod history;
mod page;

pub(crate) use document::Leader;
pub use page::page;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;

use self::document::{CacheEntry, ControllerEntry, Document, ErrorEntry, FailingCheck};
use self::history::History;
use crate::cache::{Caches, Status};
use crate::controller::Runnable;
use crate::env::{Clock, Env};
use crate::health::{Checks, Health, Probes};
use crate::serve::{HttpResponse, response};

/// The path of the page. It needs no authorization, because the page contains no data.
pub const PAGE_PATH: &str = "/";
/// The path that the page fetches the document from.
pub const STATUS_PATH: &str = "/debug/status";
/// The interval of samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// The number of errors in the document.
const ERRORS_MAX: usize = 50;

/// Reports the state of a manager. Clones share it.
#[derive(Clone)]
pub struct StatusReporter(Arc<Inner>);

/// The parts of a manager that are reported.
pub(crate) struct Sources {
    pub(crate) manager: &'static str,
    pub(crate) version: &'static str,
    pub(crate) caches: Caches,
    pub(crate) checks: Checks,
    pub(crate) leader: Box<dyn Fn() -> Leader + Send + Sync>,
    pub(crate) controllers: Vec<Arc<dyn Runnable>>,
    /// Reports whether the controller of a name runs in a term.
    pub(crate) is_running: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

struct Inner {
    clock: Clock,
    started: Timestamp,
    sources: Sources,
    /// By index of the controller.
    histories: Mutex<Vec<History>>,
}

impl StatusReporter {
    /// Starts sampling, until the last clone is dropped or the tasks of `env` end.
    pub(crate) fn start(env: &Env, sources: Sources) -> Self {
        let histories = sources.controllers.iter().map(|_| History::default());
        let inner = Arc::new(Inner {
            clock: env.clock.clone(),
            started: env.clock.wall(),
            histories: Mutex::new(histories.collect()),
            sources,
        });
        // It ends with the reporter.
        drop(env.tasks.spawn(sample(Arc::downgrade(&inner), env.clock.clone())));
        Self(inner)
    }

    /// Serves the document.
    #[must_use]
    pub fn answer(&self) -> HttpResponse {
        match serde_json::to_vec(&self.document()) {
            Ok(body) => response(StatusCode::OK, "application/json", body),
            Err(error) => response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "text/plain; charset=utf-8",
                format!("cannot encode the status: {error}\n"),
            ),
        }
    }

    fn document(&self) -> Document<'_> {
        let Inner {
            clock,
            started,
            sources,
            histories,
        } = &*self.0;
        let caches = sources.caches.summaries();
        let histories = histories.lock().unwrap_or_else(PoisonError::into_inner);
        let controllers = sources.controllers.iter().zip(&*histories);
        let controllers = controllers.map(|(controller, history)| {
            let running = (sources.is_running)(controller.name());
            ControllerEntry::of(&**controller, running, &caches, history)
        });
        Document {
            manager: sources.manager,
            version: sources.version,
            time: document::time(clock.wall()),
            start_time: document::time(*started),
            interval_seconds: SAMPLE_INTERVAL.as_secs(),
            leader: (sources.leader)(),
            failing_checks: failing(&sources.checks),
            controllers: controllers.collect(),
            unsynced: caches
                .iter()
                .filter(|it| it.status != Status::Synced)
                .map(|it| it.resource.to_string())
                .collect(),
            caches: caches.iter().map(CacheEntry::of).collect(),
            errors: self.errors(),
        }
    }

    /// The last errors of all controllers, the latest one first.
    fn errors(&self) -> Vec<ErrorEntry<'_>> {
        let controllers = self.0.sources.controllers.iter();
        let mut errors: Vec<_> = controllers
            .flat_map(|it| it.recent_errors().into_iter().map(|error| (it.name(), error)))
            .collect();
        // Stable, and the errors of a controller are in order: of two with the same time, the later one is first.
        errors.reverse();
        errors.sort_by_key(|(_, error)| std::cmp::Reverse(error.last));
        errors.truncate(ERRORS_MAX);
        errors.into_iter().map(ErrorEntry::of).collect()
    }
}

impl Inner {
    fn sample(&self) {
        let activities: Vec<_> = self.sources.controllers.iter().map(|it| it.activity()).collect();
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        for (history, activity) in histories.iter_mut().zip(&activities) {
            history.push(activity);
        }
    }
}

async fn sample(inner: Weak<Inner>, clock: Clock) {
    while let Some(inner) = inner.upgrade() {
        inner.sample();
        drop(inner);
        clock.sleep(SAMPLE_INTERVAL).await;
    }
}

fn failing(checks: &Checks) -> Vec<FailingCheck> {
    let results = checks.run(Probes::HEALTHZ).into_iter();
    let failing = results.filter_map(|(name, health)| match health {
        Health::Failed(reason) => Some(FailingCheck { name, reason }),
        Health::Ok | Health::Note(_) => None,
    });
    failing.collect()
}
