//! Field ownership: fields of other managers, fields that are not set, and the adoption of children.

use super::*;

use steersman_controllers::appservice::{DEFAULT_IMAGE_MANAGER, FIELD_MANAGER};

const ADOPT_BY: &str = "appcontroller.k8s.io/adopt-by";

/// Scales a Deployment as an autoscaler does.
async fn scale(f: &Fixture, replicas: i64) {
    let key = Key::new("default", "web");
    let patch = Patch::merge(&json!({"spec": {"replicas": replicas}})).of("scale");
    let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("scaled");
}

/// Returns the fields that the controller owns in a Deployment.
fn owned(deployment: &Value) -> Value {
    let entries = deployment["metadata"]["managedFields"]
        .as_array()
        .expect("a list");
    let ours: Vec<&Value> = entries
        .iter()
        .filter(|it| it["manager"] == FIELD_MANAGER)
        .collect();
    assert_eq!(ours.len(), 1, "{entries:#?}");
    ours[0]["fieldsV1"].clone()
}

fn message(app: &Value) -> String {
    let conditions = app["status"]["conditions"].as_array().expect("conditions");
    let stalled = conditions
        .iter()
        .find(|it| it["type"] == "Stalled")
        .expect("a condition");
    stalled["message"].as_str().unwrap_or_default().to_owned()
}

fn without(field: &str) -> Value {
    let mut body = shop(&json!({}));
    body["spec"].as_object_mut().expect("a spec").remove(field);
    body
}

