//! What a Kubernetes controller needs around it, and no controller.
//!
//! One room per noun: [`env`](mod@env), the injected clock, generator and tasks; [`object`], what is known of any object;
//! [`client`], behind its bucket and its fence; [`cache`], one list and watch per resource, shared; [`queue`], the work
//! queue between events and workers; [`election`], which opens and shuts the fence; [`serve`], health and metrics over
//! HTTPS. Beside them the small tools that every controller uses: [`conditions`], [`events`], [`expectations`],
//! [`finalizer`] and [`owner`]; and [`time`], as the API writes it.
//!
//! Nothing here is global: two managers in one process share neither a clock, nor a generator, nor a metric, and dropping
//! the [`TaskSet`](env::TaskSet) of one ends everything that it runs.

pub mod cache;
pub mod client;
pub mod conditions;
pub mod controller;
pub mod election;
pub mod env;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod handler;
pub mod manager;
pub mod object;
pub mod owner;
mod panics;
pub mod predicate;
pub mod queue;
pub mod serve;
pub mod source;
mod sync;
pub mod time;
