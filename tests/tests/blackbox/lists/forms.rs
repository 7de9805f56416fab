//! `PartialObjectMetadata` and what else an `accept` header can ask for.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::{config_map, core, create, deployment, labelled, of};

pub fn tests() -> Vec<Test> {
    vec![
        test!(metadata_of_an_object),
        test!(metadata_of_a_list),
        test!(metadata_of_pages),
        test!(metadata_of_a_new_object),
        test!(status_is_never_reduced),
        test!(list_form_of_an_object_is_not_acceptable),
        test!(unknown_forms_are_not_acceptable),
        test!(first_acceptable_form_counts),
    ]
}

const ONE: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const MANY: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn get_as(c: &Cluster, path: &str, accept: &str) -> Reply {
    c.api()
        .request(Method::GET, path, &[("accept", accept)], ())
        .await
}

async fn metadata_of_an_object(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    let made = create(&c, &path, &deployment("a")).await;
    let reply = get_as(&c, &format!("{path}/a"), ONE).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let expected = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    assert_eq!(reply.expect(200), expected);
}

async fn metadata_of_a_list(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut expected = Vec::new();
    for name in ["a", "b"] {
        let object = labelled(config_map(name), json!({"l": name}));
        let made = create(&c, &path, &object).await;
        expected.push(json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}));
    }
    let list = get_as(&c, &path, MANY).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(list["items"], json!(expected));
    assert!(list["metadata"]["resourceVersion"].is_string());
    let list = get_as(&c, &format!("{path}?labelSelector=l%3Db"), MANY).await;
    assert_eq!(list.expect(200)["items"], json!(expected[1..]));
}

async fn metadata_of_pages(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for name in ["a", "b", "c"] {
        create(&c, &path, &config_map(name)).await;
    }
    let list = get_as(&c, &format!("{path}?limit=1"), MANY).await.expect(200);
    // Older servers lose it on the way.
    if c.version() >= (1, 36) {
        assert_eq!(list["metadata"]["remainingItemCount"], 2);
    }
    let token = list["metadata"]["continue"].as_str().expect("a token");
    let list = get_as(&c, &format!("{path}?continue={token}"), MANY).await;
    assert_eq!(list.expect(200)["items"][0]["metadata"]["name"], "b");
}

async fn metadata_of_a_new_object(c: Cluster) {
    let ns = c.namespace().await;
    let made = c
        .api()
        .request(
            Method::POST,
            &core(&ns, "configmaps"),
            &[("accept", ONE)],
            config_map("a"),
        )
        .await
        .expect(201);
    assert_eq!(made["kind"], "PartialObjectMetadata");
    assert_eq!(made["metadata"]["name"], "a");
    assert_eq!(made["data"], Value::Null);
}

async fn status_is_never_reduced(c: Cluster) {
    let ns = c.namespace().await;
    get_as(&c, &core(&ns, "configmaps/nope"), ONE)
        .await
        .expect_error(404, "NotFound");
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let answer = c
        .api()
        .request(Method::DELETE, &core(&ns, "configmaps/a"), &[("accept", ONE)], ())
        .await
        .expect(200);
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
}

async fn list_form_of_an_object_is_not_acceptable(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let reply = get_as(&c, &core(&ns, "configmaps/a"), MANY).await;
    reply.expect_error(406, "NotAcceptable");
    let start = "you requested PartialObjectMetadataList, but the requested object is not a list (";
    reply.check(reply.message().starts_with(start), start);
    let reply = get_as(&c, &core(&ns, "configmaps"), ONE).await;
    reply.expect_error(406, "NotAcceptable");
    let start = "you requested PartialObjectMetadata, but the requested object is a list (";
    reply.check(reply.message().starts_with(start), start);
}

async fn unknown_forms_are_not_acceptable(c: Cluster) {
    let ns = c.namespace().await;
    for accept in [
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Table;v=v1",
    ] {
        let reply = get_as(&c, &core(&ns, "configmaps"), accept).await;
        reply.expect_error(406, "NotAcceptable");
        let start = "only the following media types are accepted: application/json";
        reply.check(reply.message().starts_with(start), start);
    }
}

async fn first_acceptable_form_counts(c: Cluster) {
    let ns = c.namespace().await;
    for (accept, kind) in [
        (
            "application/json;as=Nope;v=v1;g=meta.k8s.io,application/json",
            "ConfigMapList",
        ),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "Table",
        ),
        (&format!("{MANY},application/json"), "PartialObjectMetadataList"),
        ("*/*", "ConfigMapList"),
    ] {
        let list = get_as(&c, &core(&ns, "configmaps"), accept).await.expect(200);
        assert_eq!(list["kind"], kind, "{accept}");
    }
}
