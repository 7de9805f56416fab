//! hollow-kubelet on the API.

mod hosted;
mod rejections;
mod writes;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_controllers::hollow_kubelet::{
    FAIL, LABEL, Node, Nodes, Options, Pod, StartError, act, build, may_start, plan,
};
use steersman_manager::cache::{Caches, Scope};
use steersman_manager::client::{
    Client, ClientError, Delete, Fence, ListQuery, Patch, Reader, Transport, View,
};
use steersman_manager::controller::{self, Runnable as _};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource, Uid};
use steersman_sandbox::{Env as SandboxEnv, Sandbox};
use tokio_util::sync::CancellationToken;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");

struct Fixture {
    env: Env,
    transport: Transport,
    client: Client,
    options: Options,
    _tasks: TaskSet,
}

fn fixture(options: Options) -> Fixture {
    let start = Timestamp::from_second(1_800_000_000).expect("a time");
    let sandbox = Sandbox::builder()
        .env(SandboxEnv::starting_at(start, 7))
        .start()
        .expect("a sandbox");
    let tasks = TaskSet::new();
    let env = Env::starting_at(start, 7, &tasks);
    let transport = Transport::from_service(
        sandbox.service(),
        "sandbox",
        "test",
        &env.clock,
        &Registry::new("steersman"),
    )
    .expect("a transport");
    Fixture {
        client: transport.unfenced("test", None),
        transport,
        env,
        options,
        _tasks: tasks,
    }
}

/// Without delay, with one node, beside foreign nodes.
fn at_once() -> Options {
    Options {
        nodes: 1,
        delay: Duration::ZERO,
        sandbox: true,
    }
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

impl Fixture {
    async fn list(&self, resource: &Resource) -> Vec<Value> {
        let query = ListQuery::default();
        let page = self
            .client
            .list(resource, "", &query, View::Full)
            .await
            .expect("a list");
        let list: Value = serde_json::from_slice(&page).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn all<T: serde::de::DeserializeOwned>(&self, resource: &Resource) -> Vec<T> {
        let items = self.list(resource).await.into_iter();
        items
            .map(|it| serde_json::from_value(it).expect("a projection"))
            .collect()
    }

    /// Reconciles everything once, like a controller with fresh caches. Returns the number of writes and the shortest requested
    /// delay.
    async fn round(&self) -> Result<(u32, Option<Duration>), ClientError> {
        let (mut writes, mut again) = (0, None);
        let nodes: Vec<Node> = self.all(&NODES).await;
        let cluster_nodes = Nodes::of(&nodes);
        for name in plan::node_names(&self.options) {
            let present = nodes.iter().find(|it| it.metadata.name == *name);
            let step = plan::node(
                &name,
                present,
                &cluster_nodes,
                &self.options,
                self.env.clock.wall(),
            );
            writes += u32::from(
                act::node(&self.client, &Key::cluster(name), step)
                    .await?
                    .is_some(),
            );
        }
        let pods: Vec<Pod> = self.all(&PODS).await;
        for pod in &pods {
            let taken = |ip: std::net::Ipv4Addr| pods.iter().any(|it| *it.ip() == *ip.to_string());
            let step = plan::pod(pod, &cluster_nodes, taken, &self.options, self.env.clock.wall());
            writes += u32::from(!matches!(step, plan::PodStep::Nothing | plan::PodStep::Wait(_)));
            let wait = act::pod(&self.client, pod, step).await?;
            again = [again, wait].into_iter().flatten().min();
        }
        Ok((writes, again))
    }

    /// Reconciles until there is nothing to do. Returns the number of writes.
    async fn settle(&self) -> u32 {
        let mut all = 0;
        for _ in 0..20 {
            match self.round().await.expect("no conflicts") {
                (0, None) => return all,
                (writes, again) => {
                    all += writes;
                    self.env.clock.sleep(again.unwrap_or_default()).await;
                }
            }
        }
        panic!("does not settle");
    }

    /// Runs the controller in a term that does not end.
    fn host(&self) {
        let registry = Registry::new("steersman");
        let caches = Caches::new(
            &self.env,
            Reader::clone(&self.client),
            Scope::default(),
            &registry,
        )
        .expect("caches");
        let client = self.transport.reader("hollow-kubelet", None);
        let how = controller::Options {
            workers: 4,
            ..controller::Options::default()
        };
        let hosted =
            build(&self.env, &caches, client, &registry, self.options.clone(), how).expect("a controller");
        let fence = Fence::new(self.env.clock.clone());
        let term = fence.open_forever();
        let run = async move { hosted.run(&fence, term, CancellationToken::new()).await };
        drop(self.env.tasks.spawn(run));
    }

    async fn until(&self, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..1000 {
            if holds(self).await {
                return;
            }
            self.env.clock.sleep(Duration::from_millis(100)).await;
        }
        panic!("timed out");
    }

    async fn create(&self, resource: &Resource, namespace: &str, body: &Value) -> Value {
        let body = body.to_string().into();
        self.client
            .create(resource, namespace, body)
            .await
            .expect("created")
    }

    async fn pod(&self, name: &str, more: &Value) -> Value {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "app"}]}});
        for (field, value) in more.as_object().into_iter().flatten() {
            for (key, value) in value.as_object().into_iter().flatten() {
                pod[field][key] = value.clone();
            }
        }
        self.create(&PODS, "default", &pod).await
    }

    async fn get(&self, name: &str) -> Value {
        self.client.get(&PODS, &key(name)).await.expect("found")
    }

    async fn node(&self, name: &str) -> Value {
        let node = self.client.get(&NODES, &Key::cluster(name)).await;
        node.expect("found")
    }

    async fn delete(&self, pod: &Value) {
        let uid = Uid::from(pod["metadata"]["uid"].as_str().expect("a uid"));
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let deleted = self.client.delete(&PODS, &key(name), &Delete::of(uid)).await;
        deleted.expect("marked for deletion");
    }
}
