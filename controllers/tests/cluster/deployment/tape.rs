//! Everything that happened to the objects of one kind, in order: what an answer of now does not tell.

use std::collections::BTreeMap;

use coxswain_tests::Watch;
use coxswain_tests::fixtures::{self, with};
use serde_json::{Value, json};

use super::objects::{UNMANAGED_NODE, deployment, items, name, replica_set};
use super::stage::Stage;

/// The beginning of the names of the objects that mark the end of a recording.
const FENCE: &str = "fence";

/// A recording.
pub struct Tape {
    path: String,
    watch: Watch,
    /// What there was when it began, by name.
    before: BTreeMap<String, Value>,
}

/// What was recorded.
pub struct Recorded {
    /// What there was when it began, by name.
    before: BTreeMap<String, Value>,
    /// What was seen since: the type, and the object.
    pub events: Vec<(String, Value)>,
}

impl Tape {
    /// Records a resource, `pods` or one of apps/v1, from now on.
    pub async fn of(s: &Stage, resource: &str) -> Self {
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

    /// All that was written before this moment.
    pub async fn stop(mut self, s: &Stage) -> Recorded {
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
        Recorded {
            before: self.before,
            events,
        }
    }
}

impl Recorded {
    /// Shows everything that there was at each moment.
    pub fn replay(&self, mut look: impl FnMut(&BTreeMap<String, Value>)) {
        let mut now = self.before.clone();
        look(&now);
        for (kind, object) in &self.events {
            if kind == "DELETED" {
                now.remove(&name(object));
            } else {
                now.insert(name(object), object.clone());
            }
            look(&now);
        }
    }

    /// How often something was seen, one after the other, without what did not change.
    pub fn story<T: PartialEq>(&self, look: impl Fn(&Value) -> T) -> Vec<T> {
        let mut story = Vec::new();
        for (_, object) in &self.events {
            story.push(look(object));
        }
        story.dedup();
        story
    }
}
