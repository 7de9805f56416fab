//! Records all watch events of one resource.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_harness::Watch;
use steersman_harness::fixtures::{self, with};

use super::fixture::Fixture;
use super::objects::{UNMANAGED_NODE, deployment, items, name, replica_set};

/// The name prefix of objects that mark the end of a recording.
const FENCE: &str = "fence";

/// A recording in progress.
pub struct WatchRecorder {
    path: String,
    watch: Watch,
    /// The objects at the start, by name.
    before: BTreeMap<String, Value>,
}

/// A finished recording.
pub struct Recording {
    /// The objects at the start, by name.
    before: BTreeMap<String, Value>,
    /// The events since the start: type and object.
    pub events: Vec<(String, Value)>,
}

impl WatchRecorder {
    /// Starts recording `pods` or a resource of apps/v1.
    pub async fn of(s: &Fixture, resource: &str) -> Self {
        let path = match resource {
            "pods" => fixtures::core(&s.ns, resource),
            _ => s.path(resource, ""),
        };
        let list = s.c.api().get(&path).await.expect(200);
        let from = list["metadata"]["resourceVersion"].as_str().expect("a version");
        let watch =
            s.c.api()
                .watch(&format!("{path}?watch=1&resourceVersion={from}"))
                .await;
        let before = items(&list).into_iter().map(|it| (name(&it), it)).collect();
        Self { path, watch, before }
    }

    /// Returns all events up to now.
    pub async fn stop(mut self, s: &Fixture) -> Recording {
        let fence = if self.path.ends_with("/pods") {
            let change =
                json!({"metadata": {"labels": {"app": FENCE}}, "spec": {"nodeName": UNMANAGED_NODE}});
            with(fixtures::pod(FENCE), change)
        } else if self.path.ends_with("/deployments") {
            let paused = json!({"spec": {"paused": true, "replicas": 0}});
            with(deployment(FENCE, 0), paused)
        } else {
            replica_set(FENCE, FENCE, 0)
        };
        let unnamed = json!({"metadata": {"name": null, "generateName": FENCE}});
        let fence = s.c.api().post(&self.path, with(fence, unnamed)).await.expect(201);
        let mut events = Vec::new();
        loop {
            let mut event = self.watch.event().await;
            let kind = event["type"].as_str().unwrap_or_default().to_owned();
            let object = event["object"].take();
            if name(&object) == name(&fence) {
                break;
            }
            if !name(&object).starts_with(FENCE) {
                events.push((kind, object));
            }
        }
        Recording {
            before: self.before,
            events,
        }
    }
}

impl Recording {
    /// Calls `observe` with the objects at the start and after each event.
    pub fn replay(&self, mut observe: impl FnMut(&BTreeMap<String, Value>)) {
        let mut now = self.before.clone();
        observe(&now);
        for (kind, object) in &self.events {
            if kind == "DELETED" {
                now.remove(&name(object));
            } else {
                now.insert(name(object), object.clone());
            }
            observe(&now);
        }
    }

    /// Maps each event and removes consecutive duplicates.
    pub fn distinct<T: PartialEq>(&self, value: impl Fn(&Value) -> T) -> Vec<T> {
        let mut values = Vec::new();
        for (_, object) in &self.events {
            values.push(value(object));
        }
        values.dedup();
        values
    }
}
