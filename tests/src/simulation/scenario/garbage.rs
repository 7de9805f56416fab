//! Owners, dependents and the three policies of deletion.

use serde_json::{Value, json};

use super::super::user::{Policy, User};
use super::workloads::{PODS, template};

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns a reference to an owner.
pub(super) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
    })
}

pub(super) fn map(name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners.iter().map(|it| reference(it)).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": references},
    })
}

pub(super) fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

/// Creates a tree of depth 3, in which one branch has a second owner, and deletes its root.
async fn delete_tree(user: &mut User, policy: Policy) {
    let root = user.create(MAPS, &map("root", &[]));
    let other = user.create(MAPS, &map("other", &[]));
    for branch in 0..3 {
        let owners = if branch == 0 {
            vec![&root, &other]
        } else {
            vec![&root]
        };
        let middle = user.create(MAPS, &map(&format!("middle-{branch}"), &owners));
        user.create(MAPS, &map(&format!("leaf-{branch}"), &[&middle]));
        user.pause(10).await;
    }
    user.pause(60).await;
    user.delete(&at("root"), policy);
    user.pause(30).await;
    // A dependent that is created after the request.
    user.create(MAPS, &map("late", &[&root]));
    user.pause(60).await;
}

pub(super) async fn background(user: &mut User) {
    delete_tree(user, Policy::Background).await;
}

pub(super) async fn foreground(user: &mut User) {
    let mut pod = template("x", "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("slow");
    delete_tree(user, Policy::Foreground).await;
    // A second request for an object that is already terminating and has another finalizer.
    let mut owner = map("held", &[]);
    owner["metadata"]["finalizers"] = json!(["example.com/other"]);
    let owner = user.create(MAPS, &owner);
    pod["metadata"]["ownerReferences"] = json!([reference(&owner)]);
    user.create(PODS, &pod);
    user.pause(20).await;
    user.delete(&at("held"), Policy::Foreground);
    user.pause(40).await;
    user.delete(&at("held"), Policy::Foreground);
    user.pause(40).await;
    // Only that finalizer: the other one belongs to the collector.
    let held = user.get(&at("held"));
    let finalizers = held["metadata"]["finalizers"].as_array();
    let rest: Vec<&Value> = finalizers
        .into_iter()
        .flatten()
        .filter(|it| *it != "example.com/other")
        .collect();
    user.patch(&at("held"), &json!({"metadata": {"finalizers": rest}}));
}

pub(super) async fn orphan(user: &mut User) {
    delete_tree(user, Policy::Orphan).await;
}

/// Dependents with several owners, of which some are deleted.
pub(super) async fn mixed(user: &mut User) {
    let owners: Vec<Value> = (0..3)
        .map(|index| user.create(MAPS, &map(&format!("owner-{index}"), &[])))
        .collect();
    for (first, second) in [(0, 1), (1, 2), (0, 2), (0, 0)] {
        let name = format!("of-{first}-{second}");
        let pair = [&owners[first], &owners[second]];
        user.create(
            MAPS,
            &map(&name, if first == second { &pair[..1] } else { &pair }),
        );
        user.pause(10).await;
    }
    user.pause(40).await;
    for index in 0..2 {
        let policy = *user
            .random()
            .pick(&[Policy::Background, Policy::Foreground, Policy::Orphan]);
        user.delete(&at(&format!("owner-{index}")), policy);
        user.pause(40).await;
    }
}

/// Owners that own each other.
pub(super) async fn cycle(user: &mut User) {
    let length = 1 + user.random().below(4);
    let mut objects: Vec<Value> = (0..length)
        .map(|index| user.create(MAPS, &map(&format!("ring-{index}"), &[])))
        .collect();
    for index in 0..length {
        let owner = reference(&objects[(index + 1) % length]);
        let path = at(&format!("ring-{index}"));
        user.patch(&path, &json!({"metadata": {"ownerReferences": [owner]}}));
        user.pause(10).await;
        objects[index] = user.get(&path);
    }
    user.pause(40).await;
    user.delete(&at("ring-0"), Policy::Foreground);
    user.pause(60).await;
}

/// A dependent gets a new owner while its old owner is deleted, and an owner is created again with the same name.
pub(super) async fn swap(user: &mut User) {
    let old = user.create(MAPS, &map("old", &[]));
    let new = user.create(MAPS, &map("new", &[]));
    for index in 0..3 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&old]));
    }
    user.pause(50).await;
    user.delete(&at("old"), Policy::Background);
    for index in 0..3 {
        user.pause(12).await;
        let references = json!({"metadata": {"ownerReferences": [reference(&new)]}});
        user.patch(&at(&format!("dependent-{index}")), &references);
    }
    user.pause(20).await;
    let again = user.create(MAPS, &map("old", &[]));
    user.create(MAPS, &map("of-again", &[&again]));
    user.pause(40).await;
}

/// References that name a wrong version, kind, uid or namespace.
pub(super) async fn invalid(user: &mut User) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    user.create("/api/v1/namespaces", &namespace);
    let owner = user.create(MAPS, &map("owner", &[]));
    let uid = &owner["metadata"]["uid"];
    let cases = [
        (
            "wrong-version",
            json!({"apiVersion": "v9", "kind": "ConfigMap", "name": "owner", "uid": uid}),
        ),
        (
            "wrong-group",
            json!({"apiVersion": "none.example/v1", "kind": "Thing", "name": "owner", "uid": uid}),
        ),
        (
            "wrong-kind",
            json!({"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": uid}),
        ),
        (
            "cluster",
            json!({"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "none"}),
        ),
    ];
    for (name, reference) in &cases {
        let mut dependent = map(name, &[]);
        dependent["metadata"]["ownerReferences"] = json!([reference]);
        user.create(MAPS, &dependent);
        user.pause(15).await;
    }
    // A dependent in another namespace names the uid of an existing owner.
    user.create(
        "/api/v1/namespaces/other/configmaps",
        &map("elsewhere", &[&owner]),
    );
    user.create(MAPS, &map("here", &[&owner]));
    user.pause(60).await;
}

/// A cluster-scoped owner is deleted.
pub(super) async fn cluster_scoped(user: &mut User) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "owner"}});
    let owner = user.create("/api/v1/nodes", &node);
    for index in 0..3 {
        user.create(MAPS, &map(&format!("dependent-{index}"), &[&owner]));
        user.pause(10).await;
    }
    user.pause(40).await;
    let policy = *user
        .random()
        .pick(&[Policy::Background, Policy::Foreground, Policy::Orphan]);
    user.delete("/api/v1/nodes/owner", policy);
    user.pause(60).await;
}
