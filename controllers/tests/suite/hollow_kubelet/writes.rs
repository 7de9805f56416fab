//! Every write that it makes, and what it leaves alone.

use super::*;

/// Both without what any write changes, and without `status`.
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
async fn a_cluster_without_nodes_comes_alive_and_to_rest() {
    let bed = bed(Options {
        nodes: 3,
        delay: Duration::from_secs(2),
        sandbox: false,
    });
    for i in 0..20 {
        bed.pod(&format!("p{i}"), &json!({})).await;
    }
    let start = bed.env.clock.now();
    let writes = bed.settle().await;
    assert_eq!(
        writes,
        3 * 2 + 20 * 2,
        "each node is created and made Ready, each pod is bound and started"
    );
    let took = bed.env.clock.now() - start;
    assert!(
        took >= Duration::from_secs(2) && took <= Duration::from_secs(5),
        "{took:?}"
    );
    for node in bed.list(&NODES).await {
        assert_eq!(node["metadata"]["labels"][LABEL], "true");
        let conditions = node["status"]["conditions"].as_array().expect("conditions");
        assert!(
            conditions
                .iter()
                .any(|it| it["type"] == "Ready" && it["status"] == "True")
        );
        assert_eq!(node["status"]["allocatable"]["pods"], "10k");
    }
    let pods = bed.list(&PODS).await;
    let ips: BTreeSet<&str> = pods
        .iter()
        .filter_map(|it| it["status"]["podIP"].as_str())
        .collect();
    assert_eq!(ips.len(), 20);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running");
        assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
        assert_eq!(pod["status"]["qosClass"], "BestEffort", "what is not ours stays");
        let conditions = pod["status"]["conditions"].as_array().expect("conditions");
        assert_eq!(
            conditions.iter().filter(|it| it["status"] == "True").count(),
            4,
            "{conditions:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_have_put_on_a_pod_survives_every_write() {
    let bed = bed(at_once());
    let theirs = json!({"metadata": {
        "labels": {"theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/hold"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other"}],
    }});
    let created = bed.pod("p", &theirs).await;
    let condition = json!({"status": {"conditions": [{"type": "theirs.dev/c", "status": "False", "reason": "R",
        "message": "m", "lastProbeTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-02T00:00:00Z"}]}});
    let patch = Patch::strategic(&condition).of("status");
    let before: Value = bed.client.patch(&PODS, &key("p"), patch).await.expect("patched");
    bed.settle().await;
    let running = bed.get("p").await;
    assert_eq!(running["status"]["phase"], "Running");
    let mut bound = before.clone();
    bound["spec"]["nodeName"] = json!("hollow-0");
    same_but_status(&bound, &running);
    let conditions = running["status"]["conditions"].as_array().expect("conditions");
    assert!(
        conditions.contains(&before["status"]["conditions"][0]),
        "{conditions:?}"
    );

    bed.delete(&created).await;
    assert_eq!(
        bed.settle().await,
        1,
        "a deletion is finished once, whatever holds the pod"
    );
    let held = bed.get("p").await;
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        assert_eq!(held["metadata"][field], before["metadata"][field], "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_have_put_on_a_node_survives() {
    let bed = bed(at_once());
    let theirs = json!({"metadata": {
        "name": "hollow-0",
        "labels": {LABEL: "true", "theirs": "1"},
        "annotations": {"theirs.dev/a": "2"},
        "finalizers": ["theirs.dev/hold"],
    }, "status": {"conditions": [{"type": "theirs.dev/c", "status": "True"}], "images": [{"names": ["x"]}]}});
    let before = bed.create(&NODES, "", &theirs).await;
    bed.settle().await;
    let after = bed.node("hollow-0").await;
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
async fn pods_and_nodes_of_others_are_never_touched() {
    let bed = bed(at_once());
    let node = bed
        .create(&NODES, "", &json!({"metadata": {"name": "theirs"}}))
        .await;
    let on_theirs = json!({"spec": {"nodeName": "theirs"}, "metadata": {"annotations": {FAIL: "true"}}});
    bed.pod("p", &on_theirs).await;
    let going = bed.pod("going", &on_theirs).await;
    bed.delete(&going).await;
    let before = bed.list(&PODS).await;
    bed.settle().await;
    assert_eq!(bed.list(&PODS).await, before);
    assert_eq!(bed.node("theirs").await, node);
}

#[tokio::test(start_paused = true)]
async fn deletions_end() {
    let bed = bed(at_once());
    let pod = bed.pod("p", &json!({})).await;
    bed.settle().await;
    bed.delete(&pod).await;
    assert!(
        bed.get("p").await["metadata"]["deletionTimestamp"].is_string(),
        "it waits for its kubelet"
    );
    bed.settle().await;
    assert!(bed.list(&PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_fails_when_it_is_told_and_one_without_an_image_waits_for_it() {
    let bed = bed(at_once());
    bed.pod("fails", &json!({"metadata": {"annotations": {FAIL: "true"}}}))
        .await;
    let missing = json!({"spec": {"containers": [{"name": "main", "image": "localhost:5000/app:404"}]}});
    bed.pod("waits", &missing).await;
    bed.settle().await;
    assert_eq!(bed.get("fails").await["status"]["phase"], "Failed");
    let waits = bed.get("waits").await;
    assert_eq!(waits["status"]["phase"], "Pending");
    let state = &waits["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["waiting"]["reason"], "ImagePullBackOff");

    let image = json!({"spec": {"containers": [{"name": "main", "image": "localhost:5000/app:1"}]}});
    let fixed: Value = bed
        .client
        .patch(&PODS, &key("waits"), Patch::strategic(&image))
        .await
        .expect("patched");
    assert_eq!(fixed["status"]["phase"], "Pending");
    bed.settle().await;
    let runs = bed.get("waits").await;
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
async fn what_is_stale_is_refused_and_what_is_gone_is_nothing() {
    let bed = bed(at_once());
    bed.pod("p", &json!({})).await;
    bed.settle().await;
    let now = bed.env.clock.wall();
    let nodes: Vec<Node> = bed.all(&NODES).await;
    let fleet = Fleet::of(&nodes);
    let annotate = |value: &str| json!({"metadata": {"annotations": {FAIL: value}}});
    let stale: Value = bed
        .client
        .patch(&PODS, &key("p"), Patch::merge(&annotate("true")))
        .await
        .expect("patched");
    let stale: Pod = serde_json::from_value(stale).expect("a pod");
    let () = bed
        .client
        .patch(&PODS, &key("p"), Patch::merge(&annotate("false")))
        .await
        .map(|_: Value| ())
        .expect("patched");
    let step = plan::pod(&stale, &fleet, |_| false, &bed.options, now);
    let refused = act::pod(&bed.client, &stale, step.clone())
        .await
        .expect_err("it was told not to fail since");
    assert!(refused.is_conflict(), "{refused}");
    assert_eq!(bed.get("p").await["status"]["phase"], "Running");

    let pod = bed.get("p").await;
    bed.delete(&pod).await;
    bed.settle().await;
    for step in [
        step,
        plan::PodStep::Finish,
        plan::PodStep::Bind("hollow-0".into()),
    ] {
        assert_eq!(
            act::pod(&bed.client, &stale, step).await.expect("nothing to do"),
            None
        );
    }

    // Another pod under the name is another pod.
    bed.pod("p", &json!({})).await;
    for step in [plan::PodStep::Finish, plan::PodStep::Bind("hollow-0".into())] {
        let refused = act::pod(&bed.client, &stale, step)
            .await
            .expect_err("another uid");
        assert!(refused.is_conflict(), "{refused}");
    }
}
