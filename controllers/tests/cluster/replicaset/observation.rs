//! Waits until the controllers have observed pods: an owner that is observed before its pods would create more.

use std::sync::atomic::{AtomicBool, Ordering};

use coxswain_tests::fixtures::{self, with};
use serde_json::json;

use super::fixture::{Fixture, UNMANAGED_NODE};

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
        const NAME: &str = "the-last";
        let labels = json!({"app": NAME});
        let spec = json!({
            "selector": self.kind.selector(&labels), "template": {"metadata": {"labels": labels}},
        });
        // Zero replicas.
        let owner = with(self.owner_on_unmanaged_node(NAME, 0), json!({"spec": spec}));
        self.c.api().post(&self.owners(), owner).await.expect(201);
        let change = json!({"metadata": {"labels": labels}, "spec": {"nodeName": UNMANAGED_NODE}});
        let pods = fixtures::core(&self.ns, "pods");
        let pod = with(fixtures::pod(NAME), change);
        self.c.api().post(&pods, pod).await.expect(201);
        self.pod_is(NAME, "is surplus", |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        // No kubelet removes it, and no test counts it.
        let now = json!({"gracePeriodSeconds": 0});
        self.c
            .api()
            .delete(&format!("{pods}/{NAME}"), now)
            .await
            .expect(200);
        let owner = format!("{}/{NAME}", self.owners());
        self.c
            .api()
            .delete(&owner, json!({"propagationPolicy": "Background"}))
            .await
            .expect(200);
    }
}
