//! The script of the tour. Every check is a pure function of a snapshot.

use std::cmp::Ordering;

use serde_json::{Value, json};
use steersman_controllers::api::app_service::APP_SERVICES;
use steersman_manager::client::{Client, Delete, Patch, Propagation};
use steersman_manager::object::{Key, Meta, MetaObject};

use super::TourError;
use super::managers::Managers;
use super::runner::{Outcome, Runner};
use crate::demo::snapshot::{NAMESPACE, Object, Snapshot};
use crate::demo::tree;

const OLD: &str = "nginx:1.28";
const NEW: &str = "nginx:1.29";
/// hollow-kubelet reports `ImagePullBackOff` for this tag.
const BAD: &str = "nginx:404";

/// Five replicas, less maxUnavailable: 25%, rounded down.
const MIN_READY: usize = 4;
/// Five replicas plus maxSurge (25%, rounded up) are seven pods; the rest is not ready.
const MAX_WAITING: usize = 3;

pub(super) async fn run(runner: &mut Runner, managers: &mut Managers) -> Result<(), TourError> {
    let client = runner.client.clone();
    runner
        .step(
            "Create the AppService \"shop\" with two replicas",
            "a Deployment, a ReplicaSet and two ready pods below it",
            create(&client, "shop"),
            |snapshot| complete(snapshot, "shop", 2, OLD, true),
        )
        .await?;
    runner
        .step(
            "Scale it to five, as kubectl scale does",
            "five ready pods",
            scale(&client, "shop", 5),
            |snapshot| complete(snapshot, "shop", 5, OLD, false),
        )
        .await?;
    let mut fewest = usize::MAX;
    runner
        .step(
            "Roll out a new image",
            "five ready pods of the new image, and at least four ready pods at any time",
            image(&client, "shop", NEW),
            |snapshot| {
                keeps_ready(snapshot, &mut fewest, |snapshot| {
                    complete(snapshot, "shop", 5, NEW, false)
                })
            },
        )
        .await?;
    runner
        .step(
            "Roll out an image that does not exist",
            "the new pods do not become ready and the rollout stops; at least four old pods stay ready",
            image(&client, "shop", BAD),
            |snapshot| keeps_ready(snapshot, &mut fewest, stuck),
        )
        .await?;
    runner
        .step(
            "Undo the rollout",
            "five ready pods of the previous image, and at least four ready pods at any time",
            image(&client, "shop", NEW),
            |snapshot| {
                keeps_ready(snapshot, &mut fewest, |snapshot| {
                    complete(snapshot, "shop", 5, NEW, false)
                })
            },
        )
        .await?;
    runner
        .step(
            "Delete it with --cascade=foreground",
            "the pods are removed first, the AppService last",
            delete(&client, "shop", Propagation::Foreground),
            |snapshot| removed_last(snapshot, "shop"),
        )
        .await?;
    create_another(runner, "cart").await?;
    runner
        .step(
            "Delete it with --cascade=background",
            "the AppService is removed immediately, its dependents follow",
            delete(&client, "cart", Propagation::Background),
            |snapshot| removed_first(snapshot, "cart"),
        )
        .await?;
    create_another(runner, "wiki").await?;
    runner
        .step(
            "Delete it with --cascade=orphan",
            "only the AppService is removed; its Deployment has no owner and its pods stay ready",
            delete(&client, "wiki", Propagation::Orphan),
            |snapshot| orphaned(snapshot, "wiki"),
        )
        .await?;
    fail_over(runner, managers).await
}

async fn create_another(runner: &mut Runner, name: &str) -> Result<(), TourError> {
    let client = runner.client.clone();
    runner
        .step(
            &format!("Create another AppService, \"{name}\""),
            "two ready pods",
            create(&client, name),
            |snapshot| complete(snapshot, name, 2, OLD, false),
        )
        .await
}

