//! Protobuf bodies, which clients in Go send for built-in kinds, equal the same bodies in JSON.

use coxswain_tests::{
    Cluster, Need, Reply, Test,
    fixtures::{apps, config_map, core, deployment, group},
    test,
};
use http::Method;
use serde_json::{Value, json};

use crate::expect::{bad_request_starting, invalid, not_found};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![
        test!(protobuf_object_equals_json_object),
        test!(autoscaler_of_v2_is_decoded).since(1, 23),
        test!(scale_and_delete_options_are_decoded),
        test!(unknown_fields_are_skipped),
        test!(malformed_message_is_a_bad_request),
        // The real server panics.
        test!(custom_resources_are_415).needs(Need::Sandbox),
    ]
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}

/// A field with text, bytes or a message.
fn part(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [
        &varint(number << 3 | 2)[..],
        &varint(content.len() as u64),
        content,
    ]
    .concat()
}

fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A message with its type.
fn body(api_version: &str, kind: &str, message: &[Vec<u8>]) -> Vec<u8> {
    let meta = [part(1, api_version), part(2, kind)].concat();
    [b"k8s\0".to_vec(), part(1, meta), part(2, message.concat())].concat()
}

fn named(name: &str) -> Vec<u8> {
    part(1, part(1, name))
}

async fn send(c: &Cluster, method: Method, path: &str, body: Vec<u8>) -> Reply {
    c.api()
        .request(method, path, &[("content-type", PROTOBUF)], body)
        .await
}

/// The object without fields that differ between objects.
fn plain(mut object: Value) -> Value {
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "name",
    ] {
        object["metadata"][key] = Value::Null;
    }
    object
}

async fn protobuf_object_equals_json_object(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments");
    let labels = part(1, [part(1, "app"), part(2, "web")].concat());
    let probe = part(
        10,
        [
            part(1, part(2, [part(1, "/"), part(2, number(2, 80))].concat())),
            number(4, 5),
        ]
        .concat(),
    );
    let volume = part(
        1,
        [part(1, "v"), part(2, part(19, part(1, part(1, "settings"))))].concat(),
    );
    let memory = part(1, [part(1, "memory"), part(2, part(1, "1Gi"))].concat());
    let container = part(2, [part(1, "c"), part(2, "i"), probe, part(8, memory)].concat());
    let template = [
        part(1, part(11, [part(1, "app"), part(2, "web")].concat())),
        part(2, [container, volume].concat()),
    ];
    let spec = [number(1, 3), part(2, labels), part(3, template.concat())].concat();
    let sent = body("apps/v1", "Deployment", &[named("proto"), part(2, spec)]);
    let made = send(&c, Method::POST, &path, sent).await.expect(201);
    let same = json!({
        "metadata": {"name": "json"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "c", "image": "i", "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5},
                        "resources": {"limits": {"memory": "1Gi"}},
                    }],
                    "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
                },
            },
        },
    });
    let same = c.create(&path, same).await;
    assert_eq!(plain(made), plain(same));
}

async fn autoscaler_of_v2_is_decoded(c: Cluster) {
    let ns = c.namespace().await;
    let path = group("autoscaling/v2", &ns, "horizontalpodautoscalers");
    let target = part(
        1,
        [part(1, "Deployment"), part(2, "web"), part(3, "apps/v1")].concat(),
    );
    let cpu = [
        part(1, "cpu"),
        part(2, [part(1, "Utilization"), number(4, 60)].concat()),
    ]
    .concat();
    let metric = part(4, [part(1, "Resource"), part(4, cpu)].concat());
    let spec = [target, number(3, 5), metric].concat();
    let autoscaler = body(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        &[named("a"), part(2, spec)],
    );
    let made = send(&c, Method::POST, &path, autoscaler).await.expect(201);
    let target = json!({"type": "Utilization", "averageUtilization": 60});
    assert_eq!(
        made["spec"]["metrics"],
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
    );
    assert_eq!(
        made["spec"]["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
    );
}

async fn scale_and_delete_options_are_decoded(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("{}/web", apps(&ns, "deployments"));
    c.create(&apps(&ns, "deployments"), deployment("web")).await;
    let metadata = part(1, [part(1, "web"), part(3, &ns)].concat());
    let scale = body("autoscaling/v1", "Scale", &[metadata, part(2, number(1, 7))]);
    let scaled = send(&c, Method::PUT, &format!("{path}/scale"), scale)
        .await
        .expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    // The version of the options is that of the resource, or v1.
    let options = |version: &str, message: &[Vec<u8>]| body(version, "DeleteOptions", message);
    let wrong = options("apps/v1", &[part(2, part(1, "another"))]);
    send(&c, Method::DELETE, &path, wrong)
        .await
        .expect_error(409, "Conflict");
    let wrong = send(&c, Method::DELETE, &path, options("v1", &[part(4, "Nonsense")])).await;
    wrong.expect_error(422, "Invalid");
    let foreground = options("apps/v1", &[part(4, "Foreground")]);
    let marked = send(&c, Method::DELETE, &path, foreground).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

async fn unknown_fields_are_skipped(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let newer = body("v1", "ConfigMap", &[named("a"), part(1000, "x"), number(1001, 5)]);
    let made = send(&c, Method::POST, &path, newer).await.expect(201);
    let same = c.create(&path, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(plain(made), plain(same));
    // The type is optional.
    send(&c, Method::POST, &path, body("", "", &[named("c")]))
        .await
        .expect(201);
}

async fn malformed_message_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    for (sent, why) in [
        (b"k8s\0".to_vec(), "empty body (6b387300)"),
        (
            b"{}".to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})",
        ),
    ] {
        let reply = send(&c, Method::POST, &path, sent).await;
        bad_request_starting(&reply, &format!("{unrecognized}{why}"));
    }
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let cut = body("v1", "ConfigMap", &[vec![0x0a, 0xff, 0x01]]);
    bad_request_starting(
        &send(&c, Method::POST, &path, cut).await,
        &format!("{start}unexpected EOF"),
    );
    let start = "Secret in version \"v1\" cannot be handled as a ConfigMap: ";
    let secret = body("v1", "Secret", &[named("a")]);
    bad_request_starting(&send(&c, Method::POST, &path, secret).await, start);
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
    let nameless = body("v1", "ConfigMap", &[]);
    invalid(
        &send(&c, Method::POST, &path, nameless).await,
        &["Required metadata.name: name or generateName is required"],
    );
    let made = c.create(&path, config_map("b")).await;
    let answer = send(
        &c,
        Method::PATCH,
        &format!("{path}/b"),
        body("v1", "ConfigMap", &[named("b")]),
    )
    .await;
    answer.expect_error(415, "UnsupportedMediaType");
    assert_eq!(c.read(&format!("{path}/b")).await, made);
}

async fn custom_resources_are_415(c: Cluster) {
    let ns = c.namespace().await;
    let (group, plural) = (format!("{ns}.example.com"), "boats");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": "boat", "kind": "Boat"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    c.create(crds, crd).await;
    let path = format!("/apis/{group}/v1/namespaces/{ns}/{plural}");
    let boat = body(&format!("{group}/v1"), "Boat", &[named("a")]);
    let reply = send(&c, Method::POST, &path, boat).await;
    reply.expect_error(415, "UnsupportedMediaType");
    c.delete(&format!("{crds}/{plural}.{group}")).await;
}
