use super::*;

use serde_json::json;

use crate::appservice::FINALIZER;

fn app(spec: &Value, finalizers: &[&str]) -> AppService {
    let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1",
                          "finalizers": finalizers});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an AppService")
}

fn web(more: &Value) -> AppService {
    let mut spec = json!({"deploymentName": "web", "image": "nginx", "replicas": 2});
    let more = more.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("a spec").extend(more);
    app(&spec, &[])
}

fn deployment(app: &AppService, change: impl FnOnce(&mut Value)) -> Arc<Deployment> {
    let mut it = desired::deployment(app);
    it["metadata"]["namespace"] = json!("ns");
    it["metadata"]["uid"] = json!(format!("uid-{}", app.spec.deployment_name));
    it["metadata"]["resourceVersion"] = json!("7");
    change(&mut it);
    Arc::new(serde_json::from_value(it).expect("a Deployment"))
}

fn service(app: &AppService, change: impl FnOnce(&mut Value)) -> Arc<Service> {
    let mut it = desired::service(app).expect("it has ports");
    it["metadata"]["namespace"] = json!("ns");
    it["metadata"]["uid"] = json!("s");
    change(&mut it);
    Arc::new(serde_json::from_value(it).expect("a Service"))
}

fn planned(app: &AppService, deployments: &[Arc<Deployment>], service: Option<&Arc<Service>>) -> Plan {
    plan(&Snapshot {
        app,
        deployments,
        service,
        default_image: None,
    })
}

#[test]
fn missing_children_are_created_and_present_ones_kept() {
    let app = web(&json!({"ports": [{"port": 80}]}));
    let plan = planned(&app, &[], None);
    assert_eq!(plan.deployment, ChildAction::Create(desired::deployment(&app)));
    assert_eq!(
        plan.service,
        ChildAction::Create(desired::service(&app).expect("it has ports"))
    );
    let (deployment, service) = (deployment(&app, |_| {}), service(&app, |_| {}));
    let plan = planned(&app, &[Arc::clone(&deployment)], Some(&service));
    let expected = Plan {
        deployment: ChildAction::Keep(deployment),
        service: ChildAction::Keep(service),
        ..Plan::default()
    };
    assert_eq!(plan, expected, "no action");
}

#[test]
fn foreign_children_are_not_changed() {
    let app = web(&json!({"ports": [{"port": 80}]}));
    let foreign = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    let theirs = |it: &mut Value| {
        foreign(it);
        it["metadata"]["ownerReferences"][0]["name"] = json!("other");
        it["spec"]["replicas"] = json!(9);
    };
    let (deployment, service) = (deployment(&app, theirs), service(&app, theirs));
    let plan = planned(&app, &[Arc::clone(&deployment)], Some(&service));
    assert_eq!(plan.deployment, ChildAction::NameTaken(deployment));
    assert_eq!(plan.service, ChildAction::NameTaken(service));
    let stale = super::tests::deployment(&app, foreign);
    let plan = planned(&app, &[Arc::clone(&stale)], None);
    assert_eq!(
        plan.deployment,
        ChildAction::AwaitDeletion(stale),
        "it belongs to a deleted AppService of this name"
    );
}

