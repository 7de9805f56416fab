//! Autoscalers: two versions of one object, what they default to, and what they refuse.

use coxswain_tests::{Cluster, Test, fixtures::MERGE, test};
use serde_json::{Value, json};

use crate::expect::invalid;

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(each_version_shows_the_other),
        test!(nothing_is_lost_through_the_first_version).since(1, 36),
        test!(status_is_shown_in_both).since(1, 23),
        test!(who_wrote_one_version_loses_what_the_other_changes).since(1, 36),
        test!(bounds_and_target_are_checked).since(1, 36),
        test!(metrics_are_checked).since(1, 36),
        test!(behaviour_is_checked).since(1, 36),
    ]
}

fn path(version: &str, ns: &str) -> String {
    format!("/apis/autoscaling/{version}/namespaces/{ns}/horizontalpodautoscalers")
}

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn processors(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

async fn each_version_shows_the_other(c: Cluster) {
    let ns = c.namespace().await;
    let old = json!({"metadata": {"name": "old"}, "spec": {"maxReplicas": 5, "scaleTargetRef": target()}});
    let made = c.api().post(&path("v1", &ns), old).await.expect(201);
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    let spec = json!({"maxReplicas": 5, "minReplicas": 1, "scaleTargetRef": target(),
                      "targetCPUUtilizationPercentage": 80});
    assert_eq!(made["spec"], spec);
    assert_eq!(
        made["status"],
        json!({"currentReplicas": 0, "desiredReplicas": 0})
    );
    if c.version() < (1, 23) {
        return;
    }
    let read = c.api().get(&format!("{}/old", path("v2", &ns))).await.expect(200);
    assert_eq!(read["apiVersion"], "autoscaling/v2");
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(
        read["spec"],
        json!({"maxReplicas": 5, "minReplicas": 1, "scaleTargetRef": target(), "metrics": [processors(80)]})
    );
    let percent = json!({"spec": {"targetCPUUtilizationPercentage": 30}});
    let old = format!("{}/old", path("v1", &ns));
    c.api().patch(&old, MERGE, percent).await.expect(200);
    let list = c.api().get(&path("v2", &ns)).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["metrics"], json!([processors(30)]));
    c.api().delete(&old, ()).await.expect(200);
    c.api()
        .get(&format!("{}/old", path("v2", &ns)))
        .await
        .expect_error(404, "NotFound");
}

