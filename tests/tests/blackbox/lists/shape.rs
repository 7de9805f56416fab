//! What a list looks like, and its order.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{config_map, core, create, deployment, labelled, name, names, object, of, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(empty_list_has_items_and_a_version),
        test!(kinds_of_lists),
        test!(items_carry_no_kind),
        test!(items_are_what_a_get_answers),
        test!(list_is_ordered_by_name),
        test!(list_across_namespaces_is_ordered_by_namespace_first),
        test!(missing_namespace_is_an_empty_list),
        test!(version_of_a_list_is_not_older_than_its_items),
        test!(malformed_numbers_are_bad_requests),
    ]
}

async fn empty_list_has_items_and_a_version(c: Cluster) {
    let ns = c.namespace().await;
    for path in [
        core(&ns, "configmaps"),
        of("apps/v1", &ns, "deployments"),
        core(&ns, "events"),
    ] {
        let list = c.api().get(&path).await.expect(200);
        assert_eq!(list["items"], json!([]));
        assert!(version(&list) > 0);
        assert_eq!(list["metadata"]["continue"], Value::Null, "{list:#}");
    }
}

async fn kinds_of_lists(c: Cluster) {
    let ns = c.namespace().await;
    for (path, api_version, kind) in [
        (core(&ns, "configmaps"), "v1", "ConfigMapList"),
        (core(&ns, "pods"), "v1", "PodList"),
        ("/api/v1/nodes".to_owned(), "v1", "NodeList"),
        ("/api/v1/namespaces".to_owned(), "v1", "NamespaceList"),
        ("/api/v1/pods".to_owned(), "v1", "PodList"),
        (of("apps/v1", &ns, "replicasets"), "apps/v1", "ReplicaSetList"),
        (
            of("rbac.authorization.k8s.io/v1", &ns, "roles"),
            "rbac.authorization.k8s.io/v1",
            "RoleList",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinitionList",
        ),
    ] {
        let list = c.api().get(&path).await.expect(200);
        assert_eq!(
            (&list["apiVersion"], &list["kind"]),
            (&json!(api_version), &json!(kind))
        );
    }
}

/// Items of custom resources do: see the surface `crd`.
async fn items_carry_no_kind(c: Cluster) {
    let ns = c.namespace().await;
    create(&c, &core(&ns, "configmaps"), &config_map("a")).await;
    let deployments = of("apps/v1", &ns, "deployments");
    create(&c, &deployments, &deployment("a")).await;
    for path in [core(&ns, "configmaps"), deployments] {
        let list = c.api().get(&path).await.expect(200);
        let item = list["items"][0].as_object().expect("an item");
        assert!(
            !item.contains_key("kind") && !item.contains_key("apiVersion"),
            "{item:#?}"
        );
    }
}

async fn items_are_what_a_get_answers(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    create(&c, &path, &deployment("a")).await;
    let mut read = c.api().get(&format!("{path}/a")).await.expect(200);
    let list = c.api().get(&path).await.expect(200);
    let read = read.as_object_mut().expect("an object");
    read.remove("kind");
    read.remove("apiVersion");
    assert_eq!(list["items"][0].as_object(), Some(&*read));
}

async fn list_is_ordered_by_name(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "secrets");
    for name in ["b", "a-b", "a.b", "c", "a", "a10", "a2", "0"] {
        create(&c, &path, &object("v1", "Secret", name)).await;
    }
    let list = c.api().get(&path).await.expect(200);
    assert_eq!(names(&list), ["0", "a", "a-b", "a.b", "a10", "a2", "b", "c"]);
}

async fn list_across_namespaces_is_ordered_by_namespace_first(c: Cluster) {
    let (one, two) = (c.namespace().await, c.namespace().await);
    for (ns, name) in [(&two, "a"), (&one, "b"), (&two, "c"), (&one, "d")] {
        let object = labelled(config_map(name), json!({"of": one}));
        create(&c, &core(ns, "configmaps"), &object).await;
    }
    let query = format!("/api/v1/configmaps?labelSelector=of%3D{one}");
    let list = c.api().get(&query).await.expect(200);
    let items = list["items"].as_array().expect("items is a list");
    let found: Vec<_> = items
        .iter()
        .map(|item| (item["metadata"]["namespace"].as_str(), name(item)))
        .collect();
    let (one, two) = (Some(&*one), Some(&*two));
    let mut expected = vec![(one, "b"), (one, "d"), (two, "a"), (two, "c")];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

async fn missing_namespace_is_an_empty_list(c: Cluster) {
    let list = c
        .api()
        .get(&core("no-such-namespace", "configmaps"))
        .await
        .expect(200);
    assert_eq!(list["items"], json!([]));
}

async fn version_of_a_list_is_not_older_than_its_items(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &config_map("a")).await;
    let list = c.api().get(&path).await.expect(200);
    assert!(version(&list) >= version(&made));
    c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    let after = c.api().get(&path).await.expect(200);
    assert!(version(&after) > version(&made));
}

async fn malformed_numbers_are_bad_requests(c: Cluster) {
    let ns = c.namespace().await;
    for query in [
        "limit=x",
        "limit=1.5",
        "limit=99999999999999999999",
        "timeoutSeconds=x",
    ] {
        c.api()
            .get(&core(&ns, &format!("configmaps?{query}")))
            .await
            .expect_error(400, "BadRequest");
    }
}
