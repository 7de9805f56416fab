use super::*;

/// An `AppService` called shop.
fn app(spec: &Value) -> AppService {
    let metadata = json!({"name": "shop", "namespace": "ns", "uid": "u", "resourceVersion": "1"});
    let mut all = json!({"deploymentName": "web", "replicas": 2});
    merge(&mut all, spec);
    serde_json::from_value(json!({"metadata": metadata, "spec": all})).expect("an AppService")
}

/// Its Deployment, as the API has it.
fn stored(app: &AppService) -> Value {
    let mut it = children::deployment(app);
    merge(
        &mut it,
        &json!({"metadata": {"namespace": "ns", "uid": "d", "resourceVersion": "7"}}),
    );
    it["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    let container = &mut it["spec"]["template"]["spec"]["containers"][0];
    merge(
        container,
        &json!({"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log"}),
    );
    if container.get("resources").is_none() {
        container["resources"] = json!({});
    }
    it
}

fn stored_service(app: &AppService) -> Value {
    let mut it = children::service(app).expect("it has ports");
    merge(
        &mut it,
        &json!({"metadata": {"namespace": "ns", "uid": "s", "resourceVersion": "8"}}),
    );
    merge(
        &mut it["spec"],
        &json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "sessionAffinity": "None"}),
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

fn differs(app: &AppService, present: &Value) -> Option<Value> {
    deployment(
        app,
        &serde_json::from_value(present.clone()).expect("a Deployment"),
    )
}

fn service_differs(app: &AppService, present: &Value) -> Option<Value> {
    let wanted = children::service(app).expect("it has ports");
    service(
        app,
        &wanted,
        &serde_json::from_value(present.clone()).expect("a Service"),
    )
}

/// Mends `present`, in one patch, after which nothing differs. Answers the patch, without what locks it.
fn mended(app: &AppService, present: &mut Value) -> Value {
    let mut patch = differs(app, present).expect("it differs");
    merge(present, &patch);
    assert_eq!(differs(app, present), None, "once");
    let lock = patch["metadata"].as_object_mut().expect("a lock");
    assert_eq!(lock.remove("uid"), Some(json!("d")));
    assert_eq!(lock.remove("resourceVersion"), Some(json!("7")));
    if lock.is_empty() {
        patch.as_object_mut().expect("a patch").remove("metadata");
    }
    patch
}

fn container(present: &mut Value) -> &mut Value {
    &mut present["spec"]["template"]["spec"]["containers"][0]
}

#[test]
fn what_the_api_fills_in_is_no_difference() {
    let full = app(&json!({
        "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "0.5"}},
        "ports": [{"port": 80}],
    }));
    let mut it = stored(&full);
    assert_eq!(differs(&full, &it), None, "as it was sent");
    container(&mut it)["env"] = json!([{"name": "A"},
        {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}}}]);
    container(&mut it)["resources"] =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
    assert_eq!(differs(&full, &it), None, "as it came back");
    let plain = app(&json!({}));
    assert_eq!(differs(&plain, &stored(&plain)), None);
    assert_eq!(service_differs(&full, &stored_service(&full)), None);
}

#[test]
fn what_others_write_stays() {
    let app = app(&json!({}));
    let mut it = stored(&app);
    merge(
        &mut it["metadata"],
        &json!({"labels": {"team": "a"}, "annotations": {"note": "b", "deployment.kubernetes.io/revision": "3"}}),
    );
    it["metadata"]["ownerReferences"]
        .as_array_mut()
        .expect("references")
        .push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}));
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
    container(&mut it)["env"] = json!([{"name": "SET", "value": "by hand"}]);
    container(&mut it)["livenessProbe"] = json!({"tcpSocket": {"port": 80}});
    let sidecar = json!({"name": "proxy", "image": "proxy:1"});
    it["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .expect("a list")
        .push(sidecar.clone());
    assert_eq!(differs(&app, &it), None);
    // And stays when something is mended.
    let mut before = it.clone();
    container(&mut it)["image"] = json!("other");
    let patch = mended(&app, &mut it);
    assert_eq!(it, before);
    assert_eq!(patch["spec"]["template"]["spec"]["containers"][1], sidecar);
    container(&mut before)["image"] = json!("nginx");
    assert_eq!(
        patch,
        json!({"spec": {"template": {"spec": {"containers": before["spec"]["template"]["spec"]["containers"]}}}})
    );
}

#[test]
fn each_field_of_its_own_is_mended_alone() {
    let app = app(&json!({}));
    let mut scaled = stored(&app);
    scaled["spec"]["replicas"] = json!(5);
    assert_eq!(mended(&app, &mut scaled), json!({"spec": {"replicas": 2}}));
    let mut labels = stored(&app);
    merge(
        &mut labels["metadata"]["labels"],
        &json!({"app.kubernetes.io/managed-by": "me", UID_LABEL: null}),
    );
    let expected =
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "coxswain", UID_LABEL: "u"}}});
    assert_eq!(mended(&app, &mut labels), expected);
    let mut annotations = stored(&app);
    annotations["metadata"]["annotations"] = json!({"a": "b"});
    assert_eq!(
        mended(&app, &mut annotations),
        json!({"metadata": {"annotations": {MADE_AS: "web"}}})
    );
    let mut pods = stored(&app);
    pods["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"});
    let labels = children::object(&children::pod_labels(&app));
    assert_eq!(
        mended(&app, &mut pods),
        json!({"spec": {"template": {"metadata": {"labels": labels}}}})
    );
    let mut renamed = stored(&app);
    container(&mut renamed)["name"] = json!("other");
    mended(&app, &mut renamed);
    let names: Vec<&Value> = entries(&renamed["spec"]["template"]["spec"]["containers"])
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["app", "other"], "ours is the first");
}

