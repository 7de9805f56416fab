//! Tests of controllers, under the paused clock.

mod failures;
mod health;
mod logs;
mod metrics;
mod runtime;
mod terms;
mod traces;
mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::Registry;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use prometheus::TextEncoder;
use serde_json::json;
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Faults, Matcher, Refusal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cache::{Delta, Publisher, Status, Subscription, channel};
use crate::client::Transport;
use crate::env::TaskSet;
use crate::handler::Handler;
use crate::object::MetaObject;
use crate::source::{EventSource, Source};
use crate::sync::watch;

struct Fixture {
    env: Env,
    registry: Registry,
    fence: Fence,
    transport: Transport,
    /// An API server that answers every request with 429 and Retry-After: 2.
    api: Faults,
    pods: Pods,
    _tasks: TaskSet,
}

/// A cache whose content the test sets.
#[derive(Clone)]
struct Pods(Arc<State>);

struct State {
    present: Mutex<BTreeMap<String, Arc<MetaObject>>>,
    subscribers: Mutex<Vec<Publisher<MetaObject>>>,
    version: AtomicUsize,
    synced: watch::Sender<bool>,
    silence: Mutex<Duration>,
}

struct ReconcileFn<F>(F);

struct Running {
    stop: CancellationToken,
    term: Term,
    end: JoinHandle<Result<(), Fatal>>,
}

impl Fixture {
    fn new() -> Self {
        let tasks = TaskSet::new();
        let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
        let registry = Registry::new("test");
        let api = Faults::new();
        api.on(Matcher::any()).refuse(Refusal::new(429).retry_after(2));
        let sandbox = Sandbox::builder().start().expect("a sandbox");
        let stub = api.wrap(sandbox.service());
        let transport = Transport::from_service(stub, "stub", "test", &env.clock, &Registry::new("test"));
        Self {
            fence: Fence::new(env.clock.clone()),
            transport: transport.expect("a transport"),
            env,
            registry,
            api,
            pods: Pods::new(),
            _tasks: tasks,
        }
    }

    fn builder<F, T>(&self, options: Options, reconcile: F) -> Builder<ReconcileFn<F>>
    where
        F: Fn(ReconcileContext, Key) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        Builder::new("test-controller", options, ReconcileFn(reconcile))
            .watch(Source::new(self.pods.clone(), Handler::for_object()))
    }

    fn controller<F, T>(&self, options: Options, reconcile: F) -> Arc<dyn Runnable>
    where
        F: Fn(ReconcileContext, Key) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        self.build(self.builder(options, reconcile))
    }

    fn build<R: Reconciler>(&self, builder: Builder<R>) -> Arc<dyn Runnable> {
        let client = self.transport.reader("test", None);
        Arc::new(
            builder
                .build(&self.env, client, &self.registry)
                .expect("a controller"),
        )
    }

    /// Runs a controller for a new term.
    fn run(&self, controller: &Arc<dyn Runnable>) -> Running {
        let (stop, fence, controller) = (
            CancellationToken::new(),
            self.fence.clone(),
            Arc::clone(controller),
        );
        let term = fence.open_forever();
        let stopped = stop.clone();
        let end = self
            .env
            .tasks
            .spawn(async move { controller.run(&fence, term, stopped).await });
        Running { stop, term, end }
    }

    /// A controller that runs with one worker.
    fn start<F, T>(&self, reconcile: F) -> Running
    where
        F: Fn(ReconcileContext, Key) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        self.run(&self.controller(Options::default(), reconcile))
    }

    async fn sleep(&self, duration: Duration) {
        self.env.clock.sleep(duration).await;
    }

    /// The value of a series.
    fn value(&self, series: &str) -> String {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("a text");
        let label = r#"controller="test-controller""#;
        text.lines()
            .map(|line| {
                line.replace(&format!("{label},"), "")
                    .replace(&format!("{{{label}}}"), "")
            })
            .find_map(|line| {
                let value = line.strip_prefix("controller_runtime_").unwrap_or(&line);
                value.strip_prefix(&format!("{series} ")).map(str::to_owned)
            })
            .unwrap_or_else(|| panic!("no {series} in {text}"))
    }
}

impl Pods {
    fn new() -> Self {
        Self(Arc::new(State {
            present: Mutex::default(),
            subscribers: Mutex::default(),
            version: AtomicUsize::new(0),
            synced: watch::Sender::new(true),
            silence: Mutex::default(),
        }))
    }

    fn add(&self, name: &str) {
        let new = self.0.next(name);
        lock(&self.0.present).insert(name.to_owned(), new.clone());
        self.0.publish(&Delta::Added { new, initial: false });
    }

    fn update(&self, name: &str) {
        let new = self.0.next(name);
        let old = lock(&self.0.present).insert(name.to_owned(), new.clone());
        let old = old.expect("the object exists");
        self.0.publish(&Delta::Updated { old, new });
    }

    fn delete(&self, name: &str) {
        let last = lock(&self.0.present).remove(name);
        let last = last.expect("the object exists");
        self.0.publish(&Delta::Deleted { last });
    }

    fn set_silence(&self, silence: Duration) {
        *lock(&self.0.silence) = silence;
    }

    /// Drops the cache.
    fn end(&self) {
        lock(&self.0.subscribers).clear();
    }
}

impl State {
    fn next(&self, name: &str) -> Arc<MetaObject> {
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        let json = json!({"metadata": {
            "namespace": "ns", "name": name, "uid": name,
            "resourceVersion": version.to_string(), "labels": {"version": version.to_string()},
        }});
        Arc::new(serde_json::from_value(json).expect("an object"))
    }

    fn publish(&self, delta: &Delta<MetaObject>) {
        lock(&self.subscribers).retain(|subscriber| subscriber.publish(delta.clone()));
    }
}

impl EventSource<MetaObject> for Pods {
    fn name(&self) -> String {
        "pods".to_owned()
    }

    fn subscribe(&self) -> Subscription<MetaObject> {
        let (publisher, subscription) = channel();
        for new in lock(&self.0.present).values().cloned() {
            publisher.publish(Delta::Added { new, initial: true });
        }
        lock(&self.0.subscribers).push(publisher);
        subscription
    }

    fn silence(&self) -> Option<(Duration, Status)> {
        let reason = "down".to_owned();
        Some((*lock(&self.0.silence), Status::Retrying { reason }))
    }

    fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let mut synced = self.0.synced.subscribe();
            synced.wait_for(|synced| *synced).await.expect("its sender lives");
        })
    }
}

impl<F, T> Reconciler for ReconcileFn<F>
where
    F: Fn(ReconcileContext, Key) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    fn reconcile(
        &self,
        context: ReconcileContext,
        key: Key,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send {
        (self.0)(context, key)
    }
}

/// Lines with the time at which they were written, in milliseconds since the start.
#[derive(Clone)]
struct Journal(Arc<Mutex<Vec<(u128, String)>>>);

impl Journal {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn write(&self, context: &ReconcileContext, what: impl Into<String>) {
        let at = context.env.clock.wall().duration_since(Timestamp::UNIX_EPOCH);
        lock(&self.0).push((at.unsigned_abs().as_millis(), what.into()));
    }

    fn lines(&self) -> Vec<String> {
        lock(&self.0).iter().map(|(_, what)| what.clone()).collect()
    }

    fn times(&self) -> Vec<u128> {
        lock(&self.0).iter().map(|(at, _)| *at).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