/// Returns the messages of the events with this reason.
async fn messages(f: &Fixture, reason: &str) -> Vec<String> {
    f.sleep(Duration::from_secs(1)).await;
    let events = f.list(&EVENTS).await;
    let of_reason = events.iter().filter(|it| it["reason"] == reason);
    of_reason
        .map(|it| it["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn field_that_another_manager_changes_is_corrected_at_once() {
    let f = controller_only(&json!({})).await;
    scale(&f, 1).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"], 2);
    assert_eq!(
        f.api.count("PATCH deployments"),
        3,
        "managedFields, the refused apply, the forced apply"
    );
    assert_eq!(f.api.count("GET appservices"), 1, "the spec is still in force");
    assert_eq!(
        messages(&f, "FieldManagerConflict").await,
        [
            "Corrected fields of Deployment \"web\" that other field managers changed: .spec.replicas (conflict with \
             \"test\" with subresource \"scale\" using apps/v1)."
        ]
    );
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Stalled").0, "False");
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.count("PATCH deployments"), 3);
}

#[tokio::test(start_paused = true)]
async fn field_that_another_client_removes_is_named() {
    let f = controller_only(&json!({"env": [{"name": "A", "value": "b"}]})).await;
    let remove = json!([{"op": "remove", "path": "/spec/template/spec/containers/0/env"}]);
    let key = Key::new("default", "web");
    let patch = Patch::json(&remove);
    let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    assert_eq!(
        messages(&f, "FieldManagerConflict").await,
        [
            "Restored field .spec.template.spec.containers[name=\"app\"].env[name=\"A\"] of Deployment \"web\", which \
             another client changed."
        ]
    );
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(
        web["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"],
        "b"
    );
}

/// The controller reads of the change of a Deployment before it reads that its own spec no longer asks for the field.
#[tokio::test(start_paused = true)]
async fn field_that_is_no_longer_set_is_not_corrected_by_an_outdated_spec() {
    let f = controller_only(&json!({})).await;
    let revision = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", revision);
    f.patch_spec("shop", &json!({"replicas": null})).await;
    scale(&f, 5).await;
    f.sleep(Duration::from_secs(10)).await;
    assert!(f.api.count("GET appservices") > 0, "a correction was planned");
    f.api.lag().release();
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn appservice_works_after_a_correction() {
    for way in [
        Propagation::Foreground,
        Propagation::Background,
        Propagation::Orphan,
    ] {
        let f = fixture().await;
        f.start_garbage_collector().await;
        f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
        scale(&f, 1).await;
        f.wait_until(async |f| f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"] == 2)
            .await;
        f.wait_ready("shop").await;
        f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
        f.wait_ready("shop").await;
        f.patch_spec("shop", &json!({"replicas": 3})).await;
        let it = f.wait_ready("shop").await;
        assert_eq!(it["status"]["availableReplicas"], 3);
        let pods = f.list(&PODS).await;
        let images = pods.iter().map(|it| &it["spec"]["containers"][0]["image"]);
        assert_eq!(images.collect::<Vec<_>>(), ["nginx:2"; 3]);
        f.delete(&APPS, "shop", way).await;
        f.wait_until(async |f| !f.exists(&APPS, "shop").await).await;
        f.sleep(Duration::from_mins(5)).await;
        let is_orphan = way == Propagation::Orphan;
        let left = (
            f.exists(&DEPLOYMENTS, "web").await,
            f.exists(&SERVICES, "shop").await,
            f.names(&PODS).await.len(),
        );
        let expected = if is_orphan {
            (true, true, 3)
        } else {
            (false, false, 0)
        };
        assert_eq!(left, expected, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn field_manager_that_fights_for_an_hour_is_named_and_not_fought_at_full_speed() {
    let f = controller_only(&json!({})).await;
    let start = f.env.clock.now();
    let mut reasons = Vec::new();
    while f.env.clock.now() - start < Duration::from_hours(1) {
        scale(&f, 5).await;
        f.sleep(Duration::from_secs(1)).await;
        reasons.push(condition(&f.get(&APPS, "shop").await, "Stalled").1);
    }
    let writes = f.api.operations();
    let writes: Vec<_> = writes.iter().filter(|it| !it.starts_with("GET ")).collect();
    assert!((10..60).contains(&writes.len()), "{}: {writes:?}", writes.len());
    reasons.dedup();
    assert_eq!(reasons, ["AsExpected", "CorrectionBackOff"], "it does not flap");
    let message = message(&f.get(&APPS, "shop").await);
    assert_eq!(
        message,
        "Other clients repeatedly change or delete Deployment \"web\": .spec.replicas (conflict with \"test\" with \
         subresource \"scale\" using apps/v1)."
    );
    assert_eq!(f.event_count("CorrectionBackOff").await, 1);
    // A new spec is applied at once.
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"], 3);
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(condition(&f.get(&APPS, "shop").await, "Stalled").1, "AsExpected");
}

#[tokio::test(start_paused = true)]
async fn minimal_appservice_has_the_default_image() {
    let f = fixture().await;
    let it = f.create_ready(&without("image")).await;
    assert!(it["spec"].get("image").is_none());
    assert_eq!(f.api.count("POST deployments"), 1);
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(image(&web), "nginx");
    let entries = web["metadata"]["managedFields"].as_array().expect("a list");
    assert!(
        entries.iter().all(|it| it["manager"] != FIELD_MANAGER),
        "{entries:#?}"
    );
    // An apply leaves the image to its manager.
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    f.wait_ready("shop").await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(image(&web), "nginx");
    let container = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"app\"}/f:image";
    assert!(owned(&web).pointer(container).is_none());
    let entries = web["metadata"]["managedFields"].as_array().expect("a list");
    let default = entries.iter().find(|it| it["manager"] == DEFAULT_IMAGE_MANAGER);
    let fields = &default.expect("an entry")["fieldsV1"];
    assert!(fields.pointer(container).is_some() && fields.get("f:metadata").is_none());
}

#[tokio::test(start_paused = true)]
async fn default_image_is_left_to_other_managers_until_one_is_set() {
    let f = fixture().await;
    f.create_ready(&without("image")).await;
    let set = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}});
    let patch = async |image: &str| {
        let patch = Patch::strategic(&set(image));
        let key = Key::new("default", "web");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
    };
    // As `kubectl set image`, before and after the first apply.
    patch("theirs:1").await;
    f.wait_ready("shop").await;
    let rollouts = f.names(&SETS).await;
    f.patch_spec("shop", &json!({"replicas": 3})).await;
    f.wait_ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "theirs:1");
    assert_eq!(f.names(&SETS).await, rollouts, "no pod is replaced");
    patch("theirs:2").await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "theirs:2");
    assert_eq!(f.event_count("FieldManagerConflict").await, 0);
    f.patch_spec("shop", &json!({"image": "ours"})).await;
    f.wait_ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "ours");
    let took_over = messages(&f, "FieldManagerConflict").await;
    assert!(
        took_over.len() == 1 && took_over[0].starts_with("Took over fields"),
        "{took_over:?}"
    );
    patch("theirs:3").await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(
        image(&f.get(&DEPLOYMENTS, "web").await),
        "ours",
        "now it is corrected"
    );
}

