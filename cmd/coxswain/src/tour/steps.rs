//! The life of an application, step by step. What each look makes of what it sees is a function of that alone.

use std::cmp::Ordering;

use coxswain_manager::client::{Client, Delete, Patch, Propagation};
use coxswain_manager::object::{Key, Meta, MetaObject};
use serde_json::{Value, json};

use super::TourError;
use super::crew::Crew;
use super::guide::{Guide, Look};
use crate::show::{APP_SERVICES, NAMESPACE, Object, World, tree};

const OLD: &str = "nginx:1.28";
const NEW: &str = "nginx:1.29";
/// hollow-kubelet does not find images of this tag.
const BAD: &str = "nginx:404";

/// Five pods, of which a quarter may be missing, rounded down.
const SERVING: usize = 4;
/// And a quarter may be there besides, rounded up: seven, less those that serve.
const WAITING: usize = 3;

/// All of them, in their order.
pub(super) async fn all(guide: &mut Guide, crew: &mut Crew) -> Result<(), TourError> {
    let client = guide.client.clone();
    guide
        .step(
            "Create the AppService \"shop\" with two replicas",
            "a Deployment, a ReplicaSet and two ready pods below it",
            create(&client, "shop"),
            |world| whole(world, "shop", 2, OLD, true),
        )
        .await?;
    guide
        .step(
            "Scale it to five, as kubectl scale does",
            "five pods serve",
            scale(&client, "shop", 5),
            |world| whole(world, "shop", 5, OLD, false),
        )
        .await?;
    let mut fewest = usize::MAX;
    guide
        .step(
            "Roll out a new image",
            "five pods of the new image; on the way never fewer than four serve",
            image(&client, "shop", NEW),
            |world| never_fewer(world, &mut fewest, |world| whole(world, "shop", 5, NEW, false)),
        )
        .await?;
    guide
        .step(
            "Roll out an image that does not exist",
            "the new pods do not start, and the rollout waits: at least four old ones go on serving",
            image(&client, "shop", BAD),
            |world| never_fewer(world, &mut fewest, stuck),
        )
        .await?;
    guide
        .step(
            "Undo it",
            "five pods of the good image, none of the bad one; never fewer than four served",
            image(&client, "shop", NEW),
            |world| never_fewer(world, &mut fewest, |world| whole(world, "shop", 5, NEW, false)),
        )
        .await?;
    guide
        .step(
            "Delete it with --cascade=foreground",
            "the pods go first, the AppService last",
            delete(&client, "shop", Propagation::Foreground),
            |world| last_of_all(world, "shop"),
        )
        .await?;
    made(guide, "cart").await?;
    guide
        .step(
            "Delete it with --cascade=background",
            "the AppService goes at once, what it owns follows",
            delete(&client, "cart", Propagation::Background),
            |world| first_of_all(world, "cart"),
        )
        .await?;
    made(guide, "wiki").await?;
    guide
        .step(
            "Delete it with --cascade=orphan",
            "only the AppService goes: its Deployment has no owner any more, and its pods serve",
            delete(&client, "wiki", Propagation::Orphan),
            |world| orphaned(world, "wiki"),
        )
        .await?;
    fail_over(guide, crew).await
}

/// One more application.
async fn made(guide: &mut Guide, name: &str) -> Result<(), TourError> {
    let client = guide.client.clone();
    guide
        .step(
            &format!("Create another one, \"{name}\""),
            "two pods serve",
            create(&client, name),
            |world| whole(world, name, 2, OLD, false),
        )
        .await
}

