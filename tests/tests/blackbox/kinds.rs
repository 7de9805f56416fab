//! Every stable kind: create, get, list, watch, patch, apply and delete one object.

use serde_json::{Value, json};
use steersman_harness::{Cluster, Need, Test, test};

pub fn tests() -> Vec<Test> {
    vec![test!(every_kind_is_created_read_changed_and_deleted).needs(Need::Sandbox)]
}

/// The kinds whose objects need more than a name: apiVersion, kind, name if any name does not do, and fields. `NS` stands
/// for the namespace of the test.
#[rustfmt::skip]
const BODIES: &[(&str, &str)] = &[
    ("v1 Event", r#"{"involvedObject": {"namespace": "NS"}}"#),
    ("v1 LimitRange", r#"{"spec": {"limits": [{"type": "Pod"}]}}"#),
    ("v1 PersistentVolume", r#"{"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}"#),
    ("v1 PersistentVolumeClaim", r#"{"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#),
    ("v1 Pod", r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#),
    ("v1 PodTemplate", r#"{"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}"#),
    ("v1 ReplicationController", r#"{"spec": {"selector": {"a": "b"}, "template": TEMPLATE}}"#),
    ("v1 Service", r#"{"spec": {"ports": [{"port": 80}]}}"#),
    ("admissionregistration.k8s.io/v1 MutatingAdmissionPolicy", r#"{"spec": {"reinvocationPolicy": "Never", "matchConstraints": RULES,
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}}"#),
    ("admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding", r#"{"spec": {"policyName": "p"}}"#),
    ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", r#"{"spec": {"matchConstraints": RULES, "validations": [{"expression": "true"}]}}"#),
    ("admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding", r#"{"spec": {"policyName": "p", "validationActions": ["Deny"]}}"#),
    ("apiextensions.k8s.io/v1 CustomResourceDefinition", r#"{"metadata": {"name": "kinds.NS.example"}, "spec": {"group": "NS.example",
        "scope": "Namespaced", "names": {"kind": "Kind", "plural": "kinds"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#),
    ("apiregistration.k8s.io/v1 APIService", r#"{"metadata": {"name": "v1.NS.example"}, "spec": {"group": "NS.example", "version": "v1",
        "groupPriorityMinimum": 1, "versionPriority": 1, "insecureSkipTLSVerify": true, "service": {"namespace": "NS", "name": "s"}}}"#),
    ("apps/v1 ControllerRevision", r#"{"revision": 1, "data": {}}"#),
    ("apps/v1 DaemonSet", r#"{"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}"#),
    ("apps/v1 Deployment", r#"{"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}"#),
    ("apps/v1 ReplicaSet", r#"{"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}"#),
    ("apps/v1 StatefulSet", r#"{"spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}"#),
    ("autoscaling/v2 HorizontalPodAutoscaler", r#"{"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}}"#),
    ("batch/v1 CronJob", r#"{"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": JOB}}}}"#),
    ("batch/v1 Job", r#"{"spec": {"template": JOB}}"#),
    ("certificates.k8s.io/v1 CertificateSigningRequest", r#"{"spec": {"signerName": "NS.example/signer", "usages": ["digital signature"], "request": "CSR"}}"#),
    ("discovery.k8s.io/v1 EndpointSlice", r#"{"addressType": "IPv4", "endpoints": []}"#),
    ("events.k8s.io/v1 Event", r#"{"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "x.example/c", "reportingInstance": "i",
        "action": "A", "reason": "R", "type": "Normal", "regarding": {"namespace": "NS"}}"#),
    ("flowcontrol.apiserver.k8s.io/v1 FlowSchema", r#"{"spec": {"priorityLevelConfiguration": {"name": "exempt"}}}"#),
    ("flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration", r#"{"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}}"#),
    ("networking.k8s.io/v1 IPAddress", r#"{"metadata": {"name": "2001:db8::1"}, "spec": {"parentRef": {"resource": "services", "namespace": "NS", "name": "s"}}}"#),
    ("networking.k8s.io/v1 Ingress", r#"{"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}"#),
    ("networking.k8s.io/v1 IngressClass", r#"{"spec": {"controller": "x.example/c"}}"#),
    ("networking.k8s.io/v1 NetworkPolicy", r#"{"spec": {"podSelector": {}}}"#),
    ("networking.k8s.io/v1 ServiceCIDR", r#"{"spec": {"cidrs": ["192.0.2.0/24"]}}"#),
    ("node.k8s.io/v1 RuntimeClass", r#"{"handler": "h"}"#),
    ("rbac.authorization.k8s.io/v1 ClusterRoleBinding", r#"{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}}"#),
    ("rbac.authorization.k8s.io/v1 RoleBinding", r#"{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}"#),
    ("resource.k8s.io/v1 ResourceSlice", r#"{"spec": {"driver": "x.example", "nodeName": "n", "devices": [],
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}"#),
    ("resource.k8s.io/v1 ResourceClaimTemplate", r#"{"spec": {"spec": {}}}"#),
    ("scheduling.k8s.io/v1 PriorityClass", r#"{"value": 1}"#),
    ("storage.k8s.io/v1 CSINode", r#"{"spec": {"drivers": []}}"#),
    ("storage.k8s.io/v1 CSIStorageCapacity", r#"{"storageClassName": "s"}"#),
    ("storage.k8s.io/v1 StorageClass", r#"{"provisioner": "x.example/p"}"#),
    ("storage.k8s.io/v1 VolumeAttachment", r#"{"spec": {"attacher": "x.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}"#),
    ("storage.k8s.io/v1 VolumeAttributesClass", r#"{"driverName": "x.example"}"#),
];
const TEMPLATE: &str =
    r#"{"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#;
const JOB: &str = r#"{"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}"#;
const RULES: &str = r#"{"resourceRules": [{"apiGroups": ["NS.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}]}"#;
const CSR: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIS01ISUNBUUF3RURFT01Bd0dBMVVFQXd3RmEybHVaSE13V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQgpCd05DQUFRTTUrN043RVdqNHhtYUJ3N3pZZ3NtaC9EelJEdWF4YjlIUkYzVjlteEc3Z0kwb3BIRkpQWmovN3M4CmpsZnZnRk5sVHhva3RmMXlEYXJQRGpLb2RDem1vQUF3Q2dZSUtvWkl6ajBFQXdJRFNBQXdSUUloQUs0aGY1QlQKT2Y1RGRSOFZ0MFc4TEM4Yk56cUxITFBuRUJkbC9KdHNxa0ZlQWlBMmJLMzBmQk5MaytPYzloSlcvZW5lWXQvSgpVdUVMSzI2WDJTTDB4MzhsQmc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

/// A kind that clients can create and watch.
struct Served {
    api_version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

async fn every_kind_is_created_read_changed_and_deleted(c: Cluster) {
    let ns = c.namespace().await;
    let kinds = served(&c).await;
    assert_eq!(kinds.len(), 59);
    for (row, _) in BODIES {
        let is_served = |kind: &Served| format!("{} {}", kind.api_version, kind.kind) == *row;
        assert!(kinds.iter().any(is_served), "{row} is not served");
    }
    for kind in kinds {
        walk(&c, &ns, &kind).await;
    }
}

async fn served(c: &Cluster) -> Vec<Served> {
    let groups = c.api().get("/apis").await.expect(200);
    let versions = list(&groups["groups"])
        .iter()
        .flat_map(|group| list(&group["versions"]));
    let mut versions: Vec<&str> = versions.map(|version| text(&version["groupVersion"])).collect();
    versions.push("v1");
    let mut kinds = Vec::new();
    for version in versions.into_iter().filter(|version| is_built_in(version)) {
        let resources = c.api().get(&root(version)).await.expect(200);
        for resource in list(&resources["resources"]) {
            let has = |verb: &str| list(&resource["verbs"]).iter().any(|known| known == verb);
            if has("create") && has("watch") {
                kinds.push(Served {
                    api_version: version.to_owned(),
                    kind: text(&resource["kind"]).to_owned(),
                    plural: text(&resource["name"]).to_owned(),
                    namespaced: resource["namespaced"] == true,
                });
            }
        }
    }
    kinds
}

/// The groups of custom resources, which other tests define, have a domain.
fn is_built_in(version: &str) -> bool {
    let group = version.split('/').next().unwrap_or_default();
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn root(version: &str) -> String {
    let prefix = if version.contains('/') { "apis" } else { "api" };
    format!("/{prefix}/{version}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn body(kind: &Served, ns: &str) -> Value {
    let id = format!("{} {}", kind.api_version, kind.kind);
    let fields = BODIES
        .iter()
        .find(|(known, _)| *known == id)
        .map_or("{}", |(_, fields)| fields);
    let fields = [
        ("TEMPLATE", TEMPLATE),
        ("JOB", JOB),
        ("RULES", RULES),
        ("NS", ns),
        ("CSR", CSR),
    ]
    .into_iter()
    .fold(fields.to_owned(), |text, (name, value)| text.replace(name, value));
    let mut object: Value = serde_json::from_str(&fields).expect("JSON");
    object["apiVersion"] = kind.api_version.as_str().into();
    object["kind"] = kind.kind.as_str().into();
    if object["metadata"].is_null() {
        object["metadata"] = json!({"name": format!("{ns}-{}", kind.plural)});
    }
    object
}

async fn walk(c: &Cluster, ns: &str, kind: &Served) {
    let object = body(kind, ns);
    let name = text(&object["metadata"]["name"]).to_owned();
    let scope = if kind.namespaced {
        format!("/namespaces/{ns}")
    } else {
        String::new()
    };
    let path = format!("{}{scope}/{}", root(&kind.api_version), kind.plural);
    let (item, only) = (
        format!("{path}/{name}"),
        format!("{path}?fieldSelector=metadata.name={name}"),
    );
    let mut watch = c.api().watch(&format!("{only}&watch=1")).await;
    let created = c.api().post(&path, &object).await.expect(201);
    assert_eq!(created["kind"], kind.kind.as_str());
    assert_eq!(
        watch.expect("ADDED").await["metadata"]["uid"],
        created["metadata"]["uid"]
    );
    let read = c.api().get(&item).await.expect(200);
    assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"]);
    let listed = c.api().get(&only).await.expect(200);
    assert_eq!(list(&listed["items"]).len(), 1, "{path}");

    let labelled = json!({"metadata": {"labels": {"patched": "yes"}}});
    let patched = c
        .api()
        .patch(&item, "application/strategic-merge-patch+json", labelled)
        .await
        .expect(200);
    assert_eq!(patched["metadata"]["labels"]["patched"], "yes", "{path}");
    let mut applied = object.clone();
    applied["metadata"]["labels"] = json!({"applied": "yes"});
    let manager = format!("{item}?fieldManager=test&force=true");
    let applied = c
        .api()
        .patch(&manager, "application/apply-patch+yaml", applied)
        .await
        .expect(200);
    for label in ["patched", "applied"] {
        let value = &applied["metadata"]["labels"][label];
        assert_eq!(value, "yes", "{} {}: {label}", kind.api_version, kind.kind);
    }
    let deleted = c
        .api()
        .delete(&item, json!({"propagationPolicy": "Background"}))
        .await;
    deleted.check(matches!(deleted.status, 200 | 202), "expected to be deleted");
    // Controllers may change the object between these events.
    while watch.event().await["type"] != "DELETED" {}
}
