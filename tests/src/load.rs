//! The product under load: many objects, large objects, many kinds, an outage; with bounds on requests, memory and time.
//!
//! A [case](CASES) fills a sandbox, starts the product's own wiring on it, changes objects as a user does, and waits until the desired
//! state is reached and no more requests are sent. All of it runs in one thread on a virtual clock, so that the numbers of requests and
//! the virtual times are equal in every run. The [`Report`] has each figure with its bound.

mod cases;
mod cluster;
mod connection;
mod hostile;
mod memory;
mod polls;
mod product;
mod report;
mod requests;
#[cfg(test)]
mod tests;

pub use cases::{CASES, Case};
pub use hostile::HOSTILE;
pub use report::{Report, header};

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::Cluster;
use product::Product;
use report::Bound;
use requests::{Requests, Verb};
use tokio::time::Instant;

/// The interval at which a condition is checked.
const POLL: Duration = Duration::from_secs(1);
/// The time without requests after which the product is idle.
const QUIET: Duration = Duration::from_mins(1);
/// The longest time until a condition holds.
const LIMIT: Duration = Duration::from_hours(2);
/// Bound on the memory of an idle product with an empty cluster.
const BASE_BYTES: u64 = 8 << 20;
const MIB: f64 = 1024.0 * 1024.0;

/// Runs a case with the given fraction of its objects.
///
/// # Panics
/// If the API rejects a request of the case.
#[must_use]
pub fn run(case: &Case, scale: f64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without drivers of the machine");
    runtime.block_on(async {
        let mut load = Load::new(case.name, scale);
        (case.run)(&mut load).await;
        if load.is_hostile {
            load.finish_hostile().await
        } else {
            load.finish().await
        }
    })
}

/// A running case.
struct Load {
    scale: f64,
    cluster: Cluster,
    product: Option<Product>,
    report: Report,
    /// The bounds on the numbers of requests. Verbs without a bound must not be used.
    limits: BTreeMap<Verb, u64>,
    /// Bound on the memory of the product, in bytes, in addition to [`BASE_BYTES`].
    memory_limit: u64,
    /// Bound on the virtual time of all steps.
    time_limit: Duration,
    /// Whether the bounds are those of [`HOSTILE`].
    is_hostile: bool,
    /// The bytes before the product was started.
    before: i64,
    started: Instant,
    begun: Instant,
    wall: std::time::Instant,
}

impl Load {
    fn new(case: &'static str, scale: f64) -> Self {
        let cluster = Cluster::start();
        let now = cluster.env.instant();
        Self {
            scale,
            cluster,
            product: None,
            report: Report::new(case),
            limits: BTreeMap::new(),
            memory_limit: 0,
            time_limit: Duration::ZERO,
            is_hostile: false,
            before: 0,
            started: now,
            begun: now,
            wall: wall_now(),
        }
    }

