//! Finalizers hold an object: what marking changes, what may still be written, and when it goes.

use coxswain_tests::{Cluster, Reply, Test, test};
use serde_json::{Value, json};

use crate::support::{
    HOLD, JSON_PATCH, MERGE, assert_gone, config_map, core, create, deployment, finalizers, held, is_marked,
    of, version, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(marking_counts_as_a_generation_once),
        test!(marking_does_not_invent_a_generation),
        test!(patch_that_takes_the_last_finalizer_removes),
        test!(put_that_takes_the_last_finalizer_removes),
        test!(status_patch_that_takes_the_last_finalizer_removes),
        test!(one_finalizer_of_two_still_holds),
        test!(finalizers_of_an_unmarked_object_may_go_without_removing_it),
        test!(no_new_finalizers_on_a_marked_object),
        test!(mark_cannot_be_taken_back),
        test!(mark_cannot_be_set_by_hand),
        test!(mark_is_dropped_from_new_objects),
        test!(marked_object_can_still_change),
        test!(name_of_a_marked_object_is_taken),
        test!(name_is_free_after_removal),
        test!(dry_run_of_the_last_finalizer_removes_nothing),
        test!(both_policy_finalizers_at_once_are_invalid),
        test!(version_is_forgotten_with_the_last_finalizer).since(1, 36),
    ]
}

/// A marked deployment, held by one finalizer; its path and state.
async fn marked(c: &Cluster) -> (String, Value) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    create(c, &path, &held(deployment("a"))).await;
    let path = format!("{path}/a");
    let marked = c.api().delete(&path, ()).await.expect(200);
    (path, marked)
}

async fn patched(c: &Cluster, path: &str, change: Value) -> Reply {
    c.api().patch(path, MERGE, change).await
}

async fn marking_counts_as_a_generation_once(c: Cluster) {
    let (path, first) = marked(&c).await;
    assert_eq!(first["metadata"]["generation"], 2);
    let options = json!({"propagationPolicy": "Foreground"});
    let second = c.api().delete(&path, options).await.expect(200);
    assert_eq!(finalizers(&second), [HOLD, "foregroundDeletion"]);
    assert_eq!(second["metadata"]["generation"], 2);
}

async fn marking_does_not_invent_a_generation(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &held(config_map("a"))).await;
    let marked = c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    assert!(is_marked(&marked));
    assert_eq!(marked["metadata"]["generation"], Value::Null);
}

/// The answer is what would have been written, with the version that was there before.
async fn assert_removed(c: &Cluster, path: &str, before: &Value, answer: &Value) {
    assert_eq!(answer["kind"], before["kind"]);
    assert_eq!(finalizers(answer), [""; 0]);
    assert!(is_marked(answer));
    assert_eq!(version(answer), version(before));
    assert_gone(c, path).await;
}

async fn patch_that_takes_the_last_finalizer_removes(c: Cluster) {
    let (path, before) = marked(&c).await;
    let answer = patched(&c, &path, json!({"metadata": {"finalizers": null}})).await;
    assert_removed(&c, &path, &before, &answer.expect(200)).await;

    let (path, before) = marked(&c).await;
    let change = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let answer = c.api().patch(&path, JSON_PATCH, change).await.expect(200);
    assert_removed(&c, &path, &before, &answer).await;
}

async fn put_that_takes_the_last_finalizer_removes(c: Cluster) {
    let (path, before) = marked(&c).await;
    let object = with(before.clone(), "/metadata/finalizers", json!([]));
    let answer = c.api().put(&path, object).await.expect(200);
    assert_removed(&c, &path, &before, &answer).await;
}

async fn status_patch_that_takes_the_last_finalizer_removes(c: Cluster) {
    let (path, before) = marked(&c).await;
    let change = json!({"metadata": {"finalizers": null}});
    let answer = patched(&c, &format!("{path}/status"), change).await;
    assert_removed(&c, &path, &before, &answer.expect(200)).await;
}

async fn one_finalizer_of_two_still_holds(c: Cluster) {
    let (path, _) = marked(&c).await;
    let options = json!({"propagationPolicy": "Orphan"});
    c.api().delete(&path, options).await.expect(200);
    let answer = patched(&c, &path, json!({"metadata": {"finalizers": ["orphan"]}})).await;
    assert_eq!(finalizers(&answer.expect(200)), ["orphan"]);
    let stored = c.api().get(&path).await.expect(200);
    assert_eq!(finalizers(&stored), ["orphan"]);
    assert_eq!(stored["metadata"]["generation"], 2);
}

async fn finalizers_of_an_unmarked_object_may_go_without_removing_it(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &held(config_map("a"))).await;
    let path = format!("{path}/a");
    let change = json!({"metadata": {"finalizers": null}});
    patched(&c, &path, change).await.expect(200);
    let stored = c.api().get(&path).await.expect(200);
    assert!(!is_marked(&stored) && finalizers(&stored).is_empty());
}

