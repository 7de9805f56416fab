//! Sandboxes with CRDs and objects from the start.

use serde_json::Value;
use steersman_sandbox::{InternalController, Reason, Sandbox};

use crate::client::get;

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

async fn object(sandbox: &Sandbox, path: &str) -> Value {
    let (code, object) = get(&sandbox.service(), path).await;
    assert_eq!(code, 200, "{object}");
    object
}

fn error(objects: &str) -> String {
    let started = Sandbox::builder().objects(objects).start();
    started.err().expect("an error").to_string()
}

#[tokio::test]
async fn crds_and_objects_are_created_in_order() {
    let objects = "
# Comments are not documents.
---
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: test.dev/v1, kind: Widget, metadata: {name: a, namespace: team}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}
";
    let sandbox = Sandbox::builder()
        .objects(objects)
        .crds(CRD)
        .start()
        .expect("a sandbox");
    object(&sandbox, "/apis/test.dev/v1/namespaces/team/widgets/a").await;
    let map = object(&sandbox, "/api/v1/namespaces/default/configmaps/settings").await;
    assert_eq!(map["data"]["a"], "b");
}

#[tokio::test]
async fn status_is_written() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: worker}, status: {capacity: {cpu: '4'}}}";
    let sandbox = Sandbox::builder().objects(node).start().expect("a sandbox");
    let node = object(&sandbox, "/api/v1/nodes/worker").await;
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
}

#[tokio::test]
async fn equal_seeds_give_equal_uids() {
    let uid = async |seed| {
        let sandbox = Sandbox::builder().seed(seed).start().expect("a sandbox");
        object(&sandbox, "/api/v1/namespaces/default").await["metadata"]["uid"].clone()
    };
    let (a, b, c) = (uid(7).await, uid(7).await, uid(8).await);
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[test]
fn errors_name_the_document_and_the_reason() {
    assert_eq!(
        error("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\na: [b"),
        "document 2 of the objects: yaml: line 4: while parsing a flow sequence, expected ',' or ']'"
    );
    assert_eq!(
        error("kind: ConfigMap"),
        "document 1 of the objects (ConfigMap ): an object needs apiVersion and kind as strings"
    );
    assert_eq!(
        error("{apiVersion: v2, kind: Widget, metadata: {name: a}}"),
        "document 1 of the objects (Widget a): no matches for kind \"Widget\" in version \"v2\""
    );
    assert_eq!(
        error("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: gone}}"),
        "document 1 of the objects (ConfigMap gone/a): namespaces \"gone\" not found (404)"
    );
    assert_eq!(
        error("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dat: {}}"),
        "document 1 of the objects (ConfigMap a): ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding \
         error: unknown field \"dat\" (400)"
    );
    assert!(error("{apiVersion: v1, kind: ConfigMap, kind: ConfigMap}").contains("\"kind\" already set"));
}

#[test]
fn crd_input_rejects_other_kinds() {
    let started = Sandbox::builder()
        .crds("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
        .start();
    let error = started.err().expect("an error");
    assert_eq!(error.reason, Reason::NotACrd("ConfigMap".to_owned()));
}

#[test]
fn instance_of_an_unestablished_crd_is_rejected() {
    let started = Sandbox::builder()
        .delayed(InternalController::CrdEstablishing)
        .crds(CRD)
        .objects("{apiVersion: test.dev/v1, kind: Widget, metadata: {name: a}}")
        .start();
    let error = started.err().expect("an error");
    assert!(matches!(error.reason, Reason::UnknownKind { .. }), "{error}");
}

#[test]
fn object_after_a_webhook_configuration_is_rejected() {
    let objects = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.test.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: hook}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
";
    let started = Sandbox::builder().objects(objects).start();
    let error = started.err().expect("an error");
    assert_eq!((error.number, error.reason), (3, Reason::Webhook));
}
