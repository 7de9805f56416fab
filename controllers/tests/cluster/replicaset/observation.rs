//! Waits until the controllers have observed pods, or the test has observed all events.
//!
//! An owner that is observed before its pods would create more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use steersman_harness::Watch;
use steersman_harness::fixtures::{self, with};

use super::fixture::{Fixture, UNMANAGED_NODE, name};

/// The name of objects that are created after all others.
const LAST: &str = "the-last";

/// Whether the test has changed pods since the controllers last observed them.
#[derive(Default)]
pub struct PodChanges(AtomicBool);

impl PodChanges {
    pub fn record(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Reports whether there were changes, and resets the flag.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Fixture {
    /// Waits until the controllers have observed all changes of pods: they act on a pod that is created now.
    pub async fn pods_are_observed(&self) {
        let (owners, pods) = (self.owners(), fixtures::core(&self.ns, "pods"));
        self.c.api().post(&owners, self.last_owner()).await.expect(201);
        self.c.api().post(&pods, last_pod()).await.expect(201);
        self.pod_is(LAST, "is surplus", |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        self.delete_last(&pods).await;
        self.delete_last(&owners).await;
    }

    /// Returns all events of pods until none comes for two seconds.
    pub async fn drain_pods(&self, watch: &mut Watch) -> Vec<Value> {
        let pods = fixtures::core(&self.ns, "pods");
        self.drain(watch, &pods, last_pod()).await
    }

    /// Returns all events of owners until none comes for two seconds.
    pub async fn drain_owners(&self, watch: &mut Watch) -> Vec<Value> {
        self.drain(watch, &self.owners(), self.last_owner()).await
    }

    /// The watch may be late by more than two seconds. The event of a new object shows that it has sent all others.
    async fn drain(&self, watch: &mut Watch, path: &str, last: Value) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = watch.next(Duration::from_secs(2)).await {
            events.push(event);
        }
        let last = self.c.api().post(path, last).await.expect(201);
        loop {
            let event = watch.event().await;
            if event["object"]["metadata"]["uid"] == last["metadata"]["uid"] {
                break;
            }
            events.push(event);
        }
        self.delete_last(path).await;
        // The object of an earlier call is deleted after that call has returned.
        events.retain(|event| name(&event["object"]) != LAST);
        events
    }

    /// An owner of zero replicas that selects only [`last_pod`].
    fn last_owner(&self) -> Value {
        let labels = json!({"app": LAST});
        let spec = json!({
            "selector": self.kind.selector(&labels), "template": {"metadata": {"labels": labels}},
        });
        with(self.owner_on_unmanaged_node(LAST, 0), json!({"spec": spec}))
    }

    /// Deletes the last object of a collection at once: no kubelet removes a pod, and no test counts it.
    async fn delete_last(&self, path: &str) {
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let path = format!("{path}/{LAST}");
        self.c.api().delete(&path, options).await.expect(200);
    }
}

fn last_pod() -> Value {
    let change = json!({"metadata": {"labels": {"app": LAST}}, "spec": {"nodeName": UNMANAGED_NODE}});
    with(fixtures::pod(LAST), change)
}
