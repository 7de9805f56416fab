//! A controller on caches of the sandbox, under the paused clock: the complete path of an event.
//!
//! It creates a child for every `ConfigMap` with the label `parent`. That needs a source for the object, one for the owner, a
//! cache and a write.

mod shards;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use steersman_manager::metrics::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use steersman_manager::cache::{Cache, Caches, Lookup, Scope};
use steersman_manager::client::{Fence, Transport};
use steersman_manager::controller::{
    Action, Builder, Fatal, Options, ReconcileContext, ReconcileError, Reconciler, Runnable,
};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::handler::Handler;
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_manager::source::Source;
use steersman_sandbox::Sandbox;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

struct Parents {
    maps: Cache<MetaObject>,
    runs: Arc<AtomicUsize>,
}

impl Reconciler for Parents {
    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let Lookup::Present(parent) = self.maps.get(&key) else {
            return Ok(Action::Done);
        };
        let meta = &parent.metadata;
        let has_child = !self.maps.by_owner(&meta.uid).is_empty();
        if meta.labels.get("parent").is_some() && !has_child {
            let owner = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": meta.name, "uid": meta.uid, "controller": true,
            });
            let child =
                json!({"metadata": {"name": format!("{}-child", meta.name), "ownerReferences": [owner]}});
            let body = child.to_string().into();
            context
                .client
                .create::<Value>(&MAPS, &key.namespace, body)
                .await?;
        }
        Ok(Action::Done)
    }
}

struct Fixture {
    env: Env,
    fence: Fence,
    api: Api<ConfigMap>,
    controller: Arc<dyn Runnable>,
    runs: Arc<AtomicUsize>,
    _caches: Caches,
    _tasks: TaskSet,
}

fn start() -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 0, &tasks);
    let registry = Registry::new("test");
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, 0))
        .start()
        .expect("a sandbox");
    let transport = Transport::from_service(sandbox.service(), "sandbox", "test", &env.clock, &registry)
        .expect("a transport");
    let caches =
        Caches::new(&env, transport.reader("cache", None), Scope::default(), &registry).expect("caches");
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    let runs = Arc::new(AtomicUsize::new(0));
    let reconciler = Parents {
        maps: maps.clone(),
        runs: runs.clone(),
    };
    let options = Options {
        workers: 2,
        ..Options::default()
    };
    let controller = Builder::new("parents", options, reconciler)
        .watch(Source::new(maps.clone(), Handler::for_object()))
        .watch(Source::new(maps, Handler::for_owner(MAPS)))
        .build(&env, transport.reader("parents", None), &registry)
        .expect("a controller");
    Fixture {
        fence: Fence::new(env.clock.clone()),
        api: Api::namespaced(kube::Client::new(sandbox.service(), "default"), "default"),
        controller: Arc::new(controller),
        runs,
        env,
        _caches: caches,
        _tasks: tasks,
    }
}

impl Fixture {
    fn run(&self) -> JoinHandle<Result<(), Fatal>> {
        let (fence, controller) = (self.fence.clone(), self.controller.clone());
        let term = fence.open_forever();
        let run = async move { controller.run(&fence, term, CancellationToken::new()).await };
        self.env.tasks.spawn(run)
    }

    async fn create_parent(&self, name: &str) {
        let parent = serde_json::from_value(json!({"metadata": {"name": name, "labels": {"parent": ""}}}));
        let parent = parent.expect("a map");
        self.api
            .create(&PostParams::default(), &parent)
            .await
            .expect("created");
    }

    async fn exists(&self, name: &str) -> bool {
        self.api.get_opt(name).await.expect("an answer").is_some()
    }

    async fn sleep(&self, seconds: u64) {
        self.env.clock.sleep(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_an_object_and_its_dependents_reach_the_reconciler() {
    let test = start();
    test.create_parent("before").await;
    let running = test.run();
    test.sleep(10).await;
    assert!(test.controller.unsynced().is_empty());
    assert!(test.exists("before-child").await);

    test.create_parent("after").await;
    test.sleep(10).await;
    assert!(test.exists("after-child").await);

    let deleted = test.api.delete("after-child", &DeleteParams::default()).await;
    deleted.expect("deleted");
    test.sleep(10).await;
    assert!(test.exists("after-child").await, "its owner was reconciled");

    let runs = test.runs.load(Ordering::SeqCst);
    test.sleep(3600).await;
    assert_eq!(
        test.runs.load(Ordering::SeqCst),
        runs,
        "nothing happens when nothing changes"
    );
    assert!(!running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn standby_does_nothing_and_a_new_term_catches_up() {
    let test = start();
    let first = test.run();
    test.sleep(10).await;
    test.fence.close();
    first.await.expect("not aborted").expect("not fatal");
    test.create_parent("a").await;
    test.sleep(3600).await;
    assert!(!test.exists("a-child").await);
    let _second = test.run();
    test.sleep(10).await;
    assert!(test.exists("a-child").await);
}
