//! The service account that every namespace has.

use coxswain_tests::{Cluster, Need, Test, test};
use serde_json::{Value, json};

use super::{review_token, token};
use crate::support::{assert_gone, core, soon};

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(namespace_has_a_default_account),
        test!(default_account_comes_back),
        test!(it_goes_with_its_namespace),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kcm)).collect()
}

fn path(ns: &str) -> String {
    format!("{}/default", core(ns, "serviceaccounts"))
}

async fn default_account(c: &Cluster, ns: &str) -> Value {
    soon("there is an account", async || {
        let reply = c.api().get(&path(ns)).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await
}

async fn namespace_has_a_default_account(c: Cluster) {
    let ns = c.namespace().await;
    let made = default_account(&c, &ns).await;
    let token = token(&c, &ns, "default", json!({})).await;
    let who = review_token(&c, &token, json!(null)).await["user"].clone();
    assert_eq!(who["username"], format!("system:serviceaccount:{ns}:default"));
    assert_eq!(who["uid"], made["metadata"]["uid"]);
    for ns in ["default", "kube-system"] {
        default_account(&c, ns).await;
    }
}

async fn default_account_comes_back(c: Cluster) {
    let ns = c.namespace().await;
    let made = default_account(&c, &ns).await;
    c.api().delete(&path(&ns), ()).await.expect(200);
    soon("there is another account", async || {
        let reply = c.api().get(&path(&ns)).await;
        (reply.status == 200 && reply.json()["metadata"]["uid"] != made["metadata"]["uid"]).then_some(())
    })
    .await;
}

async fn it_goes_with_its_namespace(c: Cluster) {
    let ns = c.namespace().await;
    default_account(&c, &ns).await;
    let namespace = format!("/api/v1/namespaces/{ns}");
    c.api().delete(&namespace, ()).await.expect(200);
    soon("the namespace is gone", async || {
        (c.api().get(&namespace).await.status == 404).then_some(())
    })
    .await;
    assert_gone(&c, &path(&ns)).await;
}