    /// Returns the number of objects of a case, at least two.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers"
    )]
    fn scaled(&self, number: u64) -> u64 {
        ((number as f64 * self.scale).round() as u64).max(2)
    }

    fn progress(&self, message: &str) {
        let wall = wall_now().duration_since(self.wall).as_secs_f64();
        eprintln!("{}: {message} ({wall:.1} s)", self.report.case);
    }

    /// Starts the product, and waits until `resource` has this number of objects in a cache and the product is idle.
    async fn start(&mut self, controllers: &str, resource: &str, objects: u64) {
        self.progress("objects prepared");
        self.before = memory::product();
        memory::reset_peak();
        self.started = self.now();
        self.product = Some(Product::start(&self.cluster, controllers));
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let objects = objects as f64;
        self.until("the caches are synced", async |load| {
            load.product().cached(resource) >= objects
        })
        .await;
        self.quiet(Duration::from_secs(10)).await;
        self.progress("product started");
        self.begun = self.now();
    }

    fn product(&self) -> &Product {
        self.product.as_ref().expect("a started product")
    }

    fn requests(&self) -> &Requests {
        &self.product().requests
    }

    fn now(&self) -> Instant {
        self.cluster.env.instant()
    }

    async fn sleep(&self, time: Duration) {
        self.cluster.env.sleep(time).await;
    }

    /// Waits until a condition holds.
    async fn until(&mut self, condition: &str, holds: impl AsyncFn(&Self) -> bool) {
        let end = self.now() + LIMIT;
        while !holds(self).await {
            if self.now() > end || self.product().has_ended() {
                self.report
                    .broken
                    .push(format!("it did not converge: {condition}"));
                return;
            }
            self.sleep(POLL).await;
        }
    }

    /// Waits until no request is sent for this time, except those of an idle product, and all work queues are empty.
    async fn quiet(&mut self, time: Duration) {
        self.until("the product is idle", async |load| {
            let last = load.requests().last_busy();
            last.is_some_and(|last| load.now() - last >= time) && load.product().is_idle()
        })
        .await;
    }

    /// Waits until the product is idle after a step. Adds the time from the start of the step to its last write to the report.
    async fn settle(&mut self, step: &str) {
        self.quiet(QUIET).await;
        let last = self.requests().last_write().unwrap_or(self.begun);
        let took = last.saturating_duration_since(self.begun);
        self.report.virtual_time += took;
        self.progress(&format!("{step} done after {:.1} virtual s", took.as_secs_f64()));
        self.begun = self.now();
    }

    /// Adds a bound to the report.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    fn bound(&mut self, name: impl Into<String>, actual: u64, limit: u64) {
        self.report.bounds.push(Bound {
            name: name.into(),
            actual: actual as f64,
            limit: limit as f64,
        });
    }

    /// Limits the number of requests with a verb.
    fn limit(&mut self, verb: Verb, limit: u64) {
        *self.limits.entry(verb).or_default() += limit;
    }

    /// Adds the limits of requests that depend on the kinds and on time only.
    fn limit_idle(&mut self) {
        let seconds = (self.now() - self.started).as_secs();
        let kinds = self.requests().cached();
        // A renewal every two seconds.
        self.limit(Verb::Lease, 20 + seconds / 2);
        // A watch lasts for five minutes at least. Few kinds have several watches, one after the other: their caches relist when
        // another controller needs more than their metadata.
        self.limit(Verb::Watch, 20 + kinds + kinds * (seconds / 300));
        self.limit(Verb::List, 30 + kinds);
        // Two documents in a round, every 24 seconds at least.
        self.limit(Verb::Discover, 20 + 2 * (seconds / 24));
        self.limit(Verb::Get, 20);
        // The event of the election.
        self.limit(Verb::Event, 1);
    }

    /// Adds the limits of the proof that all caches are current, which the first foreground deletion of a term needs.
    fn limit_proof(&mut self) {
        let kinds = self.requests().cached();
        self.limit(Verb::Watch, kinds);
        self.limit(Verb::List, kinds);
    }

    /// Evaluates the common bounds, and stops the product.
    async fn finish(mut self) -> Report {
        self.limit_idle();
        let requests = self.requests().by_verb();
        for (verb, count) in &requests {
            let limit = self.limits.get(verb).copied().unwrap_or_default();
            self.bound(format!("{verb:?} requests"), *count, limit);
        }
        self.bound_memory();
        self.report.time_limit = self.time_limit;
        let (took, limit) = (self.report.virtual_time, self.time_limit);
        self.bound("virtual seconds", took.as_secs(), limit.as_secs());
        self.report.limits = std::mem::take(&mut self.limits);
        if self.report.is_broken() {
            let most = self.requests().most(12);
            self.progress(&format!("most requests: {most}"));
        }
        self.report.requests = requests;
        self.stop().await
    }

    fn bound_memory(&mut self) {
        let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        self.report.peak = bytes(memory::peak() - self.before);
        self.report.at_end = bytes(memory::product() - self.before);
        self.report.memory_limit = BASE_BYTES + self.memory_limit;
        self.bound("peak bytes", self.report.peak, self.report.memory_limit);
    }

    async fn stop(mut self) -> Report {
        if let Some(product) = self.product.take()
            && let Err(error) = product.stop().await
        {
            self.report.broken.push(format!("the product failed: {error}"));
        }
        self.report.wall = wall_now().duration_since(self.wall);
        self.report
    }
}

#[expect(clippy::disallowed_methods, reason = "the true time of a case")]
fn wall_now() -> std::time::Instant {
    std::time::Instant::now()
}