async fn fail_over(runner: &mut Runner, managers: &mut Managers) -> Result<(), TourError> {
    let client = runner.client.clone();
    let former = managers.leader().await?;
    runner
        .leader_changes(
            "Kill the manager that is the leader, and create \"blog\" while there is none",
            "the other manager becomes the leader when the lease has expired, after six seconds",
            &former,
            async {
                managers.kill(&former);
                create(&client, "blog").await
            },
        )
        .await?;
    runner
        .step(
            "Wait for \"blog\"",
            "two ready pods",
            async { Ok(()) },
            |snapshot| complete(snapshot, "blog", 2, OLD, false),
        )
        .await?;
    let former = managers.leader().await?;
    runner
        .leader_changes(
            "Start another manager, and stop the leader gracefully",
            "it releases the lease, and the new manager becomes the leader immediately",
            &former,
            async {
                managers.start_one().await?;
                managers.stop(&former).await;
                Ok(())
            },
        )
        .await?;
    runner
        .step(
            "Scale \"blog\" to three",
            "three ready pods",
            scale(&client, "blog", 3),
            |snapshot| complete(snapshot, "blog", 3, OLD, false),
        )
        .await
}

async fn create(client: &Client, name: &str) -> Result<(), TourError> {
    let object = json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService",
        "metadata": {"name": name},
        "spec": {"deploymentName": name, "replicas": 2, "image": OLD},
    });
    let _: MetaObject = client
        .create(&APP_SERVICES, NAMESPACE, object.to_string().into())
        .await?;
    Ok(())
}

async fn scale(client: &Client, name: &str, replicas: usize) -> Result<(), TourError> {
    let patch = Patch::merge(&json!({"spec": {"replicas": replicas}})).of("scale");
    let _: Value = client
        .patch(&APP_SERVICES, &Key::new(NAMESPACE, name), patch)
        .await?;
    Ok(())
}

async fn image(client: &Client, name: &str, image: &str) -> Result<(), TourError> {
    let patch = Patch::merge(&json!({"spec": {"image": image}}));
    let _: MetaObject = client
        .patch(&APP_SERVICES, &Key::new(NAMESPACE, name), patch)
        .await?;
    Ok(())
}

async fn delete(client: &Client, name: &str, propagation: Propagation) -> Result<(), TourError> {
    let key = Key::new(NAMESPACE, name);
    let object: MetaObject = client.get(&APP_SERVICES, &key).await?;
    let Meta { uid, .. } = object.metadata;
    let delete = Delete::of(uid).propagating(propagation);
    client.delete(&APP_SERVICES, &key, &delete).await?;
    Ok(())
}

/// Checks for an `AppService`, its Deployment and `ReplicaSet`, and `replicas` ready pods of `image` and no others.
fn complete(snapshot: &Snapshot, name: &str, replicas: usize, image: &str, show_tree: bool) -> Outcome {
    let Some(root) = snapshot.get("AppService", name) else {
        return Outcome::Pending("the AppService does not exist".to_owned());
    };
    let lines = tree::dependents(snapshot, root);
    let pods = pods_of(snapshot, name);
    let ready_pods = pods.iter().filter(|it| it.is_ready() && it.image() == image);
    let text = format!(
        "{} of {replicas} pods of {image} are ready",
        ready_pods.clone().count()
    );
    let ready = root.is_ready() && lines.iter().all(|it| it.object.is_ready());
    if !ready || ready_pods.count() != replicas || pods.len() != replicas || lines.len() < replicas + 3 {
        return Outcome::Pending(format!("{text}; {}", root.summary()));
    }
    if show_tree {
        let lines: Vec<String> = lines.iter().map(tree::Line::text).collect();
        return Outcome::Done(format!("{text}\n{}", lines.join("\n")));
    }
    Outcome::Done(text)
}

