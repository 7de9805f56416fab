//! A runtime for Kubernetes controllers: shared caches, work queues, leader election, health and metrics endpoints.
//!
//! The path of an event, one module per step:
//!
//! | module | contents |
//! |---|---|
//! | [`cache`] | one list and watch per resource, shared by all controllers: store, indexes, deltas |
//! | [`source`], [`predicate`], [`handler`] | filter deltas, and map them to the keys to reconcile |
//! | [`queue`] | the work queue: deduplicating, delaying, rate limiting, fair between namespaces |
//! | [`controller`] | sources, queue and workers around a [`Reconciler`](controller::Reconciler) |
//! | [`client`] | API requests with rate limiter, deadlines, metrics and leader fence |
//!
//! Around it, with the cargo feature that a module needs. These features are enabled by default:
//!
//! | module | feature | contents |
//! |---|---|---|
//! | [`manager`] | | starts caches, election and controllers in order, and stops them in reverse order |
//! | [`election`] | `election` | leader election by a Lease, which opens and closes the fence of the client |
//! | [`health`] | | health checks, by name and probe |
//! | [`serve`] | `serve` | health, metrics and debug endpoints over HTTPS |
//! | [`status`] | `serve` | leader, controllers, caches and errors as JSON, and a page that shows them |
//! | [`webhook`] | `webhook` | admission webhooks and their certificates |
//! | [`env`](mod@env) | | the injected clock, random numbers and tasks |
//! | [`signals`] | | graceful shutdown on SIGINT and SIGTERM, and SIGHUP |
//! | [`metrics`] | | the registry, and the prefix of metrics |
//! | [`sync`] | | a channel that wakes its receivers in a reproducible order |
//! | [`trace`] | | traces from a watch event to the requests of its reconcile |
//! | [`object`] | | keys, uids, resourceVersions, metadata, resources |
//! | [`backoff`], [`conditions`], [`events`], [`expectations`], [`finalizer`], [`owner`], [`selector`], [`time`] | | small tools for controllers |
//!
//! There is no global state: two managers in one process share neither clock, random numbers nor metrics. Dropping the
//! [`TaskSet`](env::TaskSet) of a manager ends all its tasks.
//!
//! # Example
//!
//! A controller that labels every `ConfigMap`:
//!
//! ```
//! use steersman_manager::cache::Cache;
//! use steersman_manager::client::Patch;
//! use steersman_manager::controller::{Action, Builder, ReconcileContext, Options, ReconcileError, Reconciler};
//! use steersman_manager::handler::Handler;
//! use steersman_manager::manager::Manager;
//! use steersman_manager::object::{Key, MetaObject, Resource};
//! use steersman_manager::source::Source;
//! use serde_json::json;
//!
//! const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
//!
//! struct Labeler {
//!     maps: Cache<MetaObject>,
//! }
//!
//! impl Reconciler for Labeler {
//!     async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
//!         let Some(map) = self.maps.get(&key).present() else {
//!             return Ok(Action::Done); // deleted
//!         };
//!         let meta = &map.metadata;
//!         if meta.is_terminating() || meta.labels.get("seen").is_some() {
//!             return Ok(Action::Done);
//!         }
//!         // Patches only the label, and fails with 409 Conflict if the object was changed meanwhile.
//!         let patch = json!({"metadata": {
//!             "uid": meta.uid,
//!             "resourceVersion": meta.resource_version,
//!             "labels": {"seen": "true"},
//!         }});
//!         tracing::info!("Labeling ConfigMap"); // in a span with the controller, the key and the cause
//!         let _: MetaObject = context.client.patch(&MAPS, &key, Patch::merge(&patch)).await?;
//!         Ok(Action::Done)
//!     }
//! }
//!
//! fn add_labeler(manager: &mut Manager) -> Result<(), Box<dyn std::error::Error>> {
//!     let maps = manager.caches().of(&MAPS);
//!     let labeler = Builder::new("labeler", Options::default(), Labeler { maps: maps.clone() })
//!         .watch(Source::new(maps, Handler::for_object()))
//!         .build(manager.env(), manager.reader("labeler"), manager.registry())?;
//!     manager.add(labeler);
//!     Ok(())
//! }
//! # // Runs on an API server in the same process.
//! # use steersman_manager::{client::Transport, env::{Env, TaskSet}, health::Checks, manager};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! # let tasks = TaskSet::new();
//! # let env = Env::system(&tasks);
//! # let registry = steersman_manager::metrics::Registry::new("example");
//! # let sandbox = steersman_sandbox::Sandbox::builder().start()?;
//! # let transport = Transport::from_service(sandbox.service(), "sandbox", "example", &env.clock, &registry)?;
//! # let admin = transport.unfenced("admin", None);
//! # let options = manager::Options::new("example");
//! # let mut manager = Manager::new(&env, &registry, &Checks::new(), transport, options)?;
//! # add_labeler(&mut manager)?;
//! # let mut seen = manager.caches().of::<MetaObject>(&MAPS).subscribe();
//! # let stop = tokio_util::sync::CancellationToken::new();
//! # let running = env.tasks.spawn(manager.run(stop.clone()));
//! # let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
//! # let _: MetaObject = admin.create(&MAPS, "default", map.to_string().into()).await?;
//! # while seen.next().await.is_none_or(|delta| delta.latest().metadata.labels.get("seen").is_none()) {}
//! # stop.cancel();
//! # running.await??;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod backoff;
pub mod cache;
pub mod client;
pub mod conditions;
pub mod controller;
#[cfg(feature = "election")]
pub mod election;
pub mod env;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod handler;
pub mod health;
#[cfg(feature = "incidents")]
#[doc(hidden)]
pub mod incidents;
pub mod manager;
pub mod metrics;
pub mod object;
pub mod owner;
mod panics;
pub mod predicate;
pub mod queue;
mod revived;
pub mod selector;
#[cfg(feature = "serve")]
pub mod serve;
pub mod signals;
pub mod source;
#[cfg(feature = "serve")]
pub mod status;
pub mod sync;
pub mod time;
pub mod trace;
#[cfg(feature = "webhook")]
pub mod webhook;

