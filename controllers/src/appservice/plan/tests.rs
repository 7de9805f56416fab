use super::*;

use serde_json::json;

use crate::appservice::policy::FINALIZER;

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
    let mut it = children::deployment(app);
    it["metadata"]["namespace"] = json!("ns");
    it["metadata"]["uid"] = json!(format!("uid-{}", app.spec.deployment_name));
    it["metadata"]["resourceVersion"] = json!("7");
    change(&mut it);
    Arc::new(serde_json::from_value(it).expect("a Deployment"))
}

fn service(app: &AppService, change: impl FnOnce(&mut Value)) -> Arc<Service> {
    let mut it = children::service(app).expect("it has ports");
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
    })
}

#[test]
fn what_is_missing_is_made_and_what_is_there_is_kept() {
    let app = web(&json!({"ports": [{"port": 80}]}));
    let plan = planned(&app, &[], None);
    assert_eq!(plan.deployment, Step::Create(children::deployment(&app)));
    assert_eq!(
        plan.service,
        Step::Create(children::service(&app).expect("it has ports"))
    );
    let (deployment, service) = (deployment(&app, |_| {}), service(&app, |_| {}));
    let plan = planned(&app, &[Arc::clone(&deployment)], Some(&service));
    let expected = Plan {
        deployment: Step::Keep(deployment),
        service: Step::Keep(service),
        ..Plan::default()
    };
    assert_eq!(plan, expected, "there is nothing to do");
}

#[test]
fn what_is_another_ones_is_not_touched() {
    let app = web(&json!({"ports": [{"port": 80}]}));
    let foreign = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    let theirs = |it: &mut Value| {
        foreign(it);
        it["metadata"]["ownerReferences"][0]["name"] = json!("other");
        it["spec"]["replicas"] = json!(9);
    };
    let (deployment, service) = (deployment(&app, theirs), service(&app, theirs));
    let plan = planned(&app, &[Arc::clone(&deployment)], Some(&service));
    assert_eq!(plan.deployment, Step::Taken(deployment));
    assert_eq!(plan.service, Step::Taken(service));
    let before = super::tests::deployment(&app, foreign);
    let plan = planned(&app, &[Arc::clone(&before)], None);
    assert_eq!(
        plan.deployment,
        Step::Wait(before),
        "it is that of an AppService of this name that is gone"
    );
}

#[test]
fn a_service_without_ports_goes_if_it_is_its_own() {
    let (with, without) = (web(&json!({"ports": [{"port": 80}]})), web(&json!({})));
    let own = service(&with, |_| {});
    assert_eq!(planned(&without, &[], Some(&own)).service, Step::Delete(own));
    let theirs = service(&with, |it| it["metadata"]["ownerReferences"] = json!([]));
    // It says that it is ours, by its labels.
    assert!(matches!(
        planned(&without, &[], Some(&theirs)).service,
        Step::Delete(_)
    ));
    let theirs = service(&with, |it| {
        it["metadata"]["ownerReferences"] = json!([]);
        it["metadata"]["labels"] = json!({});
    });
    assert_eq!(planned(&without, &[], Some(&theirs)).service, Step::None);
    let going = service(&with, |it| {
        it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(planned(&without, &[], Some(&going)).service, Step::None);
}

#[test]
fn a_former_deployment_is_found_beside_the_present_one() {
    let (old, new) = (
        web(&json!({"deploymentName": "old"})),
        web(&json!({"deploymentName": "new"})),
    );
    let former = deployment(&old, |_| {});
    let plan = planned(&new, &[Arc::clone(&former)], None);
    assert!(matches!(plan.deployment, Step::Create(_)));
    assert_eq!(plan.former, [(former, None)]);
}

#[test]
fn what_makes_no_sense_leaves_all_as_it_is_but_for_the_policy() {
    let (fine, bad) = (
        web(&json!({})),
        json!({"deploymentName": "web", "image": "nginx", "replicas": -1}),
    );
    let plan = planned(&app(&bad, &[]), &[], None);
    assert_eq!(
        (plan.deployment, plan.service, plan.problems.len()),
        (Step::None, Step::None, 1)
    );
    let present = deployment(&fine, |_| {});
    let plan = planned(&app(&bad, &[]), &[Arc::clone(&present)], None);
    assert_eq!(plan.deployment, Step::Keep(present.clone()));
    let mut orphan = bad;
    orphan["deletionPolicy"] = json!("Orphan");
    let plan = planned(&app(&orphan, &[]), &[present], None);
    assert!(plan.hold.is_some());
    let Step::Refer(_, patch) = plan.deployment else {
        panic!("{:?}", plan.deployment);
    };
    assert_eq!(
        (&patch["metadata"]["ownerReferences"], patch.get("spec")),
        (&json!([]), None)
    );
}

#[test]
fn the_finalizer_comes_and_goes_with_the_policy() {
    let orphan = json!({"deploymentName": "web", "image": "nginx", "deletionPolicy": "Orphan"});
    let plan = planned(&app(&orphan, &[]), &[], None);
    assert!(plan.hold.is_some() && !plan.let_go);
    let Step::Create(body) = plan.deployment else {
        panic!("{:?}", plan.deployment);
    };
    assert!(body["metadata"].get("ownerReferences").is_none());
    let plan = planned(&app(&orphan, &[FINALIZER]), &[], None);
    assert!(plan.hold.is_none() && !plan.let_go);
    let delete = app(&json!({"deploymentName": "web", "image": "nginx"}), &[FINALIZER]);
    let plan = planned(&delete, &[], None);
    assert!(plan.hold.is_none() && plan.let_go);
}

#[test]
fn missing_image_needs_a_deployment() {
    let (unset, full) = (app(&json!({"deploymentName": "web"}), &[]), web(&json!({})));
    let plan = planned(&unset, &[], None);
    assert_eq!((plan.deployment, plan.service), (Step::None, Step::None));
    assert_eq!(plan.problems[0].field, "spec.image");
    let present = deployment(&full, |_| {});
    let plan = planned(&unset, &[present], None);
    assert_eq!(plan.problems, []);
    let Step::Apply(_, desired) = plan.deployment else {
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
        Step::Apply(Arc::clone(&deployment), children::deployment(&with))
    );
    assert!(matches!(plan.service, Step::Apply(_, _)));
    let plan = planned(&without, &[deployment], Some(&service));
    assert_eq!(plan.service, Step::None);
}
