//! What a garbage collector relies on: how it asks, takes references and finalizers away, and deletes what it has seen.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::{
    HOLD, MERGE, STRATEGIC, assert_gone, config_map, core, create, finalizers, held, is_marked, object, soon,
    with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(policies_hold_for_custom_resources),
        test!(policies_hold_for_what_is_in_no_namespace),
        test!(custom_resources_have_preconditions),
        test!(deletion_of_what_was_made_again_is_a_conflict),
        test!(deletion_of_what_has_changed_is_a_conflict),
        test!(references_of_one_uid_go_together),
        test!(references_stop_to_block_in_place),
        test!(a_thousand_references_may_go_at_once),
        test!(references_of_custom_resources_go_by_merge_with_a_version),
        test!(references_of_a_marked_object_may_change),
        test!(own_finalizers_go_by_merge_with_a_version),
        test!(metadata_form_of_writes),
        test!(metadata_form_of_deletions),
        test!(unknown_kinds_are_not_found_without_a_name),
        test!(absent_objects_are_not_found_by_name),
    ]
}

/// The metadata form of an object.
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A reference to an owner that need not exist.
fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

/// A `ConfigMap` with this metadata, and its path.
async fn made(c: &Cluster, change: &[(&str, Value)]) -> (String, Value) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut object = config_map("a");
    for (field, value) in change {
        object = with(object, &format!("/metadata/{field}"), value.clone());
    }
    let made = create(c, &path, &object).await;
    (format!("{path}/a"), made)
}

/// A kind of this test alone, and where its objects are.
async fn defined(c: &Cluster, scope: &str) -> (String, Value) {
    let ns = c.namespace().await;
    let group = format!("{ns}.example.com");
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let spec = json!({
        "group": group, "scope": scope, "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version],
    });
    let name = format!("widgets.{group}");
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name);
    create(c, CRDS, &with(crd, "/spec", spec)).await;
    let base = format!("/apis/{group}/v1");
    soon("the kind is served", async || {
        (c.api().get(&format!("{base}/widgets")).await.status == 200).then_some(())
    })
    .await;
    let path = match scope {
        "Namespaced" => format!("{base}/namespaces/{ns}/widgets"),
        _ => format!("{base}/widgets"),
    };
    (path, object(&format!("{group}/v1"), "Widget", "a"))
}

async fn patch(c: &Cluster, path: &str, kind: &str, metadata: Value) -> Reply {
    c.api().patch(path, kind, json!({"metadata": metadata})).await
}

/// All that one object can be asked.
async fn follows_policies(c: &Cluster, collection: &str, object: &Value) {
    let path = format!("{collection}/a");
    create(c, collection, object).await;
    c.api().delete(&path, ()).await.expect(200);
    assert_gone(c, &path).await;

    create(c, collection, &held(object.clone())).await;
    for (options, expected) in [
        (
            json!({"propagationPolicy": "Foreground"}),
            &[HOLD, "foregroundDeletion"][..],
        ),
        (json!({}), &[HOLD, "foregroundDeletion"]),
        (json!({"propagationPolicy": "Orphan"}), &[HOLD, "orphan"]),
        (
            json!({"propagationPolicy": "Foreground"}),
            &[HOLD, "foregroundDeletion"],
        ),
        (json!({"orphanDependents": true}), &[HOLD, "orphan"]),
        (json!({"propagationPolicy": "Background"}), &[HOLD]),
        (
            json!({"propagationPolicy": "Foreground"}),
            &[HOLD, "foregroundDeletion"],
        ),
    ] {
        let answer = c.api().delete(&path, &options).await.expect(200);
        assert_eq!(finalizers(&answer), expected, "{options}");
        assert!(is_marked(&answer));
        assert_eq!(c.api().get(&path).await.expect(200), answer);
    }
    patch(c, &path, MERGE, json!({"finalizers": ["foregroundDeletion"]}))
        .await
        .expect(200);
    c.api()
        .delete(&path, json!({"propagationPolicy": "Background"}))
        .await
        .expect(200);
    assert_gone(c, &path).await;
}

async fn policies_hold_for_custom_resources(c: Cluster) {
    for scope in ["Namespaced", "Cluster"] {
        let (path, object) = defined(&c, scope).await;
        follows_policies(&c, &path, &object).await;
    }
}