const UID_LABEL: &str = super::super::standing::UID;

#[test]
fn all_that_differs_is_one_patch() {
    let before = app(&json!({}));
    let after = app(
        &json!({"replicas": 4, "image": "b:2", "ports": [{"port": 80}], "env": [{"name": "A", "value": "b"}],
                            "deletionPolicy": "Orphan"}),
    );
    let mut it = stored(&before);
    let patch = mended(&after, &mut it);
    assert_eq!(patch["spec"]["replicas"], 4);
    assert_eq!(
        patch["metadata"],
        json!({"ownerReferences": [], "annotations": {WRITTEN: "env,ports"}})
    );
    assert_eq!(
        container(&mut it)["ports"],
        json!([{"containerPort": 80, "protocol": "TCP"}])
    );
}

#[test]
fn what_it_said_before_and_says_no_more_goes() {
    let before = app(
        &json!({"env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}, "ports": [{"port": 80}]}),
    );
    let after = app(&json!({}));
    let mut it = stored(&before);
    mended(&after, &mut it);
    assert_eq!(it["metadata"]["annotations"][WRITTEN], "");
    for field in OPTIONAL {
        assert!(container(&mut it).get(field).is_none(), "{field}");
    }
    // From then on it is its users'.
    container(&mut it)["resources"] = json!({"limits": {"cpu": "3"}});
    assert_eq!(differs(&after, &it), None);
    // A part of it goes as well.
    let some = app(&json!({"resources": {"limits": {"cpu": "1"}}}));
    let more = app(&json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}));
    let mut it = stored(&more);
    mended(&some, &mut it);
    assert_eq!(container(&mut it)["resources"], json!({"limits": {"cpu": "1"}}));
}

#[test]
fn a_list_that_it_says_something_of_is_its_own() {
    let app = app(
        &json!({"env": [{"name": "A", "value": "b"}], "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}),
    );
    let mut it = stored(&app);
    container(&mut it)["env"] = json!([{"name": "A", "value": "b"}, {"name": "B", "value": "c"}]);
    mended(&app, &mut it);
    assert_eq!(container(&mut it)["env"], json!([{"name": "A", "value": "b"}]));
    container(&mut it)["env"] =
        json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    mended(&app, &mut it);
    assert_eq!(container(&mut it)["env"], json!([{"name": "A", "value": "b"}]));
    container(&mut it)["ports"] = json!([{"containerPort": 80, "hostPort": 8080, "name": "other"}]);
    mended(&app, &mut it);
    let ports = json!([{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "name": "tcp-80"},
                       {"containerPort": 53, "protocol": "UDP", "name": "udp-53"}]);
    assert_eq!(container(&mut it)["ports"], ports);
}

#[test]
fn references_follow_the_policy() {
    let (delete, orphan) = (app(&json!({})), app(&json!({"deletionPolicy": "Orphan"})));
    let mut it = stored(&delete);
    let ours = it["metadata"]["ownerReferences"][0].clone();
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
    it["metadata"]["ownerReferences"] = json!([theirs, ours]);
    assert_eq!(
        mended(&orphan, &mut it),
        json!({"metadata": {"ownerReferences": [theirs]}})
    );
    assert_eq!(
        mended(&delete, &mut it),
        json!({"metadata": {"ownerReferences": [theirs, ours]}})
    );
    // One that is not quite right is mended in its place.
    for (field, value) in [
        ("blockOwnerDeletion", json!(null)),
        ("apiVersion", json!("appcontroller.k8s.io/v1")),
        ("name", json!("x")),
    ] {
        let mut it = stored(&delete);
        merge(&mut it["metadata"]["ownerReferences"][0], &json!({field: value}));
        assert_eq!(
            mended(&delete, &mut it),
            json!({"metadata": {"ownerReferences": [ours]}}),
            "{field}"
        );
    }
}

#[test]
fn of_a_service_the_ports_and_the_selector_are_kept() {
    let app = app(&json!({"ports": [{"port": 80, "targetPort": 8080}]}));
    let mut it = stored_service(&app);
    merge(
        &mut it["spec"],
        &json!({"type": "NodePort", "externalTrafficPolicy": "Local"}),
    );
    it["spec"]["ports"][0]["nodePort"] = json!(30080);
    it["metadata"]["annotations"]["note"] = json!("b");
    assert_eq!(service_differs(&app, &it), None, "that is its users'");
    it["spec"]["ports"][0]["targetPort"] = json!(9);
    it["spec"]["selector"]["extra"] = json!("a");
    let patch = service_differs(&app, &it).expect("it differs");
    let ports = json!([{"port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080}]);
    assert_eq!(
        patch["spec"],
        json!({"selector": {"extra": null}, "ports": ports})
    );
    merge(&mut it, &patch);
    assert_eq!(service_differs(&app, &it), None);
    let more = super::tests::app(&json!({"ports": [{"port": 81}, {"port": 80, "targetPort": 8080}]}));
    let patch = service_differs(&more, &it).expect("it differs");
    assert_eq!(
        patch["spec"]["ports"][1]["nodePort"], 30080,
        "wherever it is in the list"
    );
    assert!(patch["spec"]["ports"][0].get("nodePort").is_none());
}

#[test]
fn a_template_that_makes_no_sense_is_made_anew() {
    let app = app(&json!({}));
    let mut it = stored(&app);
    it["spec"]["template"]["spec"]["containers"] = json!(null);
    let patch = differs(&app, &it).expect("it differs");
    assert_eq!(
        patch["spec"]["template"]["spec"]["containers"],
        json!([{"name": "app", "image": "nginx"}])
    );
}
