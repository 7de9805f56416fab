use super::*;

use std::cell::Cell;

use crate::api::app_service::AppService;
use crate::appservice::child::Service;
use crate::appservice::desired;
use crate::support::deployment::Deployment;

thread_local! {
    static COMPARISONS: Cell<usize> = const { Cell::new(0) };
}

/// Counts the calls of `difference` by the test of this thread.
pub(super) fn count_comparison() {
    COMPARISONS.with(|it| it.set(it.get() + 1));
}

fn app(spec: &Value) -> AppService {
    let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
    let mut all = json!({"deploymentName": "web", "replicas": 2, "image": "nginx"});
    merge(&mut all, spec);
    serde_json::from_value(json!({"metadata": metadata, "spec": all})).expect("an AppService")
}

/// Returns the Deployment with fields that the API server defaults.
fn stored(app: &AppService) -> Value {
    let mut it = desired::deployment(app);
    merge(
        &mut it,
        &json!({"metadata": {"namespace": "ns", "uid": "d", "resourceVersion": "7"},
                "spec": {"strategy": {"type": "RollingUpdate"}}}),
    );
    merge(
        container(&mut it),
        &json!({"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log"}),
    );
    it
}

fn stored_service(app: &AppService) -> Value {
    let mut it = desired::service(app).expect("it has ports");
    merge(
        &mut it,
        &json!({"metadata": {"namespace": "ns", "uid": "s", "resourceVersion": "8"},
                "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None"}}),
    );
    it
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().map(|it| it.remove(key));
        } else {
            if into[key].is_null() {
                into[key] = json!({});
            }
            merge(&mut into[key], value);
        }
    }
}

fn is_due(app: &AppService, present: &Value) -> bool {
    let present: Deployment = serde_json::from_value(present.clone()).expect("a Deployment");
    drift(&present, &desired::deployment(app)).is_some()
}

fn is_service_due(app: &AppService, present: &Value) -> bool {
    let present: Service = serde_json::from_value(present.clone()).expect("a Service");
    drift(&present, &desired::service(app).expect("it has ports")).is_some()
}

fn container(present: &mut Value) -> &mut Value {
    &mut present["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn defaulted_fields_are_not_drift() {
    let full = app(&json!({
        "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "0.5"}},
        "ports": [{"port": 80}],
    }));
    let mut it = stored(&full);
    assert!(!is_due(&full, &it), "as sent");
    container(&mut it)["env"] = json!([{"name": "A"},
        {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}}}]);
    container(&mut it)["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
    assert!(!is_due(&full, &it), "as defaulted");
    assert!(!is_service_due(&full, &stored_service(&full)));
}

