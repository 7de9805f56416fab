//! Writes of hollow-kubelet, and fields of others that it preserves.

use super::*;

/// Asserts that only `status` and the fields that every write changes differ.
fn same_but_status(before: &Value, after: &Value) {
    let strip = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut().expect("an object");
        fields.remove("status");
        let meta = fields["metadata"].as_object_mut().expect("metadata");
        for field in ["resourceVersion", "managedFields", "generation"] {
            meta.remove(field);
        }
        object
    };
    assert_eq!(strip(before), strip(after));
}

#[tokio::test(start_paused = true)]
async fn cluster_without_nodes_becomes_ready_and_settles() {
    let fixture = fixture(Options {
        nodes: 3,
        delay: Duration::from_secs(2),
        sandbox: false,
    });
    for i in 0..20 {
        fixture.pod(&format!("p{i}"), &json!({})).await;
    }
    let start = fixture.env.clock.now();
    let writes = fixture.settle().await;
    assert_eq!(
        writes,
        3 * 2 + 20 * 2,
        "each node is created and made Ready, each pod is bound and started"
    );
    let took = fixture.env.clock.now() - start;
    assert!(
        took >= Duration::from_secs(2) && took <= Duration::from_secs(5),
        "{took:?}"
    );
    for node in fixture.list(&NODES).await {
        assert_eq!(node["metadata"]["labels"][LABEL], "true");
        let conditions = node["status"]["conditions"].as_array().expect("conditions");
        assert!(
            conditions
                .iter()
                .any(|it| it["type"] == "Ready" && it["status"] == "True")
        );
        assert_eq!(node["status"]["allocatable"]["pods"], "10k");
    }
    let pods = fixture.list(&PODS).await;
    let ips: BTreeSet<&str> = pods
        .iter()
        .filter_map(|it| it["status"]["podIP"].as_str())
        .collect();
    assert_eq!(ips.len(), 20);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        assert_eq!(
            pod["status"]["qosClass"], "BestEffort",
            "fields of others are kept"
        );
        let conditions = pod["status"]["conditions"].as_array().expect("conditions");
        assert_eq!(
            conditions.iter().filter(|it| it["status"] == "True").count(),
            4,
            "{conditions:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pod_fields_of_others_are_preserved() {
    let fixture = fixture(at_once());
    let theirs = json!({"metadata": {
        "labels": {"theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other"}],
    }});
    let created = fixture.pod("p", &theirs).await;
    let condition = json!({"status": {"conditions": [{"type": "theirs.dev/c", "status": "False", "reason": "R",
        "message": "m", "lastProbeTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-02T00:00:00Z"}]}});
    let patch = Patch::strategic(&condition).of("status");
    let before: Value = fixture
        .client
        .patch(&PODS, &key("p"), patch)
        .await
        .expect("patched");
    fixture.settle().await;
    let running = fixture.get("p").await;
    assert_eq!(running["status"]["phase"], "Running");
    let mut bound = before.clone();
    bound["spec"]["nodeName"] = json!("hollow-0");
    same_but_status(&bound, &running);
    let conditions = running["status"]["conditions"].as_array().expect("conditions");
    assert!(
        conditions.contains(&before["status"]["conditions"][0]),
        "{conditions:?}"
    );

    fixture.delete(&created).await;
    assert_eq!(
        fixture.settle().await,
        1,
        "a deletion is finished once, whatever holds the pod"
    );
    let held = fixture.get("p").await;
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        assert_eq!(held["metadata"][field], before["metadata"][field], "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn node_fields_of_others_are_preserved() {
    let fixture = fixture(at_once());
    let theirs = json!({"metadata": {
        "name": "hollow-0",
        "labels": {LABEL: "true", "theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/hold"],
    }, "status": {"conditions": [{"type": "theirs.dev/c", "status": "True"}], "images": [{"names": ["x"]}]}});
    let before = fixture.create(&NODES, "", &theirs).await;
    fixture.settle().await;
    let after = fixture.node("hollow-0").await;
    same_but_status(&before, &after);
    let conditions = after["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|it| it["type"] == "theirs.dev/c"));
    assert!(
        conditions
            .iter()
            .any(|it| it["type"] == "Ready" && it["status"] == "True")
    );
    assert_eq!(after["status"]["images"], before["status"]["images"]);
}

#[tokio::test(start_paused = true)]
async fn foreign_pods_and_nodes_are_not_changed() {
    let fixture = fixture(at_once());
    let node = fixture
        .create(&NODES, "", &json!({"metadata": {"name": "theirs"}}))
        .await;
    let on_theirs = json!({"spec": {"nodeName": "theirs"}, "metadata": {"annotations": {FAIL: "true"}}});
    fixture.pod("p", &on_theirs).await;
    let going = fixture.pod("going", &on_theirs).await;
    fixture.delete(&going).await;
    let before = fixture.list(&PODS).await;
    fixture.settle().await;
    assert_eq!(fixture.list(&PODS).await, before);
    assert_eq!(fixture.node("theirs").await, node);
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_removed() {
    let fixture = fixture(at_once());
    let pod = fixture.pod("p", &json!({})).await;
    fixture.settle().await;
    fixture.delete(&pod).await;
    assert!(
        fixture.get("p").await["metadata"]["deletionTimestamp"].is_string(),
        "it waits for its kubelet"
    );
    fixture.settle().await;
    assert!(fixture.list(&PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn annotated_pod_fails_and_missing_image_backs_off() {
    let fixture = fixture(at_once());
    fixture
        .pod("fails", &json!({"metadata": {"annotations": {FAIL: "true"}}}))
        .await;
    let missing = json!({"spec": {"containers": [{"name": "main", "image": "localhost:5000/app:404"}]}});
    fixture.pod("waits", &missing).await;
    fixture.settle().await;
    assert_eq!(fixture.get("fails").await["status"]["phase"], "Failed");
    let waits = fixture.get("waits").await;
    assert_eq!(waits["status"]["phase"], "Pending");
    let state = &waits["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["waiting"]["reason"], "ImagePullBackOff");

    let image = json!({"spec": {"containers": [{"name": "main", "image": "localhost:5000/app:1"}]}});
    let fixed: Value = fixture
        .client
        .patch(&PODS, &key("waits"), Patch::strategic(&image))
        .await
        .expect("patched");
    assert_eq!(fixed["status"]["phase"], "Pending");
    fixture.settle().await;
    let runs = fixture.get("waits").await;
    assert_eq!(runs["status"]["phase"], "Running");
    let ready = runs["status"]["conditions"]
        .as_array()
        .expect("some")
        .iter()
        .find(|it| it["type"] == "Ready");
    let ready = ready.expect("a condition");
    assert!(
        ready.get("reason").is_none() && ready.get("message").is_none(),
        "{ready}"
    );
    assert!(
        runs["status"]["containerStatuses"][0]["state"]
            .get("waiting")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn stale_write_conflicts_and_missing_pod_is_ignored() {
    let fixture = fixture(at_once());
    fixture.pod("p", &json!({})).await;
    fixture.settle().await;
    let now = fixture.env.clock.wall();
    let nodes: Vec<Node> = fixture.all(&NODES).await;
    let cluster_nodes = Nodes::of(&nodes);
    let annotate = |value: &str| json!({"metadata": {"annotations": {FAIL: value}}});
    let stale: Value = fixture
        .client
        .patch(&PODS, &key("p"), Patch::merge(&annotate("true")))
        .await
        .expect("patched");
    let stale: Pod = serde_json::from_value(stale).expect("a pod");
    let () = fixture
        .client
        .patch(&PODS, &key("p"), Patch::merge(&annotate("false")))
        .await
        .map(|_: Value| ())
        .expect("patched");
    let step = plan::pod(&stale, &cluster_nodes, |_| false, &fixture.options, now);
    let refused = act::pod(&fixture.client, &stale, step.clone())
        .await
        .expect_err("the annotation was removed since");
    assert!(refused.is_conflict(), "{refused}");
    assert_eq!(fixture.get("p").await["status"]["phase"], "Running");

    let pod = fixture.get("p").await;
    fixture.delete(&pod).await;
    fixture.settle().await;
    for step in [
        step,
        plan::PodStep::Finish,
        plan::PodStep::Bind("hollow-0".into()),
    ] {
        assert_eq!(
            act::pod(&fixture.client, &stale, step)
                .await
                .expect("nothing to do"),
            None
        );
    }

    // A new pod of the same name is not affected.
    fixture.pod("p", &json!({})).await;
    for step in [plan::PodStep::Finish, plan::PodStep::Bind("hollow-0".into())] {
        let refused = act::pod(&fixture.client, &stale, step)
            .await
            .expect_err("another uid");
        assert!(refused.is_conflict(), "{refused}");
    }
}