/// The documents of this crate, whose code is compiled. The README shows the example `greeter`, the right columns of the
/// tables contain only code of the programs below them, every public module has an example, and every program in `examples`
/// is short.
///
/// ~~~
/// let read = |path: &str| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect(path);
/// let compact = |code: &str| code.split_whitespace().collect::<String>();
/// // Returns the code after `start`, up to the end of its block.
/// let block = |page: &str, start| compact(page.split(start).nth(1).and_then(|it| it.split("```").next()).expect(start));
///
/// let (readme, tests) = (read("README.md"), read("examples/greeter/tests.rs"));
/// let program = read("examples/greeter/main.rs").replace("#[cfg(test)]\nmod tests;\n", "");
/// assert_eq!(block(&readme, "rust,no_run"), compact(&program));
/// assert!(compact(&tests).contains(&block(&readme, "rust,ignore")));
///
/// for page in ["coming-from-kube-rs", "coming-from-controller-runtime"] {
///     let text = read(&format!("../docs/{page}.md"));
///     let program = block(&text, "rust,no_run");
///     let rows = text.lines().filter(|line| line.starts_with("| "));
///     let cells = rows.skip(1).filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
///     let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
///     let code: Vec<_> = code.map(|code| compact(&code.replace("\\|", "|"))).collect();
///     assert!(code.len() > 25, "{page} has a table");
///     let unknown: Vec<_> = code.iter().filter(|code| !program.contains(code.as_str())).collect();
///     assert!(unknown.is_empty(), "not in the program of {page}: {unknown:?}");
/// }
///
/// let library = read("src/lib.rs");
/// let modules = library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
/// let without: Vec<_> = modules.filter(|module| {
///     let source = read(&format!("src/{module}.rs"));
///     !source.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("```"))
/// }).collect();
/// assert!(without.is_empty(), "modules without an example: {without:?}");
///
/// for example in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("examples") {
///     let program = example.expect("an example").path().join("main.rs");
///     let lines = std::fs::read_to_string(&program).expect("a program").lines().count();
///     assert!(lines < 120, "{} has {lines} lines", program.display());
/// }
/// ~~~
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = include_str!("../../docs/coming-from-kube-rs.md")]
    struct ComingFromKubeRs;

    #[doc = include_str!("../../docs/coming-from-controller-runtime.md")]
    struct ComingFromControllerRuntime;
}