#[test]
fn fields_of_other_managers_are_not_drift() {
    let app = app(&json!({"env": [{"name": "A", "value": "b"}], "ports": [{"port": 80}]}));
    let mut it = stored(&app);
    merge(
        &mut it["metadata"],
        &json!({"labels": {"team": "a"}, "annotations": {"note": "b", "deployment.kubernetes.io/revision": "3"}}),
    );
    merge(
        &mut it["spec"],
        &json!({"paused": true, "minReadySeconds": 5, "strategy": {"type": "Recreate"}}),
    );
    merge(
        &mut it["spec"]["template"],
        &json!({"metadata": {"labels": {"team": "a"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
                "spec": {"serviceAccountName": "robot"}}),
    );
    container(&mut it)["resources"] = json!({"limits": {"cpu": "2"}});
    container(&mut it)["env"] = json!([{"name": "SET", "value": "by hand"}, {"name": "A", "value": "b"}]);
    container(&mut it)["livenessProbe"] = json!({"tcpSocket": {"port": 80}});
    let containers = it["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .expect("a list");
    containers.insert(0, json!({"name": "proxy", "image": "proxy:1"}));
    assert!(!is_due(&app, &it));
    let mut service = stored_service(&app);
    merge(
        &mut service,
        &json!({"metadata": {"annotations": {"note": "b"}}, "spec": {"type": "NodePort"}}),
    );
    service["spec"]["ports"][0]["nodePort"] = json!(30080);
    assert!(!is_service_due(&app, &service));
}

#[test]
fn each_changed_or_removed_field_is_drift() {
    let app = app(
        &json!({"env": [{"name": "A", "value": "b"}], "ports": [{"port": 80}],
                          "resources": {"limits": {"cpu": "1"}}}),
    );
    let template = |it: &Value| json!({"spec": {"template": it}});
    for change in [
        json!({"spec": {"replicas": 5}}),
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}),
        json!({"metadata": {"labels": {"appcontroller.k8s.io/appservice-uid": null}}}),
        json!({"metadata": {"labels": {APPLIED_HASH_LABEL: "other"}}}),
        json!({"metadata": {"annotations": null}}),
        template(&json!({"metadata": {"labels": {"app.kubernetes.io/name": null}}})),
        template(&json!({"spec": {"containers": null}})),
        template(&json!({"spec": {"containers": []}})),
    ] {
        let mut it = stored(&app);
        merge(&mut it, &change);
        assert!(is_due(&app, &it), "{change}");
    }
    for change in [
        json!({"name": "other"}),
        json!({"image": "other"}),
        json!({"env": []}),
        json!({"env": [{"name": "A", "value": "c"}]}),
        json!({"ports": null}),
        json!({"resources": {"limits": {"cpu": "2"}}}),
    ] {
        let mut it = stored(&app);
        merge(container(&mut it), &change);
        assert!(is_due(&app, &it), "{change}");
    }
    for change in [
        json!({"selector": {"more": "labels"}}),
        json!({"selector": null}),
        json!({"ports": [{"port": 80, "targetPort": 9, "protocol": "TCP"}]}),
    ] {
        let mut it = stored_service(&app);
        merge(&mut it["spec"], &change);
        assert!(is_service_due(&app, &it), "{change}");
    }
}

#[test]
fn field_that_is_no_longer_desired_is_drift() {
    let before = app(&json!({"env": [{"name": "A", "value": "b"}]}));
    let unset = serde_json::from_value::<AppService>(json!({
        "metadata": {"name": "shop", "namespace": "ns", "uid": "u"},
        "spec": {"deploymentName": "web", "env": [{"name": "A", "value": "b"}]}}));
    for after in [app(&json!({})), unset.expect("an AppService")] {
        assert!(is_due(&after, &stored(&before)));
    }
}

#[test]
fn unset_replicas_and_image_are_not_compared() {
    let unset: AppService = serde_json::from_value(json!({
        "metadata": {"name": "shop", "namespace": "ns", "uid": "u"}, "spec": {"deploymentName": "web"}}))
    .expect("an AppService");
    let mut it = stored(&unset);
    it["spec"]["replicas"] = json!(7);
    container(&mut it)["image"] = json!("theirs");
    assert!(!is_due(&unset, &it));
}

/// A tenant can create an object of this size. A comparison in quadratic time blocked a thread for seconds.
#[test]
fn comparison_of_long_lists_is_linear() {
    let variables = |of: &dyn Fn(usize) -> Value| -> Value { (0..20_000).map(of).collect() };
    let desired = variables(&|it| json!({"name": format!("V{it}"), "value": "a"}));
    let app = app(&json!({"env": desired}));
    for (present, is_drift) in [
        (desired.clone(), false),
        (
            variables(&|it| json!({"name": format!("V{}", 19_999 - it), "value": "a"})),
            false,
        ),
        (
            variables(&|it| json!({"name": format!("V{it}"), "value": if it < 19_999 { "a" } else { "b" }})),
            true,
        ),
        (variables(&|_| json!({"name": "V0", "value": "b"})), true),
    ] {
        let mut it = stored(&app);
        container(&mut it)["env"] = present;
        COMPARISONS.with(|it| it.set(0));
        assert_eq!(is_due(&app, &it), is_drift);
        let comparisons = COMPARISONS.with(Cell::get);
        assert!(comparisons < 70_000, "{comparisons}");
    }
}

#[test]
fn last_variable_of_a_name_is_compared() {
    let app = app(&json!({"env": [{"name": "A", "value": "b"}]}));
    let mut it = stored(&app);
    for (last, is_drift) in [("b", false), ("c", true)] {
        container(&mut it)["env"] = json!([{"name": "A", "value": "b"}, {"name": "A", "value": last}]);
        assert_eq!(is_due(&app, &it), is_drift, "{last}");
    }
}
