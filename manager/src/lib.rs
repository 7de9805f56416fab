//! What a Kubernetes controller needs around it, and no controller.
//!
//! One room per noun, on the way of an event: [`cache`], one list and watch per resource, shared; [`source`], [`predicate`]
//! and [`handler`], from a change to the keys that it concerns; [`queue`], the work queue; [`controller`], the workers; and
//! back through the [`client`], behind its bucket and its fence. Around it: [`manager`], which starts and stops all this;
//! [`election`], which opens and shuts the fence; [`serve`], health and metrics over HTTPS; [`env`](mod@env), the injected
//! clock, generator and tasks; [`object`], what is known of any object. Beside them the small tools that every controller
//! uses: [`conditions`], [`events`], [`expectations`], [`finalizer`] and [`owner`]; and [`time`], as the API writes it.
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
