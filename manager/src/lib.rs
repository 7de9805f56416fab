//! What a Kubernetes controller needs around it, and no controller.
//!
//! One room per noun, on the way of an event: [`cache`], one list and watch per resource, shared; [`source`], [`predicate`]
//! and [`handler`], from a change to the keys that it concerns; [`queue`], the work queue; [`controller`], the workers; and
//! back through the [`client`], behind its bucket and its fence. Around it: [`manager`], which starts and stops all this;
//! [`election`], which opens and shuts the fence; [`serve`], health and metrics over HTTPS; [`webhook`], which answers the API
//! server's questions; [`env`](mod@env), the injected clock, generator and tasks; [`object`], what is known of any object. Beside them the small tools that every controller
//! uses: [`conditions`], [`events`], [`expectations`], [`finalizer`], [`owner`] and [`selector`]; and [`time`], as the API writes
//! it.
//!
//! A controller that greets every `ConfigMap`, once:
//!
//! ```
//! use coxswain_manager::cache::Cache;
//! use coxswain_manager::client::Patch;
//! use coxswain_manager::controller::{Action, Builder, Context, Options, ReconcileError, Reconciler};
//! use coxswain_manager::handler::Handler;
//! use coxswain_manager::manager::Manager;
//! use coxswain_manager::object::{Key, MetaObject, Resource};
//! use coxswain_manager::source::Source;
//! use serde_json::json;
//!
//! const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
//!
//! struct Greeter {
//!     maps: Cache<MetaObject>,
//! }
//!
//! impl Reconciler for Greeter {
//!     async fn reconcile(&self, context: Context, key: Key) -> Result<Action, ReconcileError> {
//!         let Some(map) = self.maps.get(&key).present() else {
//!             return Ok(Action::Done); // gone
//!         };
//!         let meta = &map.metadata;
//!         if meta.is_deleting() || meta.labels.get("greeted").is_some() {
//!             return Ok(Action::Done);
//!         }
//!         // Only the field that it owns, and only if nobody has changed the object in between.
//!         let patch = json!({"metadata": {
//!             "uid": meta.uid,
//!             "resourceVersion": meta.resource_version,
//!             "labels": {"greeted": "hello"},
//!         }});
//!         tracing::info!("Greeting"); // in a span with the controller, the key and the cause
//!         let _: MetaObject = context.client.patch(&MAPS, &key, Patch::merge(&patch)).await?;
//!         Ok(Action::Done)
//!     }
//! }
//!
//! fn add_greeter(manager: &mut Manager) -> Result<(), Box<dyn std::error::Error>> {
//!     let maps = manager.caches().of(&MAPS);
//!     let greeter = Builder::new("greeter", Options::default(), Greeter { maps: maps.clone() })
//!         .watch(Source::new(maps, Handler::for_object()))
//!         .build(manager.env(), manager.client("greeter"), manager.registry())?;
//!     manager.add(greeter);
//!     Ok(())
//! }
//! # // Run for real, on an API server in the same process.
//! # use coxswain_manager::{cache::Scope, client::Transport, env::{Env, TaskSet}, manager, serve::Checks};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let tasks = TaskSet::new();
//! # let env = Env::system(&tasks);
//! # let registry = prometheus::Registry::new();
//! # let sandbox = coxswain_sandbox::Sandbox::new(coxswain_sandbox::Options::default());
//! # let transport = Transport::over(sandbox.door(), "sandbox", "example", &env.clock, &registry)?;
//! # let admin = transport.unfenced("admin", None);
//! # let options = manager::Options {
//! #     name: "example", limit: None, scope: Scope::default(),
//! #     start_interval: Default::default(), shutdown_timeout: None,
//! # };
//! # let mut manager = Manager::new(&env, &registry, &Checks::new(), transport, options)?;
//! # add_greeter(&mut manager)?;
//! # let mut seen = manager.caches().of::<MetaObject>(&MAPS).subscribe();
//! # let stop = tokio_util::sync::CancellationToken::new();
//! # let running = env.tasks.spawn(manager.run(None, stop.clone()));
//! # let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
//! # let _: MetaObject = admin.create(&MAPS, "default", map.to_string().into()).await?;
//! # while seen.next().await.is_none_or(|delta| delta.latest().metadata.labels.get("greeted").is_none()) {}
//! # stop.cancel();
//! # running.await??;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here is global: two managers in one process share neither a clock, nor a generator, nor a metric, and dropping
//! the [`TaskSet`](env::TaskSet) of one ends everything that it runs.

pub mod backoff;
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
pub mod selector;
pub mod serve;
pub mod source;
mod sync;
pub mod time;
pub mod webhook;
