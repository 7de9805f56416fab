//! A model of the nodes: pods are bound, run, become ready, and are removed after their deletion.
//!
//! It has the effects of hollow-kubelet with fewer requests, and does nothing where the processes run hollow-kubelet.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::super::random::Random;
use super::super::record::Commit;
use super::{Content, State, now};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The behaviour of the nodes.
#[derive(Default)]
pub(super) struct Nodes {
    /// False if the processes run hollow-kubelet.
    is_active: bool,
    /// The time that a pod needs to become ready, at most.
    start: Duration,
    disturbed_until: Option<Instant>,
    /// During a disturbance pods fail; otherwise they are not removed.
    fail: bool,
}

impl Nodes {
    pub(super) fn new(random: &mut Random, is_active: bool) -> Self {
        let start = *random.pick(&[0, 0, 1, 3]);
        Self {
            is_active,
            start: Duration::from_secs(start),
            disturbed_until: None,
            fail: false,
        }
    }

    pub(super) fn disturb(&mut self, until: Instant, variant: u32) {
        self.disturbed_until = Some(until);
        self.fail = variant.is_multiple_of(2);
    }

    /// Ends the disturbance.
    pub(super) fn end(&mut self) {
        self.disturbed_until = None;
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed_until.is_some_and(|until| until > now())
    }
}

/// A pod as its node reads it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pod<'a> {
    metadata: Metadata<'a>,
    spec: Spec<'a>,
    #[serde(default, borrow)]
    status: Status<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    deletion_timestamp: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Option<&'a str>,
}

#[derive(Default, Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<&'a str>,
}

/// The next step of a node for a pod.
pub(crate) enum NextStep {
    Bind,
    Run,
    Remove,
}

impl Pod<'_> {
    pub(crate) fn next(&self) -> Option<NextStep> {
        if self.metadata.deletion_timestamp.is_some() {
            return Some(NextStep::Remove);
        }
        match (self.spec.node_name, self.status.phase) {
            (None, _) => Some(NextStep::Bind),
            (Some(_), None | Some("Pending")) => Some(NextStep::Run),
            _ => None,
        }
    }
}

impl State {
    /// A node acts on a changed pod later.
    pub(super) fn pod_changed(&mut self, commit: &Commit) {
        let Some(after) = commit.after.as_ref().filter(|_| self.nodes.is_active) else {
            return;
        };
        let Ok(pod) = serde_json::from_slice::<Pod<'_>>(after) else {
            return;
        };
        let delay = match pod.next() {
            None => return,
            Some(NextStep::Bind) => Duration::ZERO,
            Some(NextStep::Run | NextStep::Remove) => self.random.up_to(self.nodes.start),
        };
        self.push(Content::Node(commit.key.clone()), Some(delay));
    }

    /// Performs the next step for a pod.
    pub(super) fn run_node(&mut self, key: &str) {
        let Some((namespace, name)) = key.split_once('/') else {
            return;
        };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let (code, body) = self.execute_now(Method::GET, &path, JSON, "");
        if code != 200 {
            return;
        }
        let Ok(pod) = serde_json::from_slice::<Pod<'_>>(&body) else {
            return;
        };
        let disturbed = self.nodes.is_disturbed();
        match pod.next() {
            Some(NextStep::Bind) => {
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
                });
                self.execute_now(
                    Method::POST,
                    &format!("{path}/binding"),
                    JSON,
                    binding.to_string(),
                );
            }
            Some(NextStep::Run) => {
                let now = wall(self);
                let status = if disturbed && self.nodes.fail {
                    json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "startTime": now}})
                } else {
                    let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
                    json!({"status": {"phase": "Running", "startTime": now, "conditions": [condition]}})
                };
                self.execute_now(
                    Method::PATCH,
                    &format!("{path}/status"),
                    MERGE,
                    status.to_string(),
                );
            }
            Some(NextStep::Remove) if disturbed && !self.nodes.fail => {
                let wait = self.nodes.disturbed_until.map(|until| until - now());
                self.push(Content::Node(key.to_owned()), wait);
            }
            Some(NextStep::Remove) => {
                let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                self.execute_now(Method::DELETE, &path, JSON, now.to_string());
            }
            None => {}
        }
    }
}

fn wall(state: &State) -> String {
    let start = super::super::START;
    let wall = start.saturating_add(state.at()).unwrap_or(start);
    jiff::Timestamp::from_second(wall.as_second())
        .unwrap_or(wall)
        .to_string()
}
