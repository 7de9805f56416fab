use serde_json::{Value, json};

use crate::registry::shape::complete;
use crate::registry::testing::resource;
use crate::resource::Resource;
use crate::schema;

/// Brings an object into the server's shape.
fn settle(res: &Resource, obj: &mut Value) {
    let kind = schema::builtin(&res.api_version(), &res.kind).expect("a schema");
    schema::conform(kind, obj).expect("an object of the kind");
    complete(res, obj);
}

#[test]
fn what_says_nothing_disappears() {
    let mut pod = json!({
        "metadata": {"name": "a", "labels": {}, "annotations": {}, "finalizers": []},
        "spec": {
            "hostNetwork": false, "nodeSelector": {}, "tolerations": [{"key": "", "operator": "Exists"}],
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "a", "env": [{"name": "E", "value": ""}], "args": [],
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {}},
                "livenessProbe": {"initialDelaySeconds": 0},
            }],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    });
    settle(&resource("pods"), &mut pod);
    assert_eq!(
        pod,
        json!({
            "metadata": {"name": "a"},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                // An unset flag means something else here, so that false stays.
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "a", "env": [{"name": "E"}],
                    "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                    "livenessProbe": {},
                }],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {},
        })
    );
}

#[test]
fn the_users_own_data_is_left_alone() {
    let mut config = json!({"metadata": {"name": "a"}, "data": {"hostname": "", "x": "y"}});
    let before = config.clone();
    settle(&resource("configmaps"), &mut config);
    assert_eq!(config, before);
    let mut revision =
        json!({"metadata": {"name": "a"}, "data": {"labels": {}, "tty": false}, "revision": 0});
    let before = revision.clone();
    settle(&resource("controllerrevisions.apps"), &mut revision);
    assert_eq!(revision, before);
}

#[test]
fn counters_differ_by_kind() {
    let cases = [
        (
            "deployments.apps",
            json!({"replicas": 0, "readyReplicas": 1}),
            json!({"readyReplicas": 1}),
        ),
        (
            "replicasets.apps",
            json!({"availableReplicas": 0}),
            json!({"replicas": 0}),
        ),
        (
            "statefulsets.apps",
            json!({}),
            json!({"replicas": 0, "availableReplicas": 0}),
        ),
        (
            "jobs.batch",
            json!({"active": 0, "succeeded": 2}),
            json!({"succeeded": 2}),
        ),
        ("services", json!({}), json!({"loadBalancer": {}})),
    ];
    for (kind, given, expected) in cases {
        let mut obj = json!({"metadata": {}, "spec": {}, "status": given});
        settle(&resource(kind), &mut obj);
        assert_eq!(obj["status"], expected, "{kind}");
    }
}