fn pods_of<'a>(snapshot: &'a Snapshot, name: &'a str) -> Vec<&'a Object> {
    let of = |it: &&Object| it.text("/metadata/labels/app.kubernetes.io~1instance") == name;
    snapshot.of("Pod").filter(of).collect()
}

/// Returns the outcome of `check`, or a failure if fewer pods are ready than maxUnavailable allows.
fn keeps_ready(snapshot: &Snapshot, fewest: &mut usize, check: impl FnOnce(&Snapshot) -> Outcome) -> Outcome {
    let ready = pods_of(snapshot, "shop")
        .iter()
        .filter(|it| it.is_ready())
        .count();
    *fewest = ready.min(*fewest);
    if *fewest < MIN_READY {
        return Outcome::Failed(format!("only {fewest} pods were ready"));
    }
    match check(snapshot) {
        Outcome::Done(text) => Outcome::Done(format!("{text}; at least {fewest} were ready at any time")),
        other => other,
    }
}

/// Checks that a rollout of a missing image stops at maxSurge and maxUnavailable.
fn stuck(snapshot: &Snapshot) -> Outcome {
    let pods = pods_of(snapshot, "shop");
    let ready = pods.iter().filter(|it| it.is_ready()).count();
    let waiting = pods
        .iter()
        .filter(|it| it.waiting_reason() == "ImagePullBackOff")
        .count();
    let text = format!("{waiting} of {MAX_WAITING} new pods are in ImagePullBackOff");
    match waiting.cmp(&MAX_WAITING) {
        Ordering::Less => Outcome::Pending(text),
        Ordering::Equal if ready > MIN_READY => Outcome::Pending(text),
        Ordering::Equal => Outcome::Done(text),
        Ordering::Greater => Outcome::Failed(text),
    }
}

/// Checks that the `AppService` is removed after all of its dependents.
fn removed_last(snapshot: &Snapshot, name: &str) -> Outcome {
    let left = pods_of(snapshot, name).len();
    match (snapshot.get("AppService", name), snapshot.get("Deployment", name)) {
        (None, None) if left == 0 => Outcome::Done("all objects are removed, the AppService last".to_owned()),
        (None, _) => Outcome::Failed(format!(
            "the AppService was removed before its Deployment and {left} pods"
        )),
        (Some(_), _) => Outcome::Pending(format!("the AppService and {left} pods exist")),
    }
}

/// Checks that the `AppService` is removed at once and its dependents later.
fn removed_first(snapshot: &Snapshot, name: &str) -> Outcome {
    let left = pods_of(snapshot, name).len();
    if snapshot.get("AppService", name).is_some() {
        return Outcome::Failed("the AppService still exists".to_owned());
    }
    if left > 0 || snapshot.get("Deployment", name).is_some() {
        return Outcome::Pending(format!("its Deployment or {left} pods exist"));
    }
    Outcome::Done("all objects are removed, the AppService first".to_owned())
}

