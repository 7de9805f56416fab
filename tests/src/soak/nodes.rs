//! The nodes: pods are bound, run, become ready, and are removed after their deletion.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use steersman_harness::{Api, fixtures, time};
use steersman_manager::env::Tasks;

use super::etcd::Change;
use crate::simulation::network::{NextStep, Pod};

/// The number of attempts of one step.
const ATTEMPTS: usize = 5;
/// The time between two attempts.
const RETRY: Duration = Duration::from_millis(500);

/// Performs the next step for a changed pod, after a delay.
pub(super) fn pod_changed(change: &Change, api: &Api, tasks: &Tasks, delay: Duration) {
    let Some(after) = &change.after else { return };
    let Ok(pod) = serde_json::from_slice::<Pod<'_>>(after) else {
        return;
    };
    let (Some(next), Some((namespace, name))) = (pod.next(), change.key.split_once('/')) else {
        return;
    };
    let path = format!("{}/{name}", fixtures::core(namespace, "pods"));
    let (name, uid, api) = (name.to_owned(), change.uid.clone(), api.clone());
    tasks.spawn(async move {
        time::pause(delay).await;
        for _ in 0..ATTEMPTS {
            if perform(&api, &next, &path, &name, &uid).await {
                return;
            }
            time::pause(RETRY).await;
        }
    });
}

/// Returns whether the step is done, or is not necessary any more.
async fn perform(api: &Api, next: &NextStep, path: &str, name: &str, uid: &str) -> bool {
    let (method, path, headers, body) = match next {
        NextStep::Bind => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
            });
            (
                Method::POST,
                format!("{path}/binding"),
                "application/json",
                binding,
            )
        }
        NextStep::Run => {
            let now = now();
            let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
            let status = json!({
                "metadata": {"uid": uid},
                "status": {"phase": "Running", "startTime": now, "conditions": [condition]},
            });
            (Method::PATCH, format!("{path}/status"), fixtures::MERGE, status)
        }
        NextStep::Remove => {
            let options = json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid},
            });
            (Method::DELETE, path.to_owned(), "application/json", options)
        }
    };
    let reply = api
        .try_request(method, &path, &[("content-type", headers)], body)
        .await;
    // Bound or removed already, or the name belongs to another pod.
    reply.is_ok_and(|it| it.status < 300 || matches!(it.status, 404 | 409))
}

/// Returns the wall time in whole seconds.
fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    let now = std::time::SystemTime::now();
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
