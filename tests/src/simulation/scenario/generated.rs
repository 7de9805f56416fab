//! A generated workload: up to twelve random steps on all kinds.

use serde_json::{Value, json};

use super::super::user::{Policy, User};
use super::garbage::{MAPS, map};
use super::workloads::{DEPLOYMENTS, PODS, SETS, workload};

pub(super) async fn run(user: &mut User) {
    let steps = 4 + user.random().below(9);
    for number in 0..steps {
        step(user, number);
        user.pause(60).await;
    }
}

fn step(user: &mut User, number: usize) {
    let name = format!("g{}", user.random().below(3));
    let replicas = user.random().below(4);
    let policies = [Policy::Background, Policy::Foreground, Policy::Orphan];
    let policy = *user.random().pick(&policies);
    match user.random().below(9) {
        0 => drop(user.create(DEPLOYMENTS, &workload("Deployment", &name, replicas))),
        1 => drop(user.create(SETS, &workload("ReplicaSet", &format!("s{name}"), replicas))),
        2 => {
            let owners = any(user, MAPS);
            let owners: Vec<&Value> = owners.iter().collect();
            user.create(MAPS, &map(&format!("m{number}"), &owners));
        }
        3 => drop(user.patch(
            &format!("{DEPLOYMENTS}/{name}"),
            &json!({"spec": {"replicas": replicas}}),
        )),
        4 => {
            let image = format!("image-{}", user.random().below(3));
            let containers = json!([{"name": "main", "image": image}]);
            let change = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            user.patch(&format!("{DEPLOYMENTS}/{name}"), &change);
        }
        5 => delete(user, DEPLOYMENTS, policy),
        6 => delete(user, SETS, policy),
        7 => delete(user, MAPS, policy),
        _ => delete(user, PODS, Policy::Background),
    }
}

/// Returns one object of a resource, if there is one.
fn any(user: &mut User, resource: &str) -> Option<Value> {
    let objects = user.list(resource);
    if objects.is_empty() {
        return None;
    }
    let index = user.random().below(objects.len());
    objects.into_iter().nth(index)
}

fn delete(user: &mut User, resource: &str, policy: Policy) {
    let object = any(user, resource).unwrap_or_default();
    if let Some(name) = object["metadata"]["name"].as_str() {
        user.delete(&format!("{resource}/{name}"), policy);
    }
}