/// What the first version has no fields for stands in annotations there, and is read from them again.
async fn nothing_is_lost_through_the_first_version(c: Cluster) {
    let ns = c.namespace().await;
    let memory = json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let hits = json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
        "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
        "target": {"type": "AverageValue", "averageValue": "10"}}});
    let queue = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "30"}}});
    let down = json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]});
    let spec = json!({"maxReplicas": 5, "scaleTargetRef": target(), "behavior": {"scaleDown": down},
                      "metrics": [processors(50), memory, hits, queue]});
    let new = json!({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": spec});
    let made = c.api().post(&path("v2", &ns), new).await.expect(201);
    let old = format!("{}/a", path("v1", &ns));
    let mut read = c.api().get(&old).await.expect(200);
    assert_eq!(read["spec"]["targetCPUUtilizationPercentage"], 50);
    let annotations = &read["metadata"]["annotations"];
    assert_eq!(
        annotations["autoscaling.alpha.kubernetes.io/metrics"],
        "[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageValue\":\"1Gi\"}},\
         {\"type\":\"Object\",\"object\":{\"target\":{\"kind\":\"Service\",\"name\":\"s\",\"apiVersion\":\"v1\"},\
         \"metricName\":\"hits\",\"targetValue\":\"0\",\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"averageValue\":\"10\"}},\
         {\"type\":\"External\",\"external\":{\"metricName\":\"queue\",\"targetValue\":\"30\"}}]"
    );
    assert_eq!(
        annotations["autoscaling.alpha.kubernetes.io/behavior"],
        "{\"ScaleUp\":{\"StabilizationWindowSeconds\":0,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\",\
         \"Value\":4,\"PeriodSeconds\":15},{\"Type\":\"Percent\",\"Value\":100,\"PeriodSeconds\":15}],\"Tolerance\":null},\
         \"ScaleDown\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\"Pods\",\
         \"Value\":1,\"PeriodSeconds\":60}],\"Tolerance\":null}}"
    );
    read["spec"]["maxReplicas"] = json!(9);
    c.api().put(&old, read).await.expect(200);
    let back = c.api().get(&format!("{}/a", path("v2", &ns))).await.expect(200);
    assert_eq!(back["metadata"]["annotations"], json!({"x": "y"}));
    // How busy processors are comes last when it comes from the first version.
    let metrics = &made["spec"]["metrics"];
    let moved = json!([metrics[1], metrics[2], metrics[3], metrics[0]]);
    let mut spec = made["spec"].clone();
    (spec["maxReplicas"], spec["metrics"]) = (json!(9), moved);
    assert_eq!(back["spec"], spec);
}

async fn status_is_shown_in_both(c: Cluster) {
    let ns = c.namespace().await;
    let made = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 5, "scaleTargetRef": target()}});
    c.api().post(&path("v2", &ns), made).await.expect(201);
    let condition =
        json!({"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let current = json!({"averageUtilization": 40, "averageValue": "5m"});
    let status = json!({"currentReplicas": 2, "desiredReplicas": 3, "conditions": [condition],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]});
    let new = format!("{}/a/status", path("v2", &ns));
    let change = json!({"status": status, "spec": {"maxReplicas": 99}});
    let written = c.api().patch(&new, MERGE, change).await.expect(200);
    assert_eq!(
        (&written["status"], &written["spec"]["maxReplicas"]),
        (&status, &json!(5))
    );
    let old = c.api().get(&format!("{}/a", path("v1", &ns))).await.expect(200);
    assert_eq!(
        old["status"],
        json!({"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40})
    );
    assert_eq!(
        old["metadata"]["annotations"],
        json!({
            "autoscaling.alpha.kubernetes.io/conditions":
                "[{\"type\":\"AbleToScale\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]",
            "autoscaling.alpha.kubernetes.io/current-metrics":
                "[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"currentAverageUtilization\":40,\
                 \"currentAverageValue\":\"5m\"}}]",
        })
    );
    let wrong = json!({"status": {"currentReplicas": -1, "desiredReplicas": -1}});
    invalid(
        &c.api().patch(&new, MERGE, wrong).await,
        &[
            "Invalid status.currentReplicas: must be greater than or equal to 0",
            "Invalid status.desiredReplicas: must be greater than or equal to 0",
        ],
    );
}

async fn who_wrote_one_version_loses_what_the_other_changes(c: Cluster) {
    let ns = c.namespace().await;
    let spec = json!({"maxReplicas": 5, "scaleTargetRef": target(), "targetCPUUtilizationPercentage": 50});
    let old = json!({"metadata": {"name": "a"}, "spec": spec});
    c.api()
        .post(&format!("{}?fieldManager=one", path("v1", &ns)), old)
        .await
        .expect(201);
    let new = format!("{}/a?fieldManager=two", path("v2", &ns));
    let change = json!({"spec": {"metrics": [processors(60)]}});
    let written = c.api().patch(&new, MERGE, change).await.expect(200);
    let managers = written["metadata"]["managedFields"].as_array().expect("managers");
    let of = |name: &str| {
        let found = managers.iter().find(|entry| entry["manager"] == name);
        found.map(|entry| entry["fieldsV1"].clone())
    };
    assert_eq!(
        of("one"),
        Some(json!({"f:spec": {"f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": {}}}))
    );
    assert_eq!(of("two"), Some(json!({"f:spec": {"f:metrics": {}}})));
}

/// Asserts that creating an autoscaler with these fields in its spec is refused for these causes.
async fn refused(c: &Cluster, ns: &str, fields: Value, causes: &[&str]) {
    let mut spec = json!({"maxReplicas": 5, "scaleTargetRef": target()});
    for (key, value) in fields.as_object().expect("fields") {
        spec[key] = value.clone();
    }
    let reply = c
        .api()
        .post(&path("v2", ns), json!({"metadata": {"name": "a"}, "spec": spec}))
        .await;
    invalid(&reply, causes);
}

async fn bounds_and_target_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    refused(
        &c,
        &ns,
        json!({"minReplicas": 0, "maxReplicas": -1}),
        &[
            "Invalid spec.minReplicas: must be greater than or equal to 1",
            "Invalid spec.maxReplicas: must be greater than or equal to 1",
            "Invalid spec.maxReplicas: must be greater than or equal to `minReplicas`",
            "Forbidden spec.metrics: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    )
    .await;
    refused(
        &c,
        &ns,
        json!({"scaleTargetRef": {"kind": "a/b", "name": "", "apiVersion": "a/b/c"}}),
        &[
            "Invalid spec.scaleTargetRef.kind: may not contain '/'",
            "Required spec.scaleTargetRef.name: ",
            "Invalid spec.scaleTargetRef.apiVersion: unexpected GroupVersion string: a/b/c",
        ],
    )
    .await;
    let ungrouped = ["Invalid spec.scaleTargetRef.apiVersion: apiVersion must specify API group"];
    let core = |kind: &str| json!({"scaleTargetRef": {"kind": kind, "name": "a", "apiVersion": "v1"}});
    refused(&c, &ns, core("Pod"), &ungrouped).await;
    let first = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 0,
        "scaleTargetRef": {"kind": "ReplicationController", "name": "a", "apiVersion": "v1"}}});
    invalid(
        &c.api().post(&path("v1", &ns), first).await,
        &["Invalid spec.metrics[0].resource.target.averageUtilization: must be greater than 0"],
    );
    let mut controller = json!({"metadata": {"name": "a"}, "spec": core("ReplicationController")});
    controller["spec"]["maxReplicas"] = json!(5);
    c.api().post(&path("v2", &ns), controller).await.expect(201);
    // What was let in is not held against an update that leaves it.
    let a = format!("{}/a", path("v2", &ns));
    let reply = c
        .api()
        .patch(&a, MERGE, json!({"spec": {"scaleTargetRef": {"kind": "Pod"}}}))
        .await;
    invalid(&reply, &ungrouped);
}