#[test]
fn service_without_ports_is_deleted_if_owned() {
    let (with, without) = (web(&json!({"ports": [{"port": 80}]})), web(&json!({})));
    let own = service(&with, |_| {});
    assert_eq!(
        planned(&without, &[], Some(&own)).service,
        ChildAction::Delete(own)
    );
    let theirs = service(&with, |it| it["metadata"]["ownerReferences"] = json!([]));
    // Owned by its labels.
    assert!(matches!(
        planned(&without, &[], Some(&theirs)).service,
        ChildAction::Delete(_)
    ));
    let theirs = service(&with, |it| {
        it["metadata"]["ownerReferences"] = json!([]);
        it["metadata"]["labels"] = json!({});
    });
    assert_eq!(planned(&without, &[], Some(&theirs)).service, ChildAction::None);
    let terminating = service(&with, |it| {
        it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(
        planned(&without, &[], Some(&terminating)).service,
        ChildAction::None
    );
}

#[test]
fn previous_deployment_is_kept_until_the_new_one_is_available() {
    let (old, new) = (
        web(&json!({"deploymentName": "old"})),
        web(&json!({"deploymentName": "new"})),
    );
    let previous = deployment(&old, |_| {});
    let plan = planned(&new, &[Arc::clone(&previous)], None);
    assert!(matches!(plan.deployment, ChildAction::Create(_)));
    assert_eq!(plan.previous, [ChildAction::Keep(Arc::clone(&previous))]);
    let available = deployment(&new, |it| {
        it["status"] = json!({"updatedReplicas": 2, "availableReplicas": 2});
    });
    let plan = planned(&new, &[available, Arc::clone(&previous)], None);
    assert_eq!(plan.previous, [ChildAction::Delete(previous)]);
}

#[test]
fn invalid_spec_only_follows_the_deletion_policy() {
    let (valid, invalid) = (
        web(&json!({})),
        json!({"deploymentName": "web", "image": "nginx", "replicas": -1}),
    );
    let plan = planned(&app(&invalid, &[]), &[], None);
    assert_eq!(
        (plan.deployment, plan.service, plan.errors.len()),
        (ChildAction::None, ChildAction::None, 1)
    );
    let present = deployment(&valid, |_| {});
    let plan = planned(&app(&invalid, &[]), &[Arc::clone(&present)], None);
    assert_eq!(plan.deployment, ChildAction::Keep(present.clone()));
    let mut orphan = invalid;
    orphan["deletionPolicy"] = json!("Orphan");
    let plan = planned(&app(&orphan, &[]), &[present], None);
    assert!(plan.add_finalizer.is_some());
    let ChildAction::PatchOwner(_, patch) = plan.deployment else {
        panic!("{:?}", plan.deployment);
    };
    assert_eq!(
        (&patch["metadata"]["ownerReferences"], patch.get("spec")),
        (&json!([]), None)
    );
}

#[test]
fn finalizer_follows_the_deletion_policy() {
    let orphan = json!({"deploymentName": "web", "image": "nginx", "deletionPolicy": "Orphan"});
    let plan = planned(&app(&orphan, &[]), &[], None);
    assert!(plan.add_finalizer.is_some() && !plan.remove_finalizer);
    let ChildAction::Create(body) = plan.deployment else {
        panic!("{:?}", plan.deployment);
    };
    assert!(body["metadata"].get("ownerReferences").is_none());
    let plan = planned(&app(&orphan, &[FINALIZER]), &[], None);
    assert!(plan.add_finalizer.is_none() && !plan.remove_finalizer);
    let delete = app(&json!({"deploymentName": "web", "image": "nginx"}), &[FINALIZER]);
    let plan = planned(&delete, &[], None);
    assert!(plan.add_finalizer.is_none() && plan.remove_finalizer);
}

#[test]
fn new_deployment_has_the_image_of_the_previous_one_or_the_default() {
    let unset = app(&json!({"deploymentName": "web"}), &[]);
    let created = |app: &AppService, deployments: &[Arc<Deployment>], default_image| {
        let service = None;
        let plan = plan(&Snapshot {
            app,
            deployments,
            service,
            default_image,
        });
        let ChildAction::Create(mut body) = plan.deployment else {
            panic!("{plan:?}");
        };
        let container = &mut body["spec"]["template"]["spec"]["containers"][0];
        let image = container.as_object_mut().expect("a container").remove("image");
        let desired = desired::deployment(&unset);
        assert_eq!(
            body["metadata"]["labels"] == desired["metadata"]["labels"],
            app.spec.image().is_none(),
            "the hash is that of the desired state"
        );
        image.expect("an image")
    };
    assert_eq!(created(&unset, &[], Some("default")), "default");
    assert_eq!(
        created(&web(&json!({"image": "own"})), &[], Some("default")),
        "own"
    );
    let old = app(&json!({"deploymentName": "old", "image": "old"}), &[]);
    let previous = deployment(&old, |_| {});
    for default in [None, Some("default")] {
        assert_eq!(created(&unset, &[Arc::clone(&previous)], default), "old");
    }
    let copy = deployment(&old, |it| it["metadata"]["name"] = json!("copy"));
    assert_eq!(created(&unset, &[copy], Some("default")), "default");
}

#[test]
fn missing_image_requires_a_deployment() {
    let (unset, full) = (app(&json!({"deploymentName": "web"}), &[]), web(&json!({})));
    let plan = planned(&unset, &[], None);
    assert_eq!(
        (plan.deployment, plan.service),
        (ChildAction::None, ChildAction::None)
    );
    assert_eq!(plan.errors[0].field, "spec.image");
    let present = deployment(&full, |_| {});
    let plan = planned(&unset, &[present], None);
    assert_eq!(plan.errors, []);
    let ChildAction::Apply(_, desired) = plan.deployment else {
        panic!("{:?}", plan.deployment);
    };
    assert_eq!(
        desired["spec"]["template"]["spec"]["containers"],
        json!([{"name": "app"}])
    );
}

#[test]
fn adoptable_children_are_applied_and_never_deleted() {
    let (with, without) = (web(&json!({"ports": [{"port": 80}]})), web(&json!({})));
    let left = |it: &mut Value| {
        it["metadata"]["ownerReferences"] = json!([]);
        it["metadata"]["labels"]["appcontroller.k8s.io/appservice-uid"] = json!("before");
        it["metadata"]["annotations"]["appcontroller.k8s.io/adopt-by"] = json!("shop");
    };
    let (deployment, service) = (deployment(&with, left), service(&with, left));
    let plan = planned(&with, &[Arc::clone(&deployment)], Some(&service));
    assert_eq!(
        plan.deployment,
        ChildAction::Apply(Arc::clone(&deployment), desired::deployment(&with))
    );
    assert!(matches!(plan.service, ChildAction::Apply(_, _)));
    let plan = planned(&without, &[Arc::clone(&deployment)], Some(&service));
    assert_eq!(plan.service, ChildAction::None);
    let plan = planned(&web(&json!({"replicas": -1})), &[deployment], None);
    assert_eq!(
        plan.deployment,
        ChildAction::None,
        "an invalid spec does not adopt"
    );
}

fn named(name: &str, change: impl FnOnce(&mut Value)) -> Arc<Deployment> {
    deployment(&web(&json!({"deploymentName": name})), change)
}

#[test]
fn previous_deployment_is_owned_and_created_under_its_name() {
    let app = web(&json!({"deploymentName": "new"}));
    let found = |one: Arc<Deployment>| previous_deployments(&app, &[one]).count() == 1;
    assert!(found(named("old", |_| {})));
    assert!(!found(named("new", |_| {})), "the present Deployment");
    assert!(
        found(named("old", |it| it["metadata"]["ownerReferences"] = json!([]))),
        "an orphan"
    );
    assert!(
        !found(named("old", |it| it["metadata"]["name"] = json!("copy"))),
        "a copy"
    );
    assert!(!found(
        named("old", |it| it["metadata"]["annotations"] = json!({}))
    ));
    assert!(!found(named("old", |it| it["metadata"]["labels"] = json!({}))));
    let uid = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    assert!(!found(named("old", uid)), "owned by another AppService");
    let terminating = |it: &mut Value| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!found(named("old", terminating)), "terminating");
}

#[test]
fn deployment_is_available_when_all_desired_replicas_are() {
    let status = |updated: i64, available: i64, observed: i64| {
        named("new", |it| {
            it["metadata"]["generation"] = json!(2);
            it["status"] = json!({"observedGeneration": observed, "updatedReplicas": updated,
                                  "availableReplicas": available});
        })
    };
    let app = web(&json!({"deploymentName": "new"}));
    assert!(is_available(&app, &status(2, 2, 2)));
    assert!(!is_available(&app, &status(2, 1, 2)) && !is_available(&app, &status(1, 2, 2)));
    assert!(
        !is_available(&app, &status(2, 2, 1)),
        "status is of an earlier generation"
    );
    let smaller = named("new", |it| {
        it["spec"]["replicas"] = json!(1);
        it["status"] = json!({"updatedReplicas": 2, "availableReplicas": 2});
    });
    assert!(!is_available(&app, &smaller), "not scaled yet");
}

#[test]
fn unset_replicas_default_to_those_of_the_deployment() {
    let unset = app(&json!({"deploymentName": "new"}), &[]);
    let scaled = |available: i64| {
        named("new", |it| {
            it["spec"]["replicas"] = json!(5);
            it["status"] = json!({"updatedReplicas": 5, "availableReplicas": available});
        })
    };
    assert!(is_available(&unset, &scaled(5)) && !is_available(&unset, &scaled(4)));
}
