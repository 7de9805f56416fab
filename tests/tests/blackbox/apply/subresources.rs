//! Status, scale and finalize have managers of their own.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, apps, core, deployment},
    test,
};
use serde_json::{Value, json};

use super::{apply, fields, managers};
use crate::expect::not_found;

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(status_has_managers_of_its_own),
        test!(what_an_endpoint_does_not_take_nobody_gets),
        test!(conditions_merge_by_type),
        test!(applying_a_status_creates_nothing),
        test!(scaling_takes_the_replicas),
        test!(a_scale_can_be_applied),
        test!(finalizing_a_namespace_is_recorded),
        test!(what_the_server_does_itself_is_not),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

async fn create(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments?fieldManager=creator");
    c.api().post(&path, deployment("a")).await.expect(201);
    apps(&ns, "deployments/a")
}

fn status(status: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "status": status})
}

async fn status_has_managers_of_its_own(c: Cluster) {
    let path = create(&c).await;
    let body = json!({"status": {"replicas": 3}});
    let changed = c
        .api()
        .patch(&format!("{path}/status?fieldManager=creator"), MERGE, body)
        .await
        .expect(200);
    assert_eq!(
        fields(&changed, "creator", "Update status"),
        json!({"f:status": {"f:replicas": {}}})
    );
    assert_eq!(fields(&changed, "creator", "Update")["f:status"], Value::Null);
    let refused = apply(
        &c,
        &format!("{path}/status"),
        "m",
        "",
        &status(&json!({"replicas": 4})),
    )
    .await;
    refused.expect_error(409, "Conflict");
    let text = "Apply failed with 1 conflict: conflict with \"creator\" with subresource \"status\" using apps/v1: \
                .status.replicas";
    assert_eq!(refused.message(), text);
    let taken = apply(
        &c,
        &format!("{path}/status"),
        "m",
        "&force=true",
        &status(&json!({"replicas": 4})),
    )
    .await;
    let taken = taken.expect(200);
    assert_eq!(
        fields(&taken, "m", "Apply status"),
        json!({"f:status": {"f:replicas": {}}})
    );
    assert_eq!(fields(&taken, "creator", "Update status"), Value::Null);
}

async fn what_an_endpoint_does_not_take_nobody_gets(c: Cluster) {
    let path = create(&c).await;
    let mut config = status(&json!({"observedGeneration": 1}));
    config["spec"] = json!({"replicas": 7});
    config["metadata"]["labels"] = json!({"l": "1"});
    config["metadata"]["annotations"] = json!({"n": "1"});
    let by_status = apply(&c, &format!("{path}/status"), "s", "", &config)
        .await
        .expect(200);
    let own = json!({
        "f:metadata": {"f:annotations": {"f:n": {}}}, "f:status": {"f:observedGeneration": {}},
    });
    assert_eq!(fields(&by_status, "s", "Apply status"), own);
    assert_eq!(by_status["spec"]["replicas"], 1);
    let by_main = apply(
        &c,
        &path,
        "m",
        "",
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"l": "1"}},
            "status": {"observedGeneration": 9},
        }),
    )
    .await
    .expect(200);
    assert_eq!(
        fields(&by_main, "m", "Apply"),
        json!({"f:metadata": {"f:labels": {"f:l": {}}}})
    );
    assert_eq!(by_main["status"]["observedGeneration"], 1);
}

async fn conditions_merge_by_type(c: Cluster) {
    let path = create(&c).await;
    let path = format!("{path}/status");
    let condition = |kind: &str| status(&json!({"conditions": [{"type": kind, "status": "True"}]}));
    apply(&c, &path, "one", "", &condition("A")).await.expect(200);
    let both = apply(&c, &path, "two", "", &condition("B")).await.expect(200);
    assert_eq!(both["status"]["conditions"].as_array().map(Vec::len), Some(2));
    let own = json!({"f:status": {"f:conditions": {"k:{\"type\":\"B\"}": {".": {}, "f:status": {}, "f:type": {}}}}});
    assert_eq!(fields(&both, "two", "Apply status"), own);
    let left = apply(&c, &path, "one", "", &status(&json!({}))).await.expect(200);
    assert_eq!(left["status"]["conditions"][0]["type"], "B");
}

async fn applying_a_status_creates_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments/a");
    let refused = apply(
        &c,
        &format!("{path}/status"),
        "m",
        "",
        &status(&json!({"replicas": 1})),
    )
    .await;
    not_found(&refused, "deployments.apps", "a");
    not_found(&c.api().get(&path).await, "deployments.apps", "a");
}

async fn scaling_takes_the_replicas(c: Cluster) {
    let path = create(&c).await;
    let scaled = format!("{path}/scale?fieldManager=scaler");
    c.api()
        .patch(&scaled, MERGE, json!({"spec": {"replicas": 5}}))
        .await
        .expect(200);
    let all = c.api().get(&path).await.expect(200);
    assert_eq!(
        fields(&all, "scaler", "Update scale"),
        json!({"f:spec": {"f:replicas": {}}})
    );
    assert_eq!(
        fields(&all, "creator", "Update")["f:spec"]["f:replicas"],
        Value::Null
    );
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 6}});
    let refused = apply(&c, &path, "m", "", &config).await;
    let text = "Apply failed with 1 conflict: conflict with \"scaler\" with subresource \"scale\" using apps/v1: \
                .spec.replicas";
    assert_eq!(refused.message(), text);
}

async fn a_scale_can_be_applied(c: Cluster) {
    let path = create(&c).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
        "spec": {"replicas": 5}});
    let refused = apply(&c, &format!("{path}/scale"), "s", "", &scale).await;
    refused.expect_error(409, "Conflict");
    assert_eq!(refused.causes()[0].field, ".spec.replicas");
    let scaled = apply(&c, &format!("{path}/scale"), "s", "&force=true", &scale)
        .await
        .expect(200);
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"]),
        (&json!("Scale"), &json!(5))
    );
    let all = c.api().get(&path).await.expect(200);
    assert_eq!(
        fields(&all, "s", "Apply scale"),
        json!({"f:spec": {"f:replicas": {}}})
    );
    let wrong = apply(&c, &format!("{path}/scale"), "s", "", &status(&json!({}))).await;
    wrong.expect_error(400, "BadRequest");
}

async fn finalizing_a_namespace_is_recorded(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("/api/v1/namespaces/{ns}");
    let with = |finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns},
        "spec": {"finalizers": finalizers}})
    };
    let finalize = format!("{path}/finalize?fieldManager=f");
    c.api()
        .put(&finalize, with(json!(["kubernetes", "a.b/c"])))
        .await
        .expect(200);
    let all = c.api().get(&path).await.expect(200);
    assert_eq!(
        fields(&all, "f", "Update finalize"),
        json!({"f:spec": {"f:finalizers": {}}})
    );
    c.api()
        .put(&finalize, with(json!(["kubernetes"])))
        .await
        .expect(200);
}

async fn what_the_server_does_itself_is_not(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let pod = json!({"metadata": {"name": "a", "finalizers": ["a.b/c"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = c
        .api()
        .post(&core(&ns, "pods?fieldManager=m"), pod)
        .await
        .expect(201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"}});
    c.api()
        .post(&format!("{path}/binding"), binding)
        .await
        .expect(201);
    c.api().delete(&path, ()).await.expect(200);
    let all = c.api().get(&path).await.expect(200);
    assert_eq!(all["spec"]["nodeName"], "n");
    assert_eq!(
        all["metadata"]["managedFields"],
        made["metadata"]["managedFields"]
    );
    assert_eq!(managers(&all), ["m"]);
}