async fn metrics_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    let unknown = "Unsupported value: \"X\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \
                   \"Resource\"";
    for (metric, causes) in [
        (
            json!({"type": "X"}),
            &[format!("NotSupported spec.metrics[0].type: {unknown}").as_str()][..],
        ),
        (
            json!({"type": "Pods", "resource": processors(5)["resource"]}),
            &["Required spec.metrics[0].pods: must populate information for the given metric source"],
        ),
        (
            json!({"type": "Resource", "resource": {"target": {"type": "Utilization", "averageUtilization": 0, "averageValue": "0"}}}),
            &[
                "Required spec.metrics[0].resource.name: must specify a resource name",
                "Invalid spec.metrics[0].resource.target.averageValue: must be positive",
                "Invalid spec.metrics[0].resource.target.averageUtilization: must be greater than 0",
                "Forbidden spec.metrics[0].resource.target.averageValue: may not set both a target raw value and a target \
                 utilization",
            ],
        ),
        (
            json!({"type": "Object", "object": {"describedObject": {"kind": "K", "apiVersion": "v1"}, "metric": {"name": "a/b"},
                "target": {"type": "Z"}}}),
            &[
                "Required spec.metrics[0].object.describedObject.name: ",
                "Invalid spec.metrics[0].object.metric.name: may not contain '/'",
                "Invalid spec.metrics[0].object.target.type: must be either Utilization, Value, or AverageValue",
                "Required spec.metrics[0].object.target.averageValue: must set either a target value or averageValue",
            ],
        ),
        (
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "A_",
                "target": {"type": "AverageValue"}}}),
            &[
                "Invalid spec.metrics[0].containerResource.container: ",
                "Required spec.metrics[0].containerResource.target.averageUtilization: must set either a target raw value or a \
                 target utilization",
            ],
        ),
        (
            json!({"type": "External", "external": {"metric": {"name": "q"},
                "target": {"type": "Value", "value": "1", "averageValue": "1"}}}),
            &[
                "Forbidden spec.metrics[0].external.target.value: may not set both a target value for metric and a per-pod \
                 target",
            ],
        ),
    ] {
        refused(&c, &ns, json!({"metrics": [metric]}), causes).await;
    }
}

async fn behaviour_is_checked(c: Cluster) {
    let ns = c.namespace().await;
    let up = json!({"stabilizationWindowSeconds": -1, "selectPolicy": "X", "tolerance": "-1"});
    let policies = json!([{"type": "X", "value": 0, "periodSeconds": 2000}]);
    let down = json!({"stabilizationWindowSeconds": 4000, "policies": policies});
    refused(
        &c,
        &ns,
        json!({"behavior": {"scaleUp": up, "scaleDown": down}}),
        &[
            "Invalid spec.behavior.scaleUp.stabilizationWindowSeconds: must be greater than or equal to zero",
            "NotSupported spec.behavior.scaleUp.selectPolicy: supported values: \"Disabled\", \"Max\", \"Min\"",
            "Invalid spec.behavior.scaleUp.tolerance: must be greater than or equal to 0",
            "Invalid spec.behavior.scaleDown.stabilizationWindowSeconds: must be less than or equal to 3600",
            "NotSupported spec.behavior.scaleDown.policies[0].type: supported values: \"Percent\", \"Pods\"",
            "Invalid spec.behavior.scaleDown.policies[0].value: must be greater than zero",
            "Invalid spec.behavior.scaleDown.policies[0].periodSeconds: must be less than or equal to 1800",
        ],
    )
    .await;
}
