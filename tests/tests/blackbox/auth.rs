//! The admission plugin `OwnerReferencesPermissionEnforcement`, which the real tier does not run.

use http::Method;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Need, Reply, Test, fixtures::MERGE, roles::is_allowed, test};

use crate::support::{config_map, core, forbidden, object, of, soon, with};

const APPLY: &str = "application/apply-patch+yaml";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub fn tests() -> Vec<Test> {
    vec![test!(owner_references_require_permissions).needs(Need::Sandbox)]
}

/// A request of the administrator on behalf of a user.
async fn send_as(c: &Cluster, user: &str, method: Method, path: &str, body: Value) -> Reply {
    let headers = [("impersonate-user", user)];
    c.api().request(method, path, &headers, body).await
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": [resource]})
}

/// Grants rules to a user in a namespace, and waits until the server has loaded them.
async fn grant(c: &Cluster, ns: &str, user: &str, rules: Value) {
    let role = with(object(RBAC, "Role", user), json!({ "rules": rules }));
    c.create(&of(RBAC, ns, "roles"), &role).await;
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    let binding = json!({"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]});
    c.create(&of(RBAC, ns, "rolebindings"), binding).await;
    let attributes = json!({"namespace": ns, "verb": rules[0]["verbs"][0], "resource": "configmaps"});
    soon("the role is loaded", async || {
        is_allowed(c, user, &attributes).await.then_some(())
    })
    .await;
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

    let bob = &*format!("bob-{ns}");
    grant(
        &c,
        &ns,
        bob,
        json!([rule(&["create", "patch", "update"], "configmaps")]),
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
    let mut controlled = dependent("a", false);
    controlled["metadata"]["ownerReferences"][0]["controller"] = true.into();
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

    let eve = &*format!("eve-{ns}");
    let rules = json!([
        rule(&["create", "update", "delete"], "configmaps"),
        rule(&["update"], "configmaps/finalizers"),
    ]);
    grant(&c, &ns, eve, rules).await;
    send_as(&c, eve, Method::POST, &maps, dependent("b", true))
        .await
        .expect(201);
    put(eve, config_map("a")).await.expect(200);
    put(eve, dependent("a", true)).await.expect(200);
}
