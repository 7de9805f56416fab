//! The history of each object, for reports.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::etcd::Change;
use crate::simulation::record::Request;

/// The largest length of a line.
const LINE_MAX: usize = 700;

#[derive(Default)]
pub(super) struct Histories {
    /// One line for each commit, by resource and key.
    objects: BTreeMap<(String, String), Vec<String>>,
    /// The writes of the processes, by number.
    requests: BTreeMap<usize, String>,
}

impl Histories {
    pub(super) fn clear(&mut self) {
        self.objects.clear();
        self.requests.clear();
    }

    pub(super) fn request(&mut self, request: &Request) {
        if matches!(request.verb, "get" | "list" | "watch") {
            return;
        }
        let Request {
            sender, agent, verb, ..
        } = request;
        self.requests
            .insert(request.number, format!("{verb} by {agent} in {sender:?}"));
    }

    pub(super) fn commit(&mut self, change: &Change, request: Option<usize>, at: Duration) {
        let request = request.and_then(|it| self.requests.get(&it));
        let by = request.map_or("another client", |it| it);
        let mut line = format!(
            "{:9.3} revision {}, {by}: {}",
            at.as_secs_f64(),
            change.revision,
            change
                .after
                .as_ref()
                .map_or_else(|| "removed".to_owned(), summary),
        );
        if let Some((end, _)) = line.char_indices().nth(LINE_MAX) {
            line.truncate(end);
        }
        let key = (change.collection.clone(), change.key.clone());
        self.objects.entry(key).or_default().push(line);
    }

    /// Returns the histories of the objects that a message names.
    pub(super) fn of(&self, message: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for ((collection, key), history) in &self.objects {
            if message.contains(&format!("{collection} {key} ")) {
                lines.push(format!("{collection} {key}:"));
                lines.extend(history.iter().cloned());
            }
        }
        lines
    }
}

/// Returns the parts of an object that the invariants are about.
fn summary(object: &Bytes) -> String {
    let mut object: Value = serde_json::from_slice(object).unwrap_or_default();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        metadata.remove("annotations");
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|field, _| {
            ["replicas", "paused", "nodeName", "deploymentName", "strategy"].contains(&field.as_str())
        });
    }
    format!(
        "metadata {} spec {} status {}",
        object["metadata"], object["spec"], object["status"]
    )
}
