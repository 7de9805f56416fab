//! What whoever creates an object has of it: everything that it said, in the form of the kind's schema.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{apps, core, group},
    test,
};
use serde_json::{Value, json};

use super::fields;

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(a_config_map),
        test!(a_pod),
        test!(a_deployment),
        test!(a_stateful_set),
        test!(a_service),
        test!(a_cron_job),
        test!(a_role_binding),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

async fn created(c: &Cluster, path: String, object: Value) -> Value {
    let made = c
        .api()
        .post(&format!("{path}?fieldManager=m"), object)
        .await
        .expect(201);
    assert_eq!(super::managers(&made), ["m"]);
    fields(&made, "m", "Update")
}

async fn a_config_map(c: Cluster) {
    let ns = c.namespace().await;
    let object = json!({
        "metadata": {
            "name": "a", "labels": {"x": "1"}, "annotations": {"y": "2"}, "finalizers": ["a.b/c"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u"}],
        },
        "data": {"k": "1"},
    });
    let expected = json!({
        "f:data": {".": {}, "f:k": {}},
        "f:metadata": {
            "f:annotations": {".": {}, "f:y": {}},
            "f:finalizers": {".": {}, "v:\"a.b/c\"": {}},
            "f:labels": {".": {}, "f:x": {}},
            "f:ownerReferences": {".": {}, "k:{\"uid\":\"u\"}": {}},
        },
    });
    assert_eq!(created(&c, core(&ns, "configmaps"), object).await, expected);
}

fn plain_container() -> Value {
    json!({
        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
    })
}

fn pod_fields() -> Value {
    json!({
        "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
        "f:containers": {"k:{\"name\":\"c\"}": plain_container()},
    })
}

async fn a_pod(c: Cluster) {
    let ns = c.namespace().await;
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "nodeSelector": {"a": "b"},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{
            "name": "c", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}],
            "env": [{"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
    }});
    let mut expected = pod_fields();
    expected["f:enableServiceLinks"] = json!({});
    expected["f:nodeSelector"] = json!({});
    expected["f:volumes"] = json!({".": {}, "k:{\"name\":\"v\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}});
    let container = &mut expected["f:containers"]["k:{\"name\":\"c\"}"];
    container["f:args"] = json!({});
    container["f:ports"] = json!({".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
        ".": {}, "f:containerPort": {}, "f:protocol": {},
    }});
    container["f:env"] = json!({".": {}, "k:{\"name\":\"F\"}": {
        ".": {}, "f:name": {}, "f:valueFrom": {".": {}, "f:fieldRef": {}},
    }});
    container["f:volumeMounts"] = json!({".": {}, "k:{\"mountPath\":\"/v\"}": {
        ".": {}, "f:mountPath": {}, "f:name": {},
    }});
    assert_eq!(
        created(&c, core(&ns, "pods"), object).await,
        json!({"f:spec": expected})
    );
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn template_fields() -> Value {
    json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": pod_fields()})
}

async fn a_deployment(c: Cluster) {
    let ns = c.namespace().await;
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template(),
    }});
    let rolling = json!({".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}});
    let expected = json!({
        "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
        "f:strategy": {"f:rollingUpdate": rolling, "f:type": {}},
        "f:template": template_fields(),
    });
    assert_eq!(
        created(&c, apps(&ns, "deployments"), object).await,
        json!({"f:spec": expected})
    );
}

async fn a_stateful_set(c: Cluster) {
    let ns = c.namespace().await;
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": template(),
        "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}],
    }});
    let made = created(&c, apps(&ns, "statefulsets"), object).await;
    let rolling = json!({".": {}, "f:partition": {}});
    let retention = json!({".": {}, "f:whenDeleted": {}, "f:whenScaled": {}});
    let spec = &made["f:spec"];
    assert_eq!(
        spec["f:updateStrategy"],
        json!({"f:rollingUpdate": rolling, "f:type": {}})
    );
    assert_eq!(spec["f:persistentVolumeClaimRetentionPolicy"], retention);
    assert_eq!(spec["f:volumeClaimTemplates"], json!({}), "one value");
    assert_eq!(spec["f:template"], template_fields());
}

async fn a_service(c: Cluster) {
    let ns = c.namespace().await;
    let object =
        json!({"metadata": {"name": "a"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let made = created(&c, core(&ns, "services"), object).await;
    let port = json!({".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    let expected = json!({
        "f:internalTrafficPolicy": {}, "f:selector": {}, "f:sessionAffinity": {}, "f:type": {},
        "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": port},
    });
    assert_eq!(made, json!({"f:spec": expected}), "the addresses nobody has");
}

async fn a_cron_job(c: Cluster) {
    let ns = c.namespace().await;
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}},
    }});
    let expected = json!({
        "f:concurrencyPolicy": {}, "f:failedJobsHistoryLimit": {}, "f:schedule": {},
        "f:successfulJobsHistoryLimit": {}, "f:suspend": {},
        "f:jobTemplate": {"f:spec": {"f:template": {"f:spec": pod_fields()}}},
    });
    let path = group("batch/v1", &ns, "cronjobs");
    assert_eq!(created(&c, path, object).await, json!({"f:spec": expected}));
}

async fn a_role_binding(c: Cluster) {
    let ns = c.namespace().await;
    let object = json!({
        "metadata": {"name": "a"}, "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": ns}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    });
    let path = group("rbac.authorization.k8s.io/v1", &ns, "rolebindings");
    assert_eq!(
        created(&c, path, object).await,
        json!({"f:roleRef": {}, "f:subjects": {}})
    );
}
