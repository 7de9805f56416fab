//! The admission plugin `OwnerReferencesPermissionEnforcement`: permissions that ownerReferences require.

use coxswain_tests::fixtures::MERGE;
use coxswain_tests::{Cluster, Need, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{forbidden, grant, rule, send_as, user};
use crate::support::{config_map, core, with};

const APPLY: &str = "application/apply-patch+yaml";

pub fn tests() -> Vec<Test> {
    vec![test!(owner_references_require_permissions).needs(Need::Sandbox)]
}

async fn owner_references_require_permissions(c: Cluster) {
    let ns = c.namespace().await;
    let maps = core(&ns, "configmaps");
    c.create(&maps, &config_map("owner")).await;
    let owner = c.read(&format!("{maps}/owner")).await;
    let dependent = |name: &str, blocks: bool| {
        let mut map = config_map(name);
        map["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }]);
        map
    };
    let put = async |user: &str, map: Value| {
        let path = format!("{maps}/{}", map["metadata"]["name"].as_str().expect("a name"));
        send_as(&c, user, Method::PUT, &path, map).await
    };

    let bob = &*user(&ns, "bob");
    grant(
        &c,
        &ns,
        bob,
        json!([rule(&["create", "patch", "update"], "", &["configmaps"])]),
    )
    .await;
    send_as(&c, bob, Method::POST, &maps, dependent("a", false))
        .await
        .expect(201);
    let reply = send_as(&c, bob, Method::POST, &maps, dependent("b", true)).await;
    let message = "configmaps \"b\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                   can't set finalizers on: , <nil>";
    forbidden(&reply, message);
    let message =
        "configmaps \"a\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
    forbidden(&put(bob, config_map("a")).await, message);
    let controlled = with(
        dependent("a", false),
        "/metadata/ownerReferences/0/controller",
        json!(true),
    );
    for (patch, query, body) in [
        (MERGE, "", json!({"metadata": {"ownerReferences": null}})),
        (APPLY, "?fieldManager=test&force=true", controlled),
    ] {
        let path = format!("{maps}/a{query}");
        let headers = [("impersonate-user", bob), ("content-type", patch)];
        let reply = c.api().request(Method::PATCH, &path, &headers, body).await;
        forbidden(&reply, message);
    }
    put(bob, dependent("a", false)).await.expect(200);

    let eve = &*user(&ns, "eve");
    let rules = json!([
        rule(&["create", "update", "delete"], "", &["configmaps"]),
        rule(&["update"], "", &["configmaps/finalizers"]),
    ]);
    grant(&c, &ns, eve, rules).await;
    send_as(&c, eve, Method::POST, &maps, dependent("b", true))
        .await
        .expect(201);
    put(eve, config_map("a")).await.expect(200);
    put(eve, dependent("a", true)).await.expect(200);
}
