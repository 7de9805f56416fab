//! Pages of a list across namespaces, whose number depends on the objects of other tests.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use crate::support::{core, labelled, names, object};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![test!(pages_across_namespaces_contain_each_object_once)]
}

async fn pages_across_namespaces_contain_each_object_once(c: Cluster) {
    let (first, second) = (c.namespace().await, c.namespace().await);
    for ns in [&first, &second] {
        for name in ["a", "b", "c"] {
            let secret = labelled(object("v1", "Secret", name), json!({"of": first}));
            c.create(&core(ns, "secrets"), &secret).await;
        }
    }
    let query = format!("/api/v1/secrets?limit=2&labelSelector=of%3D{first}");
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let page = c.read(&format!("{query}{token}")).await;
        found.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = format!("&continue={next}"),
            _ => break,
        }
    }
    assert_eq!(found, ["a", "b", "c", "a", "b", "c"]);
}
