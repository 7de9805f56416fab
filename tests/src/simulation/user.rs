//! The user of a scenario: creates, changes and deletes objects, between any two messages.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use steersman_controllers::api;

use super::fault::Class;
use super::network::{self, Covers, Effect, Network};
use super::random::Random;
use super::scenario::Steps;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/steersman";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// The time in which the API servers do not run while the storage is restored.
const RESTORE: Duration = Duration::from_secs(10);

/// Executes requests directly on the API, which never fail by a fault.
pub struct User {
    api: Box<dyn UserApi>,
    /// None outside of the simulation.
    network: Option<Network>,
    random: Random,
    /// Instead of the namespace `default`.
    namespace: Option<String>,
}

/// The API of a user.
pub trait UserApi: Send {
    /// Executes a request. Returns the code and the body.
    fn execute(&mut self, method: Method, uri: &str, content_type: &'static str, body: Bytes)
    -> (u16, Bytes);

    /// Waits for a number of messages, for a short time at most: nothing may be on the way.
    fn after(&mut self, messages: usize) -> Steps<'_>;

    /// The longest pause between two steps.
    fn pause_max(&self) -> Duration;
}

impl UserApi for Network {
    fn execute(
        &mut self,
        method: Method,
        uri: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> (u16, Bytes) {
        self.state().execute_now(method, uri, content_type, body)
    }

    fn after(&mut self, messages: usize) -> Steps<'_> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = Self::after(self, messages) => {}
                () = sleep(Duration::from_secs(4)) => {}
            }
        })
    }

    fn pause_max(&self) -> Duration {
        Duration::from_secs(8)
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of the run")]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents stay.
    Orphan,
}

impl User {
    pub(super) fn from_network(network: Network, seed: u64) -> Self {
        Self {
            network: Some(network.clone()),
            ..Self::new(network, seed)
        }
    }

    pub(crate) fn new(api: impl UserApi + 'static, seed: u64) -> Self {
        Self {
            api: Box::new(api),
            network: None,
            random: Random::new(seed),
            namespace: None,
        }
    }

    fn network(&self) -> &Network {
        self.network.as_ref().expect("a scenario of the simulation only")
    }

    /// Creates a namespace, and uses it instead of `default`.
    pub(super) fn use_namespace(&mut self, name: String) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &namespace);
        self.namespace = Some(name);
    }

    /// Creates the CRDs of the product again if they were removed.
    pub(super) fn restore_crds(&mut self) {
        for crd in removed_crds(self) {
            self.create(CRDS, crd);
        }
    }

    /// Returns the generator of the user's choices.
    pub const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Waits for a random number of messages, up to `most`, or for a random time.
    pub async fn pause(&mut self, most: usize) {
        if self.random.percent(50) {
            let time = self.random.up_to(self.api.pause_max());
            self.wait(time).await;
            return;
        }
        let messages = self.random.below(most + 1);
        self.api.after(messages).await;
    }

    /// Lets time pass.
    pub async fn wait(&mut self, time: Duration) {
        sleep(time).await;
    }

    /// Waits until `holds`, for a minute at most: faults may prevent it.
    pub async fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = network::now() + Duration::from_mins(1);
        while !holds(self) && network::now() < end {
            self.wait(Duration::from_millis(500)).await;
        }
    }

    /// Starts an outage of some requests of the processes. The bounds of the checker allow for its class of fault, if it has one.
    pub fn begin_outage(&mut self, class: Option<Class>, covers: Covers, effect: Effect, time: Duration) {
        self.network().state().begin_outage(class, covers, effect, time);
    }

    /// Stops the watch caches of a resource for some time: those of one API server, or of all.
    pub fn hold(&mut self, server: Option<usize>, collection: &str, time: Duration) {
        self.network().state().hold(server, collection, time);
    }

    /// Delays the events of the open watches of a resource by a short time.
    pub fn delay_events(&mut self, collection: &str, time: Duration) {
        self.network().state().delay_events(collection, time);
    }

    /// Discards the history of the storage: watches from an older revision fail with 410.
    pub fn compact(&mut self) {
        let mut state = self.network().state();
        state.sandbox.compact(state.sandbox.revision());
        state.report(Class::F21);
    }

    /// Returns all objects, for [`restore`](Self::restore).
    pub fn backup(&mut self) -> String {
        self.network().state().sandbox.export()
    }

    /// Replaces all objects with those of a backup. The API servers do not run meanwhile, which has this effect on requests.
    pub async fn restore(&mut self, backup: &str, effect: Effect) {
        self.network().state().disconnect();
        let time = RESTORE + Duration::from_millis(1);
        self.begin_outage(Some(Class::F12), Covers::All, effect, time);
        self.wait(RESTORE).await;
        self.network().state().restore(backup);
    }

    /// Lets a webhook change the templates of new `ReplicaSets`.
    pub fn change_templates(&mut self) {
        self.network().state().changes_templates = true;
    }

    /// Crashes the leader.
    pub fn crash_leader(&mut self) {
        if let Some(leader) = self.leader() {
            self.network().state().crash_as_step(leader);
        }
    }

    /// Stops the leader in order if there is another process, and starts it again later.
    pub fn stop_leader(&mut self) {
        if let Some(leader) = self.leader() {
            let stop = self.network().state().stop(leader);
            // Without the lock: it wakes tasks.
            if let Some(stop) = stop {
                stop.cancel();
            }
        }
    }

    /// Returns the number of the process that holds the Lease.
    fn leader(&mut self) -> Option<usize> {
        let lease = self.get(LEASE);
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        holder.strip_prefix("process-")?.parse().ok()
    }

    /// Sends a request. Returns the code and the body.
    pub fn request(&mut self, method: Method, uri: &str, body: &Value) -> (u16, Value) {
        let content_type = if method == Method::PATCH { MERGE } else { JSON };
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let moved = self.namespace.as_ref().map(|name| {
            let (old, new) = ("/namespaces/default/", format!("/namespaces/{name}/"));
            uri.replacen(old, &new, 1)
        });
        let uri = moved.as_deref().unwrap_or(uri);
        let (code, body) = self.api.execute(method, uri, content_type, body);
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Creates an object under the path of its resource.
    pub fn create(&mut self, resource: &str, object: &Value) -> Value {
        self.request(Method::POST, resource, object).1
    }

    /// Returns an object; null if it does not exist.
    pub fn get(&mut self, path: &str) -> Value {
        let (code, object) = self.request(Method::GET, path, &Value::Null);
        if code == 200 { object } else { Value::Null }
    }

    /// Returns the objects under the path of a resource.
    pub fn list(&mut self, resource: &str) -> Vec<Value> {
        let (_, mut list) = self.request(Method::GET, resource, &Value::Null);
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Merges a change into an object.
    pub fn patch(&mut self, path: &str, change: &Value) -> u16 {
        self.request(Method::PATCH, path, change).0
    }

    /// Deletes an object.
    pub fn delete(&mut self, path: &str, policy: Policy) -> u16 {
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": format!("{policy:?}"),
        });
        self.request(Method::DELETE, path, &options).0
    }
}

/// Returns the CRDs of the product that do not exist.
fn removed_crds(user: &mut User) -> Vec<&'static Value> {
    static CRD_LIST: LazyLock<Vec<Value>> = LazyLock::new(api::crds);
    let is_removed = |crd: &&Value| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        // Without decoding the CRD, which is large.
        let uri = format!("{CRDS}/{name}");
        let (code, _) = user.api.execute(Method::GET, &uri, JSON, Bytes::new());
        code == 404
    };
    CRD_LIST.iter().filter(is_removed).collect()
}