async fn no_new_finalizers_on_a_marked_object(c: Cluster) {
    let (path, before) = marked(&c).await;
    for finalizers in [json!([HOLD, "example.com/new"]), json!(["example.com/new"])] {
        let object = with(before.clone(), "/metadata/finalizers", finalizers.clone());
        for reply in [
            c.api().put(&path, object).await,
            patched(&c, &path, json!({"metadata": {"finalizers": finalizers}})).await,
        ] {
            reply.expect_error(422, "Invalid");
            let message = "Deployment.apps \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added \
                           if the object is being deleted, found new finalizers []string{\"example.com/new\"}";
            reply.check(reply.message() == message, "another message");
            let cause = reply.causes().swap_remove(0);
            assert_eq!(
                (&*cause.reason, &*cause.field),
                ("FieldValueForbidden", "metadata.finalizers")
            );
        }
    }
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn mark_cannot_be_taken_back(c: Cluster) {
    let (path, before) = marked(&c).await;
    let mut object = before.clone();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let metadata = object["metadata"].as_object_mut().expect("metadata is an object");
        metadata.remove(field);
    }
    let change = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
    for reply in [
        c.api().put(&path, object).await,
        patched(&c, &path, change).await,
        patched(
            &c,
            &path,
            json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        )
        .await,
    ] {
        let answer = reply.expect(200)["metadata"].take();
        assert_eq!(
            answer["deletionTimestamp"],
            before["metadata"]["deletionTimestamp"]
        );
        assert_eq!(answer["deletionGracePeriodSeconds"], 0);
    }
    let reply = patched(&c, &path, json!({"metadata": {"deletionGracePeriodSeconds": 5}})).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(cause.field, "metadata.deletionGracePeriodSeconds");
    assert_eq!(cause.message, "Invalid value: 5: field is immutable");
}

async fn mark_cannot_be_set_by_hand(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let path = format!("{path}/a");
    let change = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}});
    let reply = patched(&c, &path, change).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.reason, &*cause.field),
        ("FieldValueInvalid", "metadata.deletionTimestamp")
    );
    assert!(cause.message.ends_with(": field is immutable"), "{cause:?}");
    assert_eq!(c.api().get(&path).await.expect(200), made);
}

async fn mark_is_dropped_from_new_objects(c: Cluster) {
    let ns = c.namespace().await;
    let object = with(
        config_map("a"),
        "/metadata/deletionTimestamp",
        json!("2020-01-01T00:00:00Z"),
    );
    let object = with(object, "/metadata/deletionGracePeriodSeconds", json!(4));
    let made = create(&c, &core(&ns, "configmaps"), &object).await;
    assert!(!is_marked(&made), "{made:#}");
    assert_eq!(made["metadata"]["deletionGracePeriodSeconds"], Value::Null);
}

async fn marked_object_can_still_change(c: Cluster) {
    let (path, before) = marked(&c).await;
    let answer = patched(&c, &path, json!({"spec": {"replicas": 7}}))
        .await
        .expect(200);
    assert_eq!(answer["spec"]["replicas"], 7);
    assert_eq!(answer["metadata"]["generation"], 3);
    assert!(version(&answer) > version(&before));
    assert_eq!(finalizers(&answer), [HOLD]);
}

async fn name_of_a_marked_object_is_taken(c: Cluster) {
    let (path, before) = marked(&c).await;
    let collection = path.trim_end_matches("/a");
    let reply = c.api().post(collection, deployment("a")).await;
    reply.expect_error(409, "AlreadyExists");
    let message = "object is being deleted: deployments.apps \"a\" already exists";
    reply.check(reply.message() == message, "another message");
    reply.check(
        reply.json()["details"] == json!({"name": "a", "group": "apps", "kind": "deployments"}),
        "other details",
    );
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn name_is_free_after_removal(c: Cluster) {
    let (path, before) = marked(&c).await;
    let change = json!({"metadata": {"finalizers": null}});
    patched(&c, &path, change).await.expect(200);
    let made = create(&c, path.trim_end_matches("/a"), &deployment("a")).await;
    assert_ne!(made["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(!is_marked(&made));
}

async fn dry_run_of_the_last_finalizer_removes_nothing(c: Cluster) {
    let (path, before) = marked(&c).await;
    let change = json!({"metadata": {"finalizers": null}});
    let answer = patched(&c, &format!("{path}?dryRun=All"), change).await;
    assert_eq!(finalizers(&answer.expect(200)), [""; 0]);
    assert_eq!(c.api().get(&path).await.expect(200), before);
}

async fn both_policy_finalizers_at_once_are_invalid(c: Cluster) {
    let ns = c.namespace().await;
    let both = json!(["orphan", "foregroundDeletion"]);
    let object = with(config_map("a"), "/metadata/finalizers", both);
    let reply = c.api().post(&core(&ns, "configmaps"), object).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.reason, &*cause.field),
        ("FieldValueInvalid", "metadata.finalizers")
    );
    let end = ": finalizer orphan and foregroundDeletion cannot be both set";
    assert!(cause.message.ends_with(end), "{cause:?}");
}

/// What clients see of it: a deletion that takes the last finalizers away cannot be of one version.
async fn version_is_forgotten_with_the_last_finalizer(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &config_map("a")).await;
    let path = format!("{path}/a");
    let orphan = json!({"propagationPolicy": "Orphan"});
    let marked = c.api().delete(&path, orphan).await.expect(200);
    let of = |version: &Value| json!({"propagationPolicy": "Background", "preconditions": {"resourceVersion": version}});
    let reply = c
        .api()
        .delete(&path, of(&marked["metadata"]["resourceVersion"]))
        .await;
    reply.expect_error(409, "Conflict");
    let message = reply.message();
    let end = format!(
        "Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: {}",
        version(&marked)
    );
    reply.check(message.ends_with(&end), &format!("expected {end}"));
    assert_eq!(c.api().get(&path).await.expect(200), marked);
    let background = json!({"propagationPolicy": "Background"});
    c.api().delete(&path, background).await.expect(200);
    assert_gone(&c, &path).await;
}