async fn policies_hold_for_what_is_in_no_namespace(c: Cluster) {
    let name = c.namespace().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = object("rbac.authorization.k8s.io/v1", "ClusterRole", &name);
    create(&c, path, &held(role)).await;
    let path = format!("{path}/{name}");
    for (policy, expected) in [
        ("Foreground", &[HOLD, "foregroundDeletion"][..]),
        ("Orphan", &[HOLD, "orphan"]),
        ("Background", &[HOLD]),
    ] {
        let options = json!({"propagationPolicy": policy});
        let answer = c.api().delete(&path, options).await.expect(200);
        assert_eq!(finalizers(&answer), expected);
    }
    patch(&c, &path, MERGE, json!({"finalizers": null}))
        .await
        .expect(200);
    assert_gone(&c, &path).await;
}

async fn custom_resources_have_preconditions(c: Cluster) {
    let (collection, object) = defined(&c, "Namespaced").await;
    let path = format!("{collection}/a");
    let first = create(&c, &collection, &object).await;
    let meta = &first["metadata"];
    let changed = patch(&c, &path, MERGE, json!({"labels": {"a": "b"}}))
        .await
        .expect(200);
    for wrong in [
        json!({"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}),
        json!({"uid": "other", "resourceVersion": changed["metadata"]["resourceVersion"]}),
    ] {
        let options = json!({"preconditions": wrong, "propagationPolicy": "Foreground"});
        c.api().delete(&path, options).await.expect_error(409, "Conflict");
        assert_eq!(c.api().get(&path).await.expect(200), changed);
    }
    let right = json!({"uid": meta["uid"], "resourceVersion": changed["metadata"]["resourceVersion"]});
    c.api()
        .delete(&path, json!({"preconditions": right}))
        .await
        .expect(200);
    assert_gone(&c, &path).await;
}

async fn deletion_of_what_was_made_again_is_a_conflict(c: Cluster) {
    let (path, first) = made(&c, &[]).await;
    c.api().delete(&path, ()).await.expect(200);
    let collection = path.trim_end_matches("/a");
    let second = create(&c, collection, &config_map("a")).await;
    let meta = &first["metadata"];
    let options = json!({
        "preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
        "propagationPolicy": "Background",
    });
    c.api().delete(&path, options).await.expect_error(409, "Conflict");
    assert_eq!(c.api().get(&path).await.expect(200), second);
}

/// By references, by finalizers, and by another deletion.
async fn deletion_of_what_has_changed_is_a_conflict(c: Cluster) {
    for change in [
        json!({"ownerReferences": [owner("o", "u1")]}),
        json!({"finalizers": ["example.com/other"]}),
    ] {
        let (path, before) = made(&c, &[("finalizers", json!([HOLD]))]).await;
        let changed = patch(&c, &path, MERGE, change).await.expect(200);
        let seen = json!({"resourceVersion": before["metadata"]["resourceVersion"]});
        let options = json!({"preconditions": seen, "propagationPolicy": "Background"});
        c.api()
            .delete(&path, &options)
            .await
            .expect_error(409, "Conflict");
        assert_eq!(c.api().get(&path).await.expect(200), changed);
        let orphaning = c
            .api()
            .delete(&path, json!({"propagationPolicy": "Orphan"}))
            .await
            .expect(200);
        let seen = json!({"resourceVersion": changed["metadata"]["resourceVersion"]});
        let options = json!({"preconditions": seen, "propagationPolicy": "Background"});
        c.api().delete(&path, options).await.expect_error(409, "Conflict");
        assert_eq!(c.api().get(&path).await.expect(200), orphaning);
    }
}

/// A list with two of one uid is taken if they differ at all.
async fn references_of_one_uid_go_together(c: Cluster) {
    let refs = json!([owner("o", "u1"), owner("p", "u2"), owner("q", "u1")]);
    let (path, before) = made(&c, &[("ownerReferences", refs.clone())]).await;
    assert_eq!(before["metadata"]["ownerReferences"], refs);
    let gone =
        json!({"uid": before["metadata"]["uid"], "ownerReferences": [{"$patch": "delete", "uid": "u1"}]});
    let after = patch(&c, &path, STRATEGIC, gone).await.expect(200);
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("p", "u2")]));
}

