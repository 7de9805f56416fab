//! What a Kubernetes controller needs around it, and no controller.
//!
//! There today: [`env`](mod@env), the injected clock, generator and tasks; [`object`], what is known of any object;
//! [`client`], behind its bucket and its fence; [`cache`], shared; [`queue`], the work queue between
//! events and workers; and [`serve`], health and metrics over HTTPS.
//! [`client`], behind its bucket and its fence; [`election`], which opens and shuts that fence; [`cache`], shared; and [`queue`], the work queue between events and workers.
//! [`client`], behind its bucket and its fence; [`cache`], shared; and [`queue`], the work queue between events and workers.
//! Beside them the small tools that every controller uses: [`conditions`], [`events`], [`expectations`], [`finalizer`] and
//! [`owner`]; and [`time`], as the API writes it.
//!
//! Nothing here is global: two managers in one process share neither a clock, nor a generator, nor a metric, and dropping
//! the [`TaskSet`](env::TaskSet) of one ends everything that it runs.

pub mod cache;
pub mod client;
pub mod election;
pub mod conditions;
pub mod env;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod object;
pub mod owner;
pub mod queue;
pub mod serve;
mod sync;
pub mod time;
