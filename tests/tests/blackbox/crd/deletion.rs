//! A definition that goes takes its resources along.

use coxswain_tests::{Cluster, Test, test, time};
use serde_json::{Value, json};

use super::{CRDS, Place, condition, install};
use crate::support::{HOLD, MERGE, create, finalizers, held, is_marked, names, soon};

pub fn tests() -> Vec<Test> {
    vec![
        test!(deletion_marks_it_terminating),
        test!(resources_go_with_it),
        test!(nothing_is_left_for_the_next_one),
        test!(finalizer_of_a_resource_holds_it),
        test!(nothing_new_while_it_is_terminating),
        test!(name_is_taken_while_it_is_terminating),
        test!(verbs_go_while_it_is_terminating),
    ]
}

async fn gone(c: &Cluster, place: &Place) {
    let path = place.crd_path("widgets");
    soon("the definition is gone", async || {
        (c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
}

/// A definition that is being deleted, held by one widget; its state as DELETE answered it.
async fn terminating(c: &Cluster) -> (Place, Value) {
    let place = Place::new(c).await;
    install(c, &place.crd()).await;
    create(c, &place.widgets("v1"), &held(place.widget("held"))).await;
    create(c, &place.widgets("v1"), &place.widget("free")).await;
    let answer = c.api().delete(&place.crd_path("widgets"), ()).await.expect(200);
    (place, answer)
}

async fn let_go(c: &Cluster, place: &Place) {
    let path = format!("{}/held", place.widgets("v1"));
    let change = json!({"metadata": {"finalizers": null}});
    c.api().patch(&path, MERGE, change).await.expect(200);
    gone(c, place).await;
}

async fn deletion_marks_it_terminating(c: Cluster) {
    let (place, answer) = terminating(&c).await;
    assert_eq!(answer["kind"], "CustomResourceDefinition");
    assert!(is_marked(&answer));
    assert_eq!(
        finalizers(&answer),
        ["customresourcecleanup.apiextensions.k8s.io"]
    );
    let condition = condition(&answer, "Terminating");
    assert_eq!(
        json!([condition["status"], condition["reason"]]),
        json!(["True", "InstanceDeletionPending"])
    );
    let_go(&c, &place).await;
}

async fn resources_go_with_it(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let path = place.widgets("v1");
    create(&c, &path, &place.widget("a")).await;
    let list = c.api().get(&path).await.expect(200);
    let query = format!(
        "{path}?watch=1&resourceVersion={}",
        crate::support::version(&list)
    );
    let mut watch = c.api().watch(&query).await;
    place.remove(&c).await;
    assert_eq!(watch.expect("DELETED").await["metadata"]["name"], "a");
    gone(&c, &place).await;
    assert_eq!(watch.next(time::ANSWER).await, None);
    assert!(watch.has_ended(), "there is nothing left to watch");
    let reply = soon("the resource is not served any more", async || {
        let reply = c.api().get(&path).await;
        (reply.status != 200).then_some(reply)
    })
    .await;
    reply.check(
        reply.status == 404 && reply.text() == "404 page not found\n",
        "expected the plain 404",
    );
}

async fn nothing_is_left_for_the_next_one(c: Cluster) {
    let place = Place::new(&c).await;
    let first = install(&c, &place.crd()).await;
    create(&c, &place.widgets("v1"), &place.widget("a")).await;
    place.remove(&c).await;
    gone(&c, &place).await;
    let second = install(&c, &place.crd()).await;
    assert_ne!(second["metadata"]["uid"], first["metadata"]["uid"]);
    let list = c.api().get(&place.widgets("v1")).await.expect(200);
    assert_eq!(list["items"], json!([]));
    place.remove(&c).await;
}

async fn finalizer_of_a_resource_holds_it(c: Cluster) {
    let (place, _) = terminating(&c).await;
    let list = soon("the other widget is gone", async || {
        let list = c.api().get(&place.widgets("v1")).await.expect(200);
        (names(&list).len() == 1).then_some(list)
    })
    .await;
    assert_eq!(names(&list), ["held"]);
    let crd = soon("the deletion has begun", async || {
        let crd = c.api().get(&place.crd_path("widgets")).await.expect(200);
        (condition(&crd, "Terminating")["reason"] == "InstanceDeletionInProgress").then_some(crd)
    })
    .await;
    assert_eq!(condition(&crd, "Terminating")["status"], "True");
    assert_eq!(condition(&crd, "Established")["status"], "True");
    let path = format!("{}/held", place.widgets("v1"));
    let widget = soon("the widget is marked", async || {
        let widget = c.api().get(&path).await.expect(200);
        is_marked(&widget).then_some(widget)
    })
    .await;
    assert_eq!(finalizers(&widget), [HOLD]);
    let_go(&c, &place).await;
}

async fn nothing_new_while_it_is_terminating(c: Cluster) {
    let (place, _) = terminating(&c).await;
    let path = place.widgets("v1");
    // The server may need a moment to learn of it.
    let reply = soon("creation is refused", async || {
        let reply = c
            .api()
            .post(&format!("{path}?dryRun=All"), place.widget("late"))
            .await;
        (reply.status != 201).then_some(reply)
    })
    .await;
    let message = "create not allowed while custom resource definition is terminating";
    if c.version() < (1, 36) {
        reply.expect_error(405, "MethodNotAllowed");
    } else {
        reply.expect_error(403, "Forbidden");
        let message = format!("widgets.{} \"late\" is forbidden: {message}", place.group);
        reply.check(reply.message() == message, &message);
    }
    let change = json!({"spec": {"x": 1}});
    let changed = c
        .api()
        .patch(&format!("{path}/held"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(changed["spec"]["x"], 1);
    let_go(&c, &place).await;
}

async fn name_is_taken_while_it_is_terminating(c: Cluster) {
    let (place, _) = terminating(&c).await;
    let reply = c.api().post(CRDS, place.crd()).await;
    reply.expect_error(409, "AlreadyExists");
    let message = format!(
        "object is being deleted: customresourcedefinitions.apiextensions.k8s.io \"widgets.{}\" already exists",
        place.group
    );
    reply.check(reply.message() == message, &message);
    let_go(&c, &place).await;
}

/// What cannot be done any more is not listed, and patches still are taken.
async fn verbs_go_while_it_is_terminating(c: Cluster) {
    let (place, _) = terminating(&c).await;
    let path = format!("/apis/{}/v1", place.group);
    let verbs = soon("discovery knows", async || {
        let list = c.api().get(&path).await.expect(200);
        let verbs = list["resources"][0]["verbs"].clone();
        (verbs.as_array().map(Vec::len) < Some(8)).then_some(verbs)
    })
    .await;
    assert_eq!(
        verbs,
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    let_go(&c, &place).await;
}