async fn references_stop_to_block_in_place(c: Cluster) {
    let blocks =
        |name: &str, uid: &str, value: bool| with(owner(name, uid), "/blockOwnerDeletion", json!(value));
    let refs = json!([blocks("o", "u1", true), owner("p", "u2"), blocks("q", "u3", true)]);
    let (path, before) = made(&c, &[("ownerReferences", refs)]).await;
    let change = json!({"uid": before["metadata"]["uid"], "ownerReferences": [
        {"uid": "u1", "blockOwnerDeletion": false}, {"uid": "u3", "blockOwnerDeletion": false},
    ]});
    let after = patch(&c, &path, STRATEGIC, change).await.expect(200);
    let expected = json!([
        blocks("o", "u1", false),
        owner("p", "u2"),
        blocks("q", "u3", false)
    ]);
    assert_eq!(after["metadata"]["ownerReferences"], expected);
}

async fn a_thousand_references_may_go_at_once(c: Cluster) {
    let uids: Vec<String> = (0..1000).map(|index| format!("u{index}")).collect();
    let refs: Vec<Value> = uids.iter().map(|uid| owner("o", uid)).collect();
    let (path, before) = made(&c, &[("ownerReferences", json!(refs))]).await;
    assert_eq!(before["metadata"]["ownerReferences"], json!(refs));
    let gone: Vec<Value> = uids
        .iter()
        .filter(|uid| *uid != "u500")
        .map(|uid| json!({"$patch": "delete", "uid": uid}))
        .collect();
    let after = patch(&c, &path, STRATEGIC, json!({"ownerReferences": gone}))
        .await
        .expect(200);
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("o", "u500")]));
}

async fn references_of_custom_resources_go_by_merge_with_a_version(c: Cluster) {
    let (collection, object) = defined(&c, "Namespaced").await;
    let path = format!("{collection}/a");
    let refs = json!([owner("o", "u1"), owner("p", "u2")]);
    let first = create(&c, &collection, &with(object, "/metadata/ownerReferences", refs)).await;
    let gone = json!({"ownerReferences": [{"$patch": "delete", "uid": "u1"}]});
    patch(&c, &path, STRATEGIC, gone)
        .await
        .expect_error(415, "UnsupportedMediaType");
    let version = &first["metadata"]["resourceVersion"];
    let one = json!({"resourceVersion": version, "ownerReferences": [owner("p", "u2")]});
    let second = patch(&c, &path, MERGE, one.clone()).await.expect(200);
    assert_eq!(second["metadata"]["ownerReferences"], json!([owner("p", "u2")]));
    patch(&c, &path, MERGE, one).await.expect_error(409, "Conflict");
    let version = &second["metadata"]["resourceVersion"];
    let none = json!({"resourceVersion": version, "ownerReferences": null});
    let third = patch(&c, &path, MERGE, none).await.expect(200);
    assert_eq!(third["metadata"].get("ownerReferences"), None);
}

async fn references_of_a_marked_object_may_change(c: Cluster) {
    let refs = json!([owner("o", "u1"), owner("p", "u2")]);
    let (path, _) = made(&c, &[("ownerReferences", refs), ("finalizers", json!([HOLD]))]).await;
    c.api().delete(&path, ()).await.expect(200);
    let gone = json!({"ownerReferences": [{"$patch": "delete", "uid": "u1"}]});
    let after = patch(&c, &path, STRATEGIC, gone).await.expect(200);
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("p", "u2")]));
    assert!(is_marked(&after));
    let more = json!({"ownerReferences": [owner("q", "u3")]});
    let after = patch(&c, &path, MERGE, more).await.expect(200);
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("q", "u3")]));
}

async fn own_finalizers_go_by_merge_with_a_version(c: Cluster) {
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let (path, before) = made(&c, &[("finalizers", json!(["example.com/z", HOLD]))]).await;
        let options = json!({"propagationPolicy": policy});
        let marked = c.api().delete(&path, &options).await.expect(200);
        assert_eq!(finalizers(&marked), ["example.com/z", HOLD, finalizer]);
        let stale = &before["metadata"]["resourceVersion"];
        let rest = json!({"resourceVersion": stale, "finalizers": ["example.com/z", HOLD]});
        patch(&c, &path, MERGE, rest).await.expect_error(409, "Conflict");
        let version = &marked["metadata"]["resourceVersion"];
        let rest = json!({"resourceVersion": version, "finalizers": ["example.com/z", HOLD]});
        let after = patch(&c, &path, MERGE, rest).await.expect(200);
        assert_eq!(finalizers(&after), ["example.com/z", HOLD]);
        // It comes again with the next deletion, and as the last one it takes the object with it.
        let again = c.api().delete(&path, &options).await.expect(200);
        assert_eq!(finalizers(&again), ["example.com/z", HOLD, finalizer]);
        patch(&c, &path, MERGE, json!({"finalizers": [finalizer]}))
            .await
            .expect(200);
        patch(&c, &path, MERGE, json!({"finalizers": null}))
            .await
            .expect(200);
        assert_gone(&c, &path).await;
    }
}

