//! Response bodies at one byte per second: requests end at their deadline, their number is bounded, and caches converge.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::cache::{Cache, Caches, Scope};
use steersman_manager::client::{Client, ClientError, Patch, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Faults, Matcher};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    env: Env,
    faults: Faults,
    transport: Transport,
    client: Client,
    _tasks: TaskSet,
}

fn fixture() -> Fixture {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(Timestamp::UNIX_EPOCH, 1))
        .start()
        .expect("a sandbox");
    let faults = Faults::new();
    let service = faults.wrap(sandbox.service());
    let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &Registry::new("test"));
    let transport = transport.expect("a transport");
    Fixture {
        client: transport.unfenced("test", None),
        env,
        faults,
        transport,
        _tasks: tasks,
    }
}

impl Fixture {
    async fn create(&self, name: &str) -> Result<Value, ClientError> {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client
            .create(&MAPS, "default", body.to_string().into())
            .await
    }

    fn caches(&self) -> Caches {
        let reader = self.transport.reader("reader", None);
        Caches::new(&self.env, reader, Scope::default(), &Registry::new("test")).expect("caches")
    }
}

#[tokio::test(start_paused = true)]
async fn slow_body_fails_a_request_at_its_deadline() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.faults.on(Matcher::any()).slow_body(SECOND);
    let key = Key::new("default", "a");
    let begun = f.env.clock.now();
    let read: Result<Value, _> = f.client.get(&MAPS, &key).await;
    assert!(matches!(read, Err(ClientError::Timeout { .. })), "{read:?}");
    assert_eq!(f.env.clock.now() - begun, 30 * SECOND);

    // The API server has executed it: the outcome is unknown, not a failure.
    let created = f.create("b").await.expect_err("too slow");
    assert!(created.is_unknown_outcome(), "{created:?}");
    assert_eq!(f.env.clock.now() - begun, 60 * SECOND);
    let change = json!({"data": {"a": "b"}});
    let patched: Result<Value, _> = f.client.patch(&MAPS, &key, Patch::merge(&change)).await;
    assert!(patched.expect_err("too slow").is_unknown_outcome());
    assert_eq!(f.env.clock.now() - begun, 63 * SECOND);

    // An error whose Status does not arrive.
    let missing: Result<Value, _> = f.client.get(&MAPS, &Key::new("default", "missing")).await;
    let missing = missing.expect_err("not found");
    assert!(
        !missing.is_not_found("missing"),
        "no proof of absence: {missing:?}"
    );
    assert_eq!(f.env.clock.now() - begun, 93 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slow_lists_are_retried_with_backoff_and_the_cache_syncs_after_recovery() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.faults.on(Matcher::any()).slow_body(SECOND);
    let before = f.faults.count(&Matcher::any());
    let caches = f.caches();
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    f.env.clock.sleep(600 * SECOND).await;
    assert!(!maps.is_synced());
    // Each list takes its deadline of 30 s. The backoff grows from 0.8 s to 30 s, plus as much jitter.
    let lists = f.faults.count(&Matcher::any()) - before;
    assert!((10..=13).contains(&lists), "{lists} requests in ten minutes");
    f.faults.clear();
    // The list in flight, and the longest backoff.
    let synced = f.env.clock.timeout(91 * SECOND, maps.synced()).await;
    assert!(synced.is_some());
    assert_eq!(maps.len(), 1);
}

/// Each watch receives bytes, but no event within the idle timeout.
#[tokio::test(start_paused = true)]
async fn slow_watches_do_not_keep_the_cache_stale() {
    let f = fixture();
    f.create("a").await.expect("created");
    f.faults.on(Matcher::verb("watch")).slow_body(SECOND);
    let caches = f.caches();
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    maps.synced().await;
    f.env.clock.sleep(SECOND).await;
    f.create("b").await.expect("created");
    let before = f.faults.count(&Matcher::any());
    // Two watches of 150 s without an event, then a list.
    f.env.clock.sleep(310 * SECOND).await;
    assert_eq!(maps.len(), 2, "the cache is stale");
    f.env.clock.sleep(3600 * SECOND).await;
    let requests = f.faults.count(&Matcher::any()) - before;
    assert!(requests < 80, "{requests} requests in an hour");
}
