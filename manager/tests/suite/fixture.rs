//! A sandbox with a fault-injecting client, for the tests of small modules.

use std::sync::Mutex;

use jiff::Timestamp;
use serde_json::Value;
use steersman_manager::client::{Client, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::faults::{Effect, Faults, Matcher, RuleHandle};
use steersman_sandbox::{Env as SandboxEnv, Sandbox};

const START: i64 = 1_800_000_000;

/// A sandbox with a client that may write.
pub struct Fixture {
    pub env: Env,
    pub registry: Registry,
    pub transport: Transport,
    pub client: Client,
    pub faults: Faults,
    injected: Mutex<Vec<RuleHandle>>,
    pub tasks: TaskSet,
}

/// Returns an answer of a proxy with this code.
pub fn proxy_reply(code: u16) -> Effect {
    Effect::reply(code, "the upstream is not available")
}

pub fn fixture() -> Fixture {
    let start = Timestamp::from_second(START).expect("a time");
    let sandbox = Sandbox::builder()
        .env(SandboxEnv::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let registry = Registry::new("test");
    let faults = Faults::new();
    let service = faults.wrap(sandbox.service());
    let transport =
        Transport::from_service(service, "sandbox", "test", &env.clock, &registry).expect("a transport");
    Fixture {
        client: transport.unfenced("test", None),
        env,
        registry,
        transport,
        faults,
        injected: Mutex::default(),
        tasks,
    }
}

impl Fixture {
    pub async fn create(&self, resource: &Resource, namespace: &str, body: &Value) -> Value {
        let created = self.client.create(resource, namespace, body.to_string().into());
        created.await.expect("created")
    }

    pub async fn get(&self, resource: &Resource, key: &Key) -> Value {
        self.client.get(resource, key).await.expect("an object")
    }

    /// Injects faults into the next writes, in this order.
    pub fn inject(&self, effects: impl IntoIterator<Item = Effect>) {
        let writes = || self.faults.on(Matcher::writes()).times(1);
        let rules = effects.into_iter().map(|it| writes().effect(it));
        *self.injected.lock().expect("no panic") = rules.collect();
    }

    /// Returns the number of writes sent.
    pub fn writes(&self) -> usize {
        self.faults.count(&Matcher::writes())
    }

    /// Returns the number of injected faults that are left.
    pub fn faults_left(&self) -> usize {
        let rules = self.injected.lock().expect("no panic");
        rules.iter().filter(|rule| rule.applied() == 0).count()
    }
}
