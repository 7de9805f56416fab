//! Status and scale of custom resources, where a version has them.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{Place, install, patched, version};
use crate::support::{self, MERGE, create, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(status_is_dropped_from_new_objects),
        test!(object_does_not_write_status),
        test!(status_writes_only_status),
        test!(status_by_put),
        test!(scale_shows_what_its_paths_say),
        test!(scale_writes_replicas),
        test!(an_autoscaler_may_name_them),
        test!(scale_needs_replicas_in_the_spec),
        test!(switched_off_they_are_not_found),
        test!(each_version_has_its_own),
    ]
}

/// Widgets with status and scale in `v1` and neither in `v2`; one of them, and its path in `v1`.
async fn installed(c: &Cluster) -> (Place, String, Value) {
    let place = Place::new(c).await;
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                       "labelSelectorPath": ".status.selector"});
    let v1 = with(
        version("v1", true, true),
        "/subresources",
        json!({"status": {}, "scale": scale}),
    );
    let names = place.crd()["spec"]["names"].clone();
    let crd = place.crd_of("Namespaced", &names, &[v1, version("v2", true, false)]);
    install(c, &crd).await;
    let widget = with(place.widget("a"), "/spec", json!({"replicas": 2, "x": 1}));
    let widget = with(widget, "/status", json!({"replicas": 9}));
    let path = place.widgets("v1");
    let made = create(c, &path, &widget).await;
    (place, format!("{path}/a"), made)
}

async fn status_is_dropped_from_new_objects(c: Cluster) {
    let (place, path, made) = installed(&c).await;
    assert_eq!(made["status"], Value::Null);
    assert_eq!(c.api().get(&path).await.expect(200)["status"], Value::Null);
    place.remove(&c).await;
}

async fn object_does_not_write_status(c: Cluster) {
    let (place, path, made) = installed(&c).await;
    let same = patched(&c, &path, json!({"status": {"x": 1}})).await;
    assert_eq!(same["status"], Value::Null);
    // Older servers note who tried.
    if c.version() >= (1, 36) {
        assert_eq!(same, made);
    }
    patched(&c, &format!("{path}/status"), json!({"status": {"x": 1}})).await;
    let answer = patched(&c, &path, json!({"spec": {"x": 2}, "status": {"x": 2}})).await;
    assert_eq!(answer["status"], json!({"x": 1}));
    assert_eq!(answer["metadata"]["generation"], 2);
    place.remove(&c).await;
}

async fn status_writes_only_status(c: Cluster) {
    let (place, path, made) = installed(&c).await;
    let change = json!({"status": {"x": 1}, "spec": {"x": 99}, "metadata": {"labels": {"l": "1"}}});
    let answer = patched(&c, &format!("{path}/status"), change).await;
    assert_eq!(answer["kind"], "Widget");
    assert_eq!(answer["status"], json!({"x": 1}));
    assert_eq!(answer["spec"], made["spec"]);
    assert_eq!(answer["metadata"]["labels"], Value::Null);
    assert_eq!(answer["metadata"]["generation"], 1);
    assert!(support::version(&answer) > support::version(&made));
    let read = c.api().get(&format!("{path}/status")).await.expect(200);
    assert_eq!(read, answer);
    place.remove(&c).await;
}

async fn status_by_put(c: Cluster) {
    let (place, path, made) = installed(&c).await;
    let path = format!("{path}/status");
    let answer = c
        .api()
        .put(&path, with(made.clone(), "/status", json!({"x": 1})))
        .await
        .expect(200);
    assert_eq!(answer["status"], json!({"x": 1}));
    c.api()
        .put(&path, with(made, "/status", json!({"x": 2})))
        .await
        .expect_error(409, "Conflict");
    place.remove(&c).await;
}

async fn scale_shows_what_its_paths_say(c: Cluster) {
    let (place, path, made) = installed(&c).await;
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}});
    let now = patched(&c, &format!("{path}/status"), status).await;
    let scale = c.api().get(&format!("{path}/scale")).await.expect(200);
    let metadata = json!({"name": "a", "namespace": place.ns, "uid": made["metadata"]["uid"],
        "resourceVersion": now["metadata"]["resourceVersion"], "creationTimestamp": made["metadata"]["creationTimestamp"]});
    assert_eq!(
        scale,
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {"replicas": 2},
               "status": {"replicas": 1, "selector": "a=b"}})
    );
    place.remove(&c).await;
}

