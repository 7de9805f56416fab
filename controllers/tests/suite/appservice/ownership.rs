//! Field ownership: fields of other managers, fields that are not set, and the adoption of children.

use super::*;

use steersman_controllers::api::app_service::AppService;
use steersman_controllers::appservice::FIELD_MANAGER;
use steersman_controllers::appservice::desired::{self, APPLIED_HASH_LABEL};
use steersman_manager::client::Transport;

const ADOPT_BY: &str = "appcontroller.k8s.io/adopt-by";

/// The maximum time from the end of a conflict to a ready `AppService`. It does not wait for the retry of the apply, a minute
/// after the conflict.
const RESOLVED_MAX: Duration = Duration::from_secs(10);

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

#[tokio::test(start_paused = true)]
async fn field_of_another_manager_is_reported_and_not_forced() {
    let f = controller_only(&json!({})).await;
    scale(&f, 5).await;
    assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    let it = f.get(&APPS, "shop").await;
    let message = message(&it);
    assert!(
        message.starts_with("Deployment \"web\" has fields that other field managers own. "),
        "{message}"
    );
    assert!(
        message.contains("conflict with \"test\"") && message.contains(".spec.replicas"),
        "{message}"
    );
    assert_eq!(condition(&it, "Ready").0, "False");
    // One attempt per minute, although the status of the Deployment changes.
    for nth in 0..60 {
        let status = json!({"status": {"replicas": nth}});
        let key = Key::new("default", "web");
        let patch = Patch::merge(&status).of("status");
        let _: Value = f.admin.patch(&DEPLOYMENTS, &key, patch).await.expect("patched");
        f.sleep(Duration::from_secs(10)).await;
    }
    let attempts = f.api.count("PATCH deployments");
    assert!((10..=12).contains(&attempts), "{attempts}");
    assert_eq!(f.event_count("FieldManagerConflict").await, 1);
    assert_eq!(f.get(&DEPLOYMENTS, "web").await["spec"]["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn conflict_ends_when_the_spec_has_the_current_value() {
    let f = with_shop().await;
    scale(&f, 5).await;
    assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    f.patch_spec("shop", &json!({"replicas": 5})).await;
    let it = f.wait_ready_within("shop", RESOLVED_MAX).await;
    assert_eq!(it["status"]["availableReplicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn deletion_policy_is_followed_during_a_conflict() {
    let f = with_shop().await;
    scale(&f, 5).await;
    assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    for (policy, references) in [("Orphan", 0), ("Delete", 1)] {
        f.patch_spec("shop", &json!({"deletionPolicy": policy})).await;
        f.wait_until(async |f| owners(&f.get(&DEPLOYMENTS, "web").await) == references)
            .await;
        assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_ends_when_the_other_manager_restores_the_value() {
    let f = with_shop().await;
    scale(&f, 5).await;
    assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    scale(&f, 2).await;
    f.wait_ready_within("shop", RESOLVED_MAX).await;
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
async fn missing_image_without_a_deployment_is_reported() {
    let f = fixture().await;
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
async fn adopted_deployment_of_a_user_keeps_the_users_fields() {
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
    // The user owns the replicas as well.
    assert_eq!(f.wait_stalled("shop").await, "FieldManagerConflict");
    f.patch_spec("shop", &json!({"replicas": null})).await;
    f.wait_ready("shop").await;
    let web = f.get(&DEPLOYMENTS, "web").await;
    assert_eq!(
        (image(&web), &web["spec"]["replicas"], owners(&web)),
        ("theirs", &json!(1), 1)
    );
}

/// Creates a child as builds before server-side apply did: by a POST and a merge patch, with the field manager that the API
/// server derives from the user agent.
async fn create_as_legacy_build(f: &Fixture, resource: &Resource, mut child: Value) {
    let clock = &f.env.clock;
    let transport = Transport::from_service(
        f.sandbox.service(),
        "sandbox",
        "steersman",
        clock,
        &Registry::new("steersman"),
    );
    let client = transport
        .expect("a transport")
        .unfenced("appservice-controller", None);
    let labels = child["metadata"]["labels"].as_object_mut().expect("labels");
    labels.remove(APPLIED_HASH_LABEL);
    let body = child.to_string().into();
    let made: Value = client.create(resource, "default", body).await.expect("created");
    let key = Key::new("default", made["metadata"]["name"].as_str().expect("a name"));
    let written = json!({"metadata": {"annotations": {
        "appcontroller.k8s.io/written": "env,ports", "deployment.kubernetes.io/revision": "1"}}});
    let patched = client
        .patch::<Value>(resource, &key, Patch::merge(&written))
        .await;
    patched.expect("patched");
}

/// Builds before server-side apply wrote children under another field manager.
#[tokio::test(start_paused = true)]
async fn child_of_a_legacy_build_follows_its_appservice() {
    let f = without_controller().await;
    let body = shop(&json!({"ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}]}));
    let app = f.create(&APPS, &body).await;
    let app: AppService = serde_json::from_value(app).expect("an AppService");
    create_as_legacy_build(&f, &DEPLOYMENTS, desired::deployment(&app)).await;
    create_as_legacy_build(&f, &SERVICES, desired::service(&app).expect("ports")).await;
    f.start_controller();
    f.wait_ready("shop").await;
    let pods = f.names(&PODS).await;
    f.sleep(Duration::from_mins(5)).await;
    assert_eq!(f.names(&PODS).await, pods, "no pod is replaced");
    let change = json!({"replicas": 3, "image": "nginx:2", "env": null, "ports": [{"port": 81}]});
    f.patch_spec("shop", &change).await;
    let it = f.wait_ready("shop").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
    let (web, service) = (f.get(&DEPLOYMENTS, "web").await, f.get(&SERVICES, "shop").await);
    assert_eq!((&web["spec"]["replicas"], image(&web)), (&json!(3), "nginx:2"));
    let container = &web["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("env").is_none(), "{container:#}");
    let ports = service["spec"]["ports"].as_array().expect("ports");
    assert_eq!((ports.len(), &ports[0]["port"]), (1, &json!(81)));
    let annotations = &web["metadata"]["annotations"];
    assert!(annotations.get("appcontroller.k8s.io/written").is_none());
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "2");
    owned(&web);
    assert_eq!(f.event_count("FieldManagerConflict").await, 0);
}