#[tokio::test(start_paused = true)]
async fn image_set_later_replaces_the_default_without_a_conflict() {
    let f = fixture().await;
    f.create_ready(&without("image")).await;
    for spec in [json!({"replicas": 3}), json!({"image": "ours"})] {
        f.patch_spec("shop", &spec).await;
        f.wait_ready("shop").await;
    }
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "ours");
    assert_eq!(f.event_count("FieldManagerConflict").await, 0);
}

#[tokio::test(start_paused = true)]
async fn unset_replicas_are_left_to_an_autoscaler_of_the_deployment() {
    let f = fixture().await;
    let it = f.create_ready(&without("replicas")).await;
    assert!(it["spec"].get("replicas").is_none());
    assert_eq!(
        it["status"]["availableReplicas"], 1,
        "the default of a Deployment"
    );
    scale(&f, 4).await;
    f.wait_until(async |f| f.get(&APPS, "shop").await["status"]["availableReplicas"] == 4)
        .await;
    f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
    f.wait_ready("shop").await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!((&web["spec"]["replicas"], image(&web)), (&json!(4), "nginx:2"));
    assert!(owned(&web)["f:spec"].get("f:replicas").is_none());
    assert_eq!(f.get(&APPS, "shop").await["status"]["replicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_no_longer_set_keep_their_value() {
    let f = fixture().await;
    f.create_ready(&shop(&json!({"replicas": 3}))).await;
    f.api.reset();
    f.patch_spec("shop", &json!({"replicas": null})).await;
    f.wait_ready("shop").await;
    f.sleep(Duration::from_mins(1)).await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(web["spec"]["replicas"], 3);
    assert!(owned(&web)["f:spec"].get("f:replicas").is_none());
    scale(&f, 5).await;
    f.sleep(Duration::from_mins(10)).await;
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn write_to_the_scale_of_an_appservice_sets_replicas() {
    let f = fixture().await;
    f.create_ready(&without("replicas")).await;
    let key = Key::new("default", "shop");
    let patch = Patch::merge(&json!({"spec": {"replicas": 4}})).of("scale");
    let _: Value = f.admin.patch(&APPS, &key, patch).await.expect("scaled");
    let it = f.wait_ready("shop").await;
    assert_eq!(
        (&it["spec"]["replicas"], &it["status"]["replicas"]),
        (&json!(4), &json!(4))
    );
}

#[tokio::test(start_paused = true)]
async fn missing_image_without_a_default_and_a_deployment_is_reported() {
    let f = without_controller().await;
    f.run(f.controller(&f.env, None));
    f.create(&APPS, &without("image")).await;
    assert_eq!(f.wait_stalled("shop").await, "InvalidSpec");
    assert_eq!(
        message(&f.get(&APPS, "shop").await),
        "The spec is invalid: spec.image: Required value: Deployment \"web\" does not exist yet."
    );
    f.sleep(Duration::from_mins(10)).await;
    assert!(f.names(&DEPLOYMENTS).await.is_empty());
    assert_eq!(f.api.operations(), ["PATCH appservices/status"]);
    f.patch_spec("shop", &json!({"image": "nginx"})).await;
    f.wait_ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn image_that_is_no_longer_set_keeps_its_value() {
    let f = with_shop().await;
    f.patch_spec("shop", &json!({"image": "nginx:2"})).await;
    f.wait_ready("shop").await;
    let pods = f.names(&PODS).await;
    f.patch_spec(
        "shop",
        &json!({"image": null, "env": [{"name": "A", "value": "b"}]}),
    )
    .await;
    f.wait_ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "nginx:2");
    assert_ne!(f.names(&PODS).await, pods, "the pod template changed");
    let mut web = f.get(&DEPLOYMENTS, "web").await;
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("theirs");
    f.patch(
        &DEPLOYMENTS,
        "web",
        &json!({"spec": {"template": {"spec": {"containers": web["spec"]["template"]["spec"]["containers"]}}}}),
    )
    .await;
    f.sleep(Duration::from_mins(5)).await;
    f.wait_ready("shop").await;
    assert_eq!(image(&f.get(&DEPLOYMENTS, "web").await), "theirs");
}

/// Deletes an `AppService` that orphans its children, and creates another with the same name.
async fn orphaned(f: &Fixture) -> Value {
    let body = shop(&json!({"ports": [{"port": 80}], "deletionPolicy": "Orphan"}));
    f.create_ready(&body).await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    f.delete(&APPS, "shop", Propagation::Background).await;
    f.wait_until(async |f| !f.exists(&APPS, "shop").await).await;
    f.create(&APPS, &shop(&json!({"ports": [{"port": 80}]}))).await;
    assert_eq!(f.wait_stalled("shop").await, "ErrResourceExists");
    web
}

#[tokio::test(start_paused = true)]
async fn orphaned_children_are_adopted_by_annotation() {
    let f = fixture().await;
    let before = orphaned(&f).await;
    let pods = f.names(&PODS).await;
    assert!(message(&f.get(&APPS, "shop").await).contains("appcontroller.k8s.io/adopt-by=shop"));
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let adopt = json!({"metadata": {"annotations": {ADOPT_BY: "shop"}}});
        f.patch(&resource, name, &adopt).await;
    }
    let it = f.wait_ready("shop").await;
    for (resource, name) in [(DEPLOYMENTS, "web"), (SERVICES, "shop")] {
        let child = f.get(&resource, name).await;
        assert_eq!(
            child["metadata"]["ownerReferences"][0]["uid"],
            it["metadata"]["uid"]
        );
    }
    let after = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(f.names(&PODS).await, pods, "no pod is replaced");
}

#[tokio::test(start_paused = true)]
async fn children_are_not_adopted_under_another_name() {
    let f = fixture().await;
    let before = orphaned(&f).await;
    let adopt = json!({"metadata": {"annotations": {ADOPT_BY: "other"}}});
    f.patch(&DEPLOYMENTS, "web", &adopt).await;
    f.sleep(Duration::from_hours(1)).await;
    assert_eq!(f.wait_stalled("shop").await, "ErrResourceExists");
    let after = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!((&after["spec"], owners(&after)), (&before["spec"], 0));
}

#[tokio::test(start_paused = true)]
async fn adopted_deployment_of_a_user_keeps_fields_that_are_not_set() {
    let f = fixture().await;
    // The selector is that of the controller.
    let labels = json!({"app.kubernetes.io/instance": "shop", "app.kubernetes.io/managed-by": "steersman",
                        "app.kubernetes.io/name": "web"});
    let mut theirs = foreign("web");
    theirs["metadata"]["annotations"] = json!({ADOPT_BY: "shop"});
    theirs["spec"]["selector"]["matchLabels"] = labels.clone();
    theirs["spec"]["template"]["metadata"]["labels"] = labels;
    theirs["spec"]["template"]["spec"]["containers"][0]["name"] = json!("app");
    f.create(&DEPLOYMENTS, &theirs).await;
    f.create(&APPS, &without("image")).await;
    f.wait_ready("shop").await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(
        (image(&web), &web["spec"]["replicas"], owners(&web)),
        ("theirs", &json!(2), 1)
    );
    // The user owned the replicas.
    assert_eq!(f.event_count("FieldManagerConflict").await, 1);
}
