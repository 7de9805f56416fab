//! The tree below an object, one line for each that hangs on it.

use super::world::{Object, World};

/// A line of a tree.
#[derive(Debug, PartialEq)]
pub(crate) struct Line<'a> {
    /// The branches before it.
    pub(crate) branch: String,
    /// What it is about.
    pub(crate) object: &'a Object,
}

/// How far to the right the states stand, unless a name is longer.
const NAMES: usize = 44;

impl Line<'_> {
    /// The line, as it is shown.
    pub(crate) fn text(&self) -> String {
        let Object { kind, .. } = self.object;
        let name = format!("{}{kind} {}", self.branch, self.object.name());
        format!("{name:<NAMES$}  {}", self.object.state())
    }
}

/// The tree below `root`. Replica sets that neither have pods nor shall have any are history, and left out.
pub(crate) fn below<'a>(world: &'a World, root: &'a Object) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    grow(world, root, "", "", &mut lines);
    lines
}

fn grow<'a>(world: &'a World, object: &'a Object, branch: &str, trunk: &str, lines: &mut Vec<Line<'a>>) {
    // A circle of owners is no tree: each object is shown once.
    if lines.iter().any(|it| it.object.uid() == object.uid()) {
        return;
    }
    lines.push(Line {
        branch: branch.to_owned(),
        object,
    });
    let children: Vec<&Object> = world
        .0
        .iter()
        .filter(|it| it.owners().any(|owner| owner == object.uid()) && !is_history(it))
        .collect();
    for (at, child) in children.iter().enumerate() {
        let (fork, bar) = if at + 1 == children.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        grow(
            world,
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
    fn each_object_hangs_on_its_owner_and_history_is_left_out() {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let world = World(vec![
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
        let lines: Vec<String> = below(&world, &world.0[0]).iter().map(Line::text).collect();
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
    fn a_circle_ends() {
        let world = World(vec![
            object("Pod", "a", "b", json!({})),
            object("Pod", "b", "a", json!({})),
        ]);
        assert_eq!(below(&world, &world.0[0]).len(), 2);
    }
}
