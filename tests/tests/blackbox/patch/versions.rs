//! The kind and the version that a patch leaves an object with: without them nothing else of it can be read.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, apps, define, deployment, group, named, undefine},
    test,
};
use serde_json::{Value, json};

use super::any::create;
use crate::expect::{bad_request, invalid, stale, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(without_a_version_nothing_is_known).since(1, 27),
        test!(kind_and_version_are_texts),
        test!(custom_resource_keeps_its_version),
        test!(custom_resource_without_a_version_is_an_error),
    ]
}

const NAMELESS: &str = "the name of the object (a based on URL) was undeterminable: name must be provided";

/// Asserts a 422 for what the patch made.
#[track_caller]
fn unfit(reply: &coxswain_tests::Reply) {
    reply.expect_error(422, "Invalid");
    reply.check(
        reply.causes()[0].field == "patch",
        "expected the patch as the cause",
    );
}

async fn without_a_version_nothing_is_known(c: Cluster) {
    let ns = c.namespace().await;
    let path = apps(&ns, "deployments");
    let made = c.api().post(&path, deployment("a")).await.expect(201);
    let path = format!("{path}/a");
    for (kind, change) in [
        (MERGE, json!({"apiVersion": null})),
        (JSON_PATCH, json!([{"op": "remove", "path": "/apiVersion"}])),
    ] {
        let reply = c.api().patch(&path, kind, change.clone()).await;
        bad_request(&reply, NAMELESS);
        let warnings = reply.headers.get_all("warning").iter();
        let mut warnings: Vec<&str> = warnings.filter_map(|w| w.to_str().ok()).collect();
        warnings.sort_unstable();
        let unknown = |field: &str| format!("299 - \"unknown field \\\"{field}\\\"\"");
        assert_eq!(warnings, ["metadata", "spec", "status"].map(unknown));
        let strict = format!("{path}?fieldValidation=Strict");
        unfit(&c.api().patch(&strict, kind, change).await);
    }
    unchanged(&c, &path, &made).await;
}

async fn kind_and_version_are_texts(c: Cluster) {
    let (path, made) = create(&c).await;
    for field in ["kind", "apiVersion"] {
        for (kind, change) in [
            (MERGE, json!({field: 1})),
            (STRATEGIC, json!({field: 1})),
            (
                JSON_PATCH,
                json!([{"op": "replace", "path": format!("/{field}"), "value": 1}]),
            ),
        ] {
            unfit(&c.api().patch(&path, kind, change).await);
        }
    }
    unfit(&c.api().patch(&path, MERGE, json!({"apiVersion": "a/b/c"})).await);
    unchanged(&c, &path, &made).await;
}

/// Defines a kind, and makes one object of it: its path, and what it is.
async fn custom(c: &Cluster, singular: &str, kind: &str) -> (String, Value) {
    let ns = c.namespace().await;
    define(c, singular, &json!({})).await;
    let path = group("example.com/v1", &ns, &format!("{singular}s"));
    let made = c.api().post(&path, named("example.com/v1", kind, "a")).await;
    (format!("{path}/a"), made.expect(201))
}

/// Another version is found where the rest of the object is judged, and not before.
async fn custom_resource_keeps_its_version(c: Cluster) {
    let (path, made) = custom(&c, "keeping", "Keeping").await;
    let version = "Invalid apiVersion: Invalid value: \"example.com/v9\": must be example.com/v1";
    let owner = "Invalid metadata.ownerReferences.apiVersion: version must not be empty";
    let change = |meta: Value| json!({"apiVersion": "example.com/v9", "metadata": meta});
    let send = async |change: Value| c.api().patch(&path, MERGE, change).await;
    invalid(&send(change(json!({}))).await, &[version]);
    let owners = json!([{"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"}]);
    let reply = send(change(json!({"ownerReferences": owners}))).await;
    invalid(&reply, &[owner, version]);
    stale(
        &send(change(json!({"resourceVersion": "1"}))).await,
        "keepings.example.com",
        "a",
    );
    unfit(&send(change(json!({"finalizers": {}}))).await);
    unfit(&send(json!({"apiVersion": "a/b/c"})).await);
    unchanged(&c, &path, &made).await;
    undefine(&c, "keeping").await;
}

async fn custom_resource_without_a_version_is_an_error(c: Cluster) {
    let (path, made) = custom(&c, "losing", "Losing").await;
    let reply = c.api().patch(&path, MERGE, json!({"apiVersion": null})).await;
    reply.expect_error(500, "InternalError");
    let message =
        "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'";
    reply.check(reply.message() == message, message);
    unchanged(&c, &path, &made).await;
    undefine(&c, "losing").await;
}
