//! Caches of a part of the cluster.

use coxswain_manager::cache::{Cache, Lookup, Scope};
use coxswain_tests::{Cluster, Test, fixtures, test};
use serde_json::json;

use super::{Bed, MAPS, Map, line, told, version};
use crate::process::soon;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(an_object_that_loses_its_label_leaves),
        test!(only_the_given_namespaces_are_read),
    ]
}

async fn an_object_that_loses_its_label_leaves(c: Cluster) {
    let ns = c.namespace().await;
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: format!("example.com/scope={ns}"),
    };
    let bed = Bed::with(&c, &ns, scope).await;
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    assert!(!maps.is_whole());
    let mut changes = maps.subscribe();
    soon("the cache is filled", maps.synced()).await;
    bed.create("a").await;
    bed.create("b").await;
    let label = |value: &str| json!({"metadata": {"labels": {"example.com/scope": value}}});
    bed.merge("b", label(&ns)).await;
    assert_eq!(line(&mut changes).await, "Added b", "it came in");
    bed.update("a", "out of sight").await;
    bed.update("b", "seen").await;
    assert_eq!(line(&mut changes).await, "Updated b");

    let left = bed.merge("b", label("other")).await;
    let gone = told(&mut changes).await;
    assert_eq!(super::show(&gone), "Deleted b");
    assert_eq!(
        gone.latest().data["k"],
        "seen",
        "the last state that was in the scope"
    );
    assert_eq!(maps.get(&bed.key("b")), Lookup::Absent);
    assert!(maps.version().has_reached(&version(&left)));

    bed.merge("b", label(&ns)).await;
    assert_eq!(line(&mut changes).await, "Added b", "it came back");
}

async fn only_the_given_namespaces_are_read(c: Cluster) {
    let spaces = [c.namespace().await, c.namespace().await, c.namespace().await];
    let scope = Scope {
        namespaces: spaces[..2].to_vec(),
        ..Scope::default()
    };
    let bed = Bed::with(&c, &spaces[0], scope).await;
    let create = async |ns: &str, name: &str| {
        let path = fixtures::core(ns, "configmaps");
        c.api().post(&path, fixtures::config_map(name)).await.expect(201)
    };
    for ns in &spaces {
        create(ns, "early").await;
    }
    let maps: Cache<Map> = bed.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    soon("the cache is filled", maps.synced()).await;
    assert_eq!(bed.process.requests("LIST"), 2, "one each");
    for ns in spaces.iter().rev() {
        create(ns, "late").await;
    }
    let mut lines = Vec::new();
    for _ in 0..4 {
        let delta = told(&mut changes).await;
        lines.push(format!("{} in {}", super::show(&delta), delta.key().namespace));
    }
    lines.sort();
    let expected = ["Added late", "Found early"];
    let expected = expected.map(|what| [0, 1].map(|n| format!("{what} in {}", spaces[n])));
    let mut expected = expected.concat();
    expected.sort();
    assert_eq!(lines, expected);
    assert_eq!(maps.list_namespace(&spaces[2]).len(), 0);
    assert_eq!(maps.len(), 4);
}
