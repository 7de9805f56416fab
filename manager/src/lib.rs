//! What a Kubernetes controller needs around it, and no controller.
//!
//! There today: [`env`](mod@env), the injected clock, generator and tasks; [`object`], what is known of any object;
//! [`client`], behind its bucket and its fence; [`cache`], shared; [`source`], [`predicate`] and [`handler`], from a change to
//! the keys that it concerns; [`queue`], the work queue between events and workers; and [`controller`], the workers.
//! Beside them the small tools that every controller uses: [`conditions`], [`events`], [`expectations`], [`finalizer`] and
//! [`owner`]; and [`time`], as the API writes it.
//!
//! Nothing here is global: two managers in one process share neither a clock, nor a generator, nor a metric, and dropping
//! the [`TaskSet`](env::TaskSet) of one ends everything that it runs.

pub mod cache;
pub mod client;
pub mod conditions;
pub mod controller;
pub mod env;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod handler;
pub mod object;
pub mod owner;
pub mod predicate;
pub mod queue;
pub mod source;
mod sync;
pub mod time;