async fn scale_writes_replicas(c: Cluster) {
    let (place, path, _) = installed(&c).await;
    let scale = patched(&c, &format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scale["spec"]["replicas"], 5);
    let widget = c.api().get(&path).await.expect(200);
    assert_eq!(widget["spec"], json!({"replicas": 5, "x": 1}));
    assert_eq!(widget["metadata"]["generation"], 2);
    assert_eq!(
        scale["metadata"]["resourceVersion"],
        widget["metadata"]["resourceVersion"]
    );
    let put = with(scale.clone(), "/spec/replicas", json!(6));
    let scale = c.api().put(&format!("{path}/scale"), &put).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 6);
    // The version of the scale is that of the object.
    c.api()
        .put(&format!("{path}/scale"), &put)
        .await
        .expect_error(409, "Conflict");
    let reply = c
        .api()
        .patch(&format!("{path}/scale"), MERGE, json!({"spec": {"replicas": -1}}))
        .await;
    reply.expect_error(422, "Invalid");
    let widget = c.api().get(&path).await.expect(200);
    assert_eq!(widget["spec"]["replicas"], 6);
    place.remove(&c).await;
}

/// What an autoscaler asks of the object that it names: the scale, with the pods' selector in it, and that it may be set.
async fn an_autoscaler_may_name_them(c: Cluster) {
    let (place, path, _) = installed(&c).await;
    let autoscalers = format!(
        "/apis/autoscaling/v1/namespaces/{}/horizontalpodautoscalers",
        place.ns
    );
    let target = json!({"apiVersion": format!("{}/v1", place.group), "kind": "Widget", "name": "a"});
    let spec = json!({"minReplicas": 2, "maxReplicas": 9, "scaleTargetRef": target});
    let made = create(
        &c,
        &autoscalers,
        &json!({"metadata": {"name": "a"}, "spec": spec}),
    )
    .await;
    assert_eq!(made["spec"]["scaleTargetRef"], target);
    let status = json!({"status": {"replicas": 2, "selector": "a=b"}});
    patched(&c, &format!("{path}/status"), status).await;
    let mut scale = c.api().get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
    scale["spec"]["replicas"] = json!(9);
    c.api().put(&format!("{path}/scale"), scale).await.expect(200);
    assert_eq!(c.api().get(&path).await.expect(200)["spec"]["replicas"], 9);
    let seen = json!({"status": {"currentReplicas": 2, "desiredReplicas": 9}});
    let seen = patched(&c, &format!("{autoscalers}/a/status"), seen).await;
    assert_eq!(
        seen["status"],
        json!({"currentReplicas": 2, "desiredReplicas": 9})
    );
    let raised = patched(
        &c,
        &format!("{autoscalers}/a"),
        json!({"spec": {"maxReplicas": 12}}),
    )
    .await;
    assert_eq!(
        (&raised["spec"]["maxReplicas"], &raised["status"]),
        (&json!(12), &seen["status"])
    );
    place.remove(&c).await;
}

/// Only what the status says may be missing.
async fn scale_needs_replicas_in_the_spec(c: Cluster) {
    let (place, path, _) = installed(&c).await;
    let scale = c.api().get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(scale["status"], json!({"replicas": 0}));
    create(&c, &place.widgets("v1"), &place.widget("b")).await;
    let reply = c.api().get(&format!("{}/b/scale", place.widgets("v1"))).await;
    reply.expect_error(500, "InternalError");
    let message = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    reply.check(reply.message() == message, message);
    place.remove(&c).await;
}

async fn switched_off_they_are_not_found(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let path = place.widgets("v1");
    create(&c, &path, &place.widget("a")).await;
    for part in ["status", "scale"] {
        let part = format!("{path}/a/{part}");
        c.api().get(&part).await.expect_error(404, "NotFound");
        c.api()
            .patch(&part, MERGE, json!({"status": {"x": 1}}))
            .await
            .expect_error(404, "NotFound");
    }
    place.remove(&c).await;
}

async fn each_version_has_its_own(c: Cluster) {
    let (place, _, _) = installed(&c).await;
    let path = format!("{}/a", place.widgets("v2"));
    for part in ["status", "scale"] {
        c.api()
            .get(&format!("{path}/{part}"))
            .await
            .expect_error(404, "NotFound");
    }
    // Where there is no status subresource, the object writes it.
    let answer = patched(&c, &path, json!({"status": {"x": 1}})).await;
    assert_eq!(answer["status"], json!({"x": 1}));
    assert_eq!(answer["metadata"]["generation"], 2);
    place.remove(&c).await;
}