/// Checks that only the `AppService` is removed.
fn orphaned(snapshot: &Snapshot, name: &str) -> Outcome {
    let ready = pods_of(snapshot, name).iter().filter(|it| it.is_ready()).count();
    let Some(deployment) = snapshot.get("Deployment", name) else {
        return Outcome::Failed("its Deployment was removed too".to_owned());
    };
    if ready != 2 {
        return Outcome::Failed(format!("{ready} of its 2 pods are ready"));
    }
    if snapshot.get("AppService", name).is_some() || deployment.owner_uids().next().is_some() {
        return Outcome::Pending("the AppService exists, or still owns its Deployment".to_owned());
    }
    Outcome::Done("its Deployment has no owner, and 2 pods are ready".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &'static str, name: &str, value: Value) -> Object {
        let mut value = value;
        value["metadata"]["name"] = name.into();
        value["metadata"]["uid"] = format!("{kind}-{name}").into();
        Object { kind, value }
    }

    fn pod(name: &str, of: &str, ready: bool) -> Object {
        let status = if ready { "True" } else { "False" };
        let labels = json!({"app.kubernetes.io/instance": of});
        let mut value = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"image": OLD}]}});
        value["status"] = json!({"conditions": [{"type": "Ready", "status": status}]});
        object("Pod", name, value)
    }

    #[test]
    fn removal_order_is_checked() {
        let snapshot = |objects: &[&str]| {
            let all = [
                object("AppService", "shop", json!({})),
                object("Deployment", "shop", json!({})),
                pod("a", "shop", true),
            ];
            Snapshot(all.into_iter().filter(|it| objects.contains(&it.kind)).collect())
        };
        assert!(matches!(
            removed_last(&snapshot(&["AppService", "Pod"]), "shop"),
            Outcome::Pending(_)
        ));
        assert!(matches!(
            removed_last(&snapshot(&["Pod"]), "shop"),
            Outcome::Failed(_)
        ));
        assert!(matches!(
            removed_last(&snapshot(&["Deployment"]), "shop"),
            Outcome::Failed(_)
        ));
        assert!(matches!(removed_last(&snapshot(&[]), "shop"), Outcome::Done(_)));
        assert!(matches!(
            removed_first(&snapshot(&["AppService"]), "shop"),
            Outcome::Failed(_)
        ));
        assert!(matches!(
            removed_first(&snapshot(&["Pod"]), "shop"),
            Outcome::Pending(_)
        ));
        assert!(matches!(removed_first(&snapshot(&[]), "shop"), Outcome::Done(_)));
    }

    #[test]
    fn orphaned_deployment_keeps_its_pods_ready() {
        let owned = json!({"metadata": {"ownerReferences": [{"uid": "x"}]}});
        let pods = [pod("a", "wiki", true), pod("b", "wiki", true)];
        let snapshot = |deployment: Value| {
            let mut objects = vec![object("Deployment", "wiki", deployment)];
            objects.extend(pods.clone());
            Snapshot(objects)
        };
        assert!(matches!(orphaned(&snapshot(owned), "wiki"), Outcome::Pending(_)));
        assert!(matches!(orphaned(&snapshot(json!({})), "wiki"), Outcome::Done(_)));
        assert!(matches!(
            orphaned(&Snapshot(pods.to_vec()), "wiki"),
            Outcome::Failed(_)
        ));
    }

    #[test]
    fn stuck_rollout_stops_at_its_bounds() {
        let waits = |at: usize| {
            let mut pod = pod(&format!("new-{at}"), "shop", false);
            pod.value["status"]["containerStatuses"] =
                json!([{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
            pod
        };
        let snapshot = |serving: usize, waiting: usize| {
            let serving = (0..serving).map(|at| pod(&format!("old-{at}"), "shop", true));
            Snapshot(serving.chain((0..waiting).map(waits)).collect())
        };
        assert!(matches!(stuck(&snapshot(5, 2)), Outcome::Pending(_)));
        assert!(matches!(stuck(&snapshot(5, 3)), Outcome::Pending(_)));
        assert!(matches!(stuck(&snapshot(4, 3)), Outcome::Done(_)));
        assert!(matches!(stuck(&snapshot(4, 4)), Outcome::Failed(_)));
    }

    #[test]
    fn too_few_ready_pods_fail_all_later_checks() {
        let mut fewest = usize::MAX;
        let look = |_: &Snapshot| Outcome::Done("all".to_owned());
        let pods = |count| Snapshot((0..count).map(|at| pod(&at.to_string(), "shop", true)).collect());
        assert!(matches!(
            keeps_ready(&pods(5), &mut fewest, look),
            Outcome::Done(_)
        ));
        assert!(matches!(
            keeps_ready(&pods(3), &mut fewest, look),
            Outcome::Failed(_)
        ));
        assert!(matches!(
            keeps_ready(&pods(5), &mut fewest, look),
            Outcome::Failed(_)
        ));
    }
}