/// One manager dies, another one is told to stop.
async fn fail_over(guide: &mut Guide, crew: &mut Crew) -> Result<(), TourError> {
    let client = guide.client.clone();
    let former = crew.leads().await?;
    guide
        .other_leads(
            "Kill the manager that leads, and create \"blog\" while nobody leads",
            "the other one leads when the lease has expired, after six seconds",
            &former,
            async {
                crew.kill(&former);
                create(&client, "blog").await
            },
        )
        .await?;
    guide
        .step(
            "See what it made of \"blog\"",
            "two pods serve",
            async { Ok(()) },
            |world| whole(world, "blog", 2, OLD, false),
        )
        .await?;
    let former = crew.leads().await?;
    guide
        .other_leads(
            "Start another manager, and tell the one that leads to stop",
            "it hands over: the new one leads at once",
            &former,
            async {
                crew.board()?;
                crew.stop(&former).await;
                Ok(())
            },
        )
        .await?;
    guide
        .step(
            "Scale \"blog\" to three",
            "three pods serve",
            scale(&client, "blog", 3),
            |world| whole(world, "blog", 3, OLD, false),
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

/// Whether an application is all there: it, what is between, and so many pods of an image.
fn whole(world: &World, name: &str, replicas: usize, image: &str, drawn: bool) -> Look {
    let Some(root) = world.get("AppService", name) else {
        return Look::NotYet("there is no AppService".to_owned());
    };
    let lines = tree::below(world, root);
    let pods = pods_of(world, name);
    let serving = pods.iter().filter(|it| it.is_ready() && it.image() == image);
    let text = format!("{} of {replicas} pods of {image} serve", serving.clone().count());
    let ready = root.is_ready() && lines.iter().all(|it| it.object.is_ready());
    if !ready || serving.count() != replicas || pods.len() != replicas || lines.len() < replicas + 3 {
        return Look::NotYet(format!("{text}; {}", root.state()));
    }
    if drawn {
        let lines: Vec<String> = lines.iter().map(tree::Line::text).collect();
        return Look::Seen(format!("{text}\n{}", lines.join("\n")));
    }
    Look::Seen(text)
}

/// The pods of an application.
fn pods_of<'a>(world: &'a World, name: &'a str) -> Vec<&'a Object> {
    let of = |it: &&Object| it.text("/metadata/labels/app.kubernetes.io~1instance") == name;
    world.of("Pod").filter(of).collect()
}

/// As `look` says, unless fewer serve than may.
fn never_fewer(world: &World, fewest: &mut usize, look: impl FnOnce(&World) -> Look) -> Look {
    let serving = pods_of(world, "shop").iter().filter(|it| it.is_ready()).count();
    *fewest = serving.min(*fewest);
    if *fewest < SERVING {
        return Look::Wrong(format!("only {fewest} pods served"));
    }
    match look(world) {
        Look::Seen(text) => Look::Seen(format!("{text}; never fewer than {fewest} served")),
        other => other,
    }
}

/// Whether a rollout has gone as far as it may, for an image that is not there, and no further.
fn stuck(world: &World) -> Look {
    let pods = pods_of(world, "shop");
    let serving = pods.iter().filter(|it| it.is_ready()).count();
    let waiting = pods
        .iter()
        .filter(|it| it.waits_for() == "ImagePullBackOff")
        .count();
    let text = format!("{waiting} of {WAITING} pods are in ImagePullBackOff");
    match waiting.cmp(&WAITING) {
        Ordering::Less => Look::NotYet(text),
        Ordering::Equal if serving > SERVING => Look::NotYet(text),
        Ordering::Equal => Look::Seen(text),
        Ordering::Greater => Look::Wrong(text),
    }
}

/// Whether the `AppService` is gone, and went after all that it owned.
fn last_of_all(world: &World, name: &str) -> Look {
    let left = pods_of(world, name).len();
    match (world.get("AppService", name), world.get("Deployment", name)) {
        (None, None) if left == 0 => Look::Seen("nothing is left of it, and it went last".to_owned()),
        (None, _) => Look::Wrong(format!("it went before its Deployment and {left} pods")),
        (Some(_), _) => Look::NotYet(format!("it and {left} pods are there")),
    }
}

/// Whether nothing is left.
fn first_of_all(world: &World, name: &str) -> Look {
    let left = pods_of(world, name).len();
    if world.get("AppService", name).is_some() {
        return Look::Wrong("it was deleted, and is there".to_owned());
    }
    if left > 0 || world.get("Deployment", name).is_some() {
        return Look::NotYet(format!("its Deployment or {left} pods are there"));
    }
    Look::Seen("it went at once, and nothing is left of it".to_owned())
}

/// Whether only the `AppService` is gone.
fn orphaned(world: &World, name: &str) -> Look {
    let serving = pods_of(world, name).iter().filter(|it| it.is_ready()).count();
    let Some(deployment) = world.get("Deployment", name) else {
        return Look::Wrong("its Deployment went with it".to_owned());
    };
    if serving != 2 {
        return Look::Wrong(format!("{serving} of its 2 pods serve"));
    }
    if world.get("AppService", name).is_some() || deployment.owners().next().is_some() {
        return Look::NotYet("it is there, or still owns its Deployment".to_owned());
    }
    Look::Seen("its Deployment has no owner, and 2 pods serve".to_owned())
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
    fn who_goes_before_what_it_owns_has_not_gone_last() {
        let world = |objects: &[&str]| {
            let all = [
                object("AppService", "shop", json!({})),
                object("Deployment", "shop", json!({})),
                pod("a", "shop", true),
            ];
            World(all.into_iter().filter(|it| objects.contains(&it.kind)).collect())
        };
        assert!(matches!(
            last_of_all(&world(&["AppService", "Pod"]), "shop"),
            Look::NotYet(_)
        ));
        assert!(matches!(last_of_all(&world(&["Pod"]), "shop"), Look::Wrong(_)));
        assert!(matches!(
            last_of_all(&world(&["Deployment"]), "shop"),
            Look::Wrong(_)
        ));
        assert!(matches!(last_of_all(&world(&[]), "shop"), Look::Seen(_)));
        assert!(matches!(
            first_of_all(&world(&["AppService"]), "shop"),
            Look::Wrong(_)
        ));
        assert!(matches!(first_of_all(&world(&["Pod"]), "shop"), Look::NotYet(_)));
        assert!(matches!(first_of_all(&world(&[]), "shop"), Look::Seen(_)));
    }

    #[test]
    fn orphans_stay_and_serve() {
        let owned = json!({"metadata": {"ownerReferences": [{"uid": "x"}]}});
        let pods = [pod("a", "wiki", true), pod("b", "wiki", true)];
        let world = |deployment: Value| {
            let mut objects = vec![object("Deployment", "wiki", deployment)];
            objects.extend(pods.clone());
            World(objects)
        };
        assert!(matches!(orphaned(&world(owned), "wiki"), Look::NotYet(_)));
        assert!(matches!(orphaned(&world(json!({})), "wiki"), Look::Seen(_)));
        assert!(matches!(orphaned(&World(pods.to_vec()), "wiki"), Look::Wrong(_)));
    }

    #[test]
    fn a_rollout_that_waits_has_gone_as_far_as_it_may() {
        let waits = |at: usize| {
            let mut pod = pod(&format!("new-{at}"), "shop", false);
            pod.value["status"]["containerStatuses"] =
                json!([{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
            pod
        };
        let world = |serving: usize, waiting: usize| {
            let serving = (0..serving).map(|at| pod(&format!("old-{at}"), "shop", true));
            World(serving.chain((0..waiting).map(waits)).collect())
        };
        assert!(matches!(stuck(&world(5, 2)), Look::NotYet(_)));
        assert!(matches!(stuck(&world(5, 3)), Look::NotYet(_)));
        assert!(matches!(stuck(&world(4, 3)), Look::Seen(_)));
        assert!(matches!(stuck(&world(4, 4)), Look::Wrong(_)));
    }

    #[test]
    fn too_few_are_remembered() {
        let mut fewest = usize::MAX;
        let look = |_: &World| Look::Seen("all".to_owned());
        let pods = |count| World((0..count).map(|at| pod(&at.to_string(), "shop", true)).collect());
        assert!(matches!(never_fewer(&pods(5), &mut fewest, look), Look::Seen(_)));
        assert!(matches!(never_fewer(&pods(3), &mut fewest, look), Look::Wrong(_)));
        assert!(matches!(never_fewer(&pods(5), &mut fewest, look), Look::Wrong(_)));
    }
}
