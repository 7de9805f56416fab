//! The ownership tree below an object.

use super::snapshot::{Object, Snapshot};

/// One object of the tree.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// Box-drawing characters in front of the object.
    pub(super) branch: String,
    pub(super) object: &'a Object,
}

/// Width of the first column; longer names exceed it.
const NAME_WIDTH: usize = 44;

impl Line<'_> {
    pub(super) fn text(&self) -> String {
        let Object { kind, .. } = self.object;
        let name = format!("{}{kind} {}", self.branch, self.object.name());
        format!("{name:<NAME_WIDTH$}  {}", self.object.summary())
    }
}

/// Returns `root` and its dependents. `ReplicaSets` that are scaled to zero, the revision history, are left out.
pub(super) fn dependents<'a>(snapshot: &'a Snapshot, root: &'a Object) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    add(snapshot, root, "", "", &mut lines);
    lines
}

fn add<'a>(snapshot: &'a Snapshot, object: &'a Object, branch: &str, trunk: &str, lines: &mut Vec<Line<'a>>) {
    // Owner references can form a cycle.
    if lines.iter().any(|it| it.object.uid() == object.uid()) {
        return;
    }
    lines.push(Line {
        branch: branch.to_owned(),
        object,
    });
    let children: Vec<&Object> = snapshot
        .0
        .iter()
        .filter(|it| it.owner_uids().any(|owner| owner == object.uid()) && !is_history(it))
        .collect();
    for (at, child) in children.iter().enumerate() {
        let (fork, bar) = if at + 1 == children.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        add(
            snapshot,
            child,
            &format!("{trunk}{fork}"),
            &format!("{trunk}{bar}"),
            lines,
        );
    }
}

fn is_history(object: &Object) -> bool {
    object.kind == "ReplicaSet"
        && object.number("/spec/replicas") == 0
        && object.number("/status/replicas") == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::{Value, json};

    fn object(kind: &'static str, name: &str, owner: &str, mut value: Value) -> Object {
        value["metadata"] = json!({"name": name, "uid": name, "ownerReferences": [{"uid": owner}]});
        Object { kind, value }
    }

    #[test]
    fn dependents_are_below_their_owner_without_revision_history() {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let snapshot = Snapshot(vec![
            object("AppService", "hello", "", json!({"spec": {"replicas": 2}})),
            object(
                "Service",
                "hello-s",
                "hello",
                json!({"spec": {"clusterIP": "10.0.0.1"}}),
            ),
            object(
                "Deployment",
                "hello-d",
                "hello",
                json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 1}}),
            ),
            object("ReplicaSet", "old", "hello-d", json!({"spec": {"replicas": 0}})),
            object(
                "ReplicaSet",
                "new",
                "hello-d",
                json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}),
            ),
            object(
                "Pod",
                "a",
                "new",
                json!({"spec": {"nodeName": "n"}, "status": ready}),
            ),
            object("Pod", "b", "new", json!({"status": {"phase": "Pending"}})),
            object("Pod", "foreign", "", json!({})),
        ]);
        let lines: Vec<String> = dependents(&snapshot, &snapshot.0[0])
            .iter()
            .map(Line::text)
            .collect();
        let squeezed: Vec<String> = lines
            .iter()
            .map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            squeezed,
            [
                "AppService hello not ready, 0 of 2 available",
                "├─ Service hello-s 10.0.0.1",
                "└─ Deployment hello-d 1 of 2 available",
                "└─ ReplicaSet new 1 of 2 ready",
                "├─ Pod a Running, ready on n",
                "└─ Pod b Pending",
            ]
        );
        assert!(
            lines[3].starts_with("   └─ ") && lines[4].starts_with("      ├─ "),
            "{lines:?}"
        );
    }

    #[test]
    fn ownership_cycle_ends() {
        let snapshot = Snapshot(vec![
            object("Pod", "a", "b", json!({})),
            object("Pod", "b", "a", json!({})),
        ]);
        assert_eq!(dependents(&snapshot, &snapshot.0[0]).len(), 2);
    }
}
