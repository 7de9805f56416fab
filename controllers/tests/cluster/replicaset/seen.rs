//! Pods and owners come by different watches: an owner that is there before its pods are makes some of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use coxswain_tests::fixtures::{self, with};
use serde_json::json;

use super::stage::{ELSEWHERE, Stage};

/// Whether the test has done something to pods that the controllers may not have seen.
#[derive(Default)]
pub struct Unseen(AtomicBool);

impl Unseen {
    /// It has.
    pub fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it has, since it was last asked.
    pub fn end(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Stage {
    /// Waits until the controllers have seen what has become of pods until now: something is made of one that comes after.
    pub async fn pods_are_seen(&self) {
        const NAME: &str = "the-last";
        let labels = json!({"app": NAME});
        let spec = json!({
            "selector": self.kind.selector(&labels), "template": {"metadata": {"labels": labels}},
        });
        // It wants none.
        let owner = with(self.owner_elsewhere(NAME, 0), json!({"spec": spec}));
        self.c.api().post(&self.owners(), owner).await.expect(201);
        let change = json!({"metadata": {"labels": labels}, "spec": {"nodeName": ELSEWHERE}});
        let pods = fixtures::core(&self.ns, "pods");
        let pod = with(fixtures::pod(NAME), change);
        self.c.api().post(&pods, pod).await.expect(201);
        self.pod_is(NAME, "is one too many", |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
        // Nobody ends it, and nobody is to count it.
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