async fn metadata_form_of_writes(c: Cluster) {
    let refs = json!([owner("o", "u1"), owner("p", "u2")]);
    let (path, _) = made(&c, &[("ownerReferences", refs)]).await;
    let gone = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}]}});
    let headers = [("content-type", STRATEGIC), ("accept", METADATA)];
    let after = c
        .api()
        .request(Method::PATCH, &path, &headers, gone)
        .await
        .expect(200);
    assert_eq!(after["kind"], "PartialObjectMetadata");
    assert_eq!(after["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(
        after["metadata"],
        c.api().get(&path).await.expect(200)["metadata"]
    );
    assert_eq!(after["metadata"]["ownerReferences"], json!([owner("p", "u2")]));
}

/// A deletion that only marks answers the object in that form, one that removes a `Status` as ever.
async fn metadata_form_of_deletions(c: Cluster) {
    let (path, _) = made(&c, &[("finalizers", json!([HOLD]))]).await;
    let headers = [("accept", METADATA)];
    let options = json!({"propagationPolicy": "Foreground"});
    let marked = c
        .api()
        .request(Method::DELETE, &path, &headers, options)
        .await
        .expect(200);
    assert_eq!(marked["kind"], "PartialObjectMetadata", "{marked:#}");
    assert_eq!(finalizers(&marked), [HOLD, "foregroundDeletion"]);
    assert_eq!(
        marked["metadata"],
        c.api().get(&path).await.expect(200)["metadata"]
    );
    let headers = [("content-type", MERGE), ("accept", METADATA)];
    let change = json!({"metadata": {"finalizers": null}});
    let last = c.api().request(Method::PATCH, &path, &headers, change).await;
    assert_eq!(last.expect(200)["kind"], "PartialObjectMetadata");
    assert_gone(&c, &path).await;

    let (path, made) = made(&c, &[]).await;
    let headers = [("accept", METADATA)];
    let gone = c
        .api()
        .request(Method::DELETE, &path, &headers, ())
        .await
        .expect(200);
    assert_eq!(
        (&gone["kind"], &gone["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(gone["details"]["uid"], made["metadata"]["uid"]);
    assert_gone(&c, &path).await;
}

/// Which is how they differ from an object that is not there: in plain text, or in groups that the server itself has in a
/// `Status` that names nothing.
async fn unknown_kinds_are_not_found_without_a_name(c: Cluster) {
    let ns = c.namespace().await;
    let (widgets, _) = defined(&c, "Namespaced").await;
    for (path, plain) in [
        (
            format!("/apis/nowhere.example.com/v1/namespaces/{ns}/gadgets/a"),
            true,
        ),
        (format!("{}/a", widgets.replace("/v1/", "/v2/")), true),
        (format!("{}/a", widgets.replace("/widgets", "/gadgets")), true),
        (format!("/apis/apps/v7/namespaces/{ns}/deployments/a"), false),
        (format!("/apis/apps/v1/namespaces/{ns}/gadgets/a"), false),
        (format!("/api/v1/namespaces/{ns}/gadgets/a"), false),
    ] {
        for method in [Method::GET, Method::DELETE] {
            let reply = c.api().request(method, &path, &[("accept", METADATA)], ()).await;
            reply.check(reply.status == 404, "expected 404");
            if plain {
                reply.check(reply.text() == "404 page not found\n", "expected plain text");
            } else {
                reply.expect_error(404, "NotFound");
                reply.check(reply.json()["details"] == json!({}), "expected no details");
            }
        }
    }
}

async fn absent_objects_are_not_found_by_name(c: Cluster) {
    let ns = c.namespace().await;
    let (widgets, _) = defined(&c, "Namespaced").await;
    for path in [core(&ns, "configmaps"), core("nowhere", "configmaps"), widgets] {
        for method in [Method::GET, Method::DELETE] {
            let path = format!("{path}/absent");
            let reply = c.api().request(method, &path, &[("accept", METADATA)], ()).await;
            reply.expect_error(404, "NotFound");
            reply.check(reply.json()["details"]["name"] == "absent", "expected the name");
        }
    }
}
