//! Caches with a scope.

use serde_json::json;
use steersman_harness::{Cluster, Test, fixtures, test};
use steersman_manager::cache::{Cache, Lookup, Scope};

use super::{Fixture, MAPS, Map, line, next_delta, version};
use crate::process::soon;

pub fn tests() -> Vec<Test> {
    vec![
        test!(object_that_loses_its_label_is_deleted),
        test!(only_namespaces_in_the_scope_are_read),
    ]
}

async fn object_that_loses_its_label_is_deleted(c: Cluster) {
    let ns = c.namespace().await;
    let scope = Scope {
        namespaces: Vec::new(),
        label_selector: format!("example.com/scope={ns}"),
    };
    let f = Fixture::with(&c, &ns, scope).await;
    let maps: Cache<Map> = f.caches.of(&MAPS);
    assert!(!maps.includes_all());
    let mut changes = maps.subscribe();
    soon("the cache syncs", maps.synced()).await;
    f.create("a").await;
    f.create("b").await;
    let label = |value: &str| json!({"metadata": {"labels": {"example.com/scope": value}}});
    f.merge("b", label(&ns)).await;
    assert_eq!(line(&mut changes).await, "Added b", "entered the scope");
    f.update("a", "out of sight").await;
    f.update("b", "seen").await;
    assert_eq!(line(&mut changes).await, "Updated b");

    let left = f.merge("b", label("other")).await;
    let gone = next_delta(&mut changes).await;
    assert_eq!(super::show(&gone), "Deleted b");
    assert_eq!(
        gone.latest().data["k"],
        "seen",
        "the last state that was in the scope"
    );
    assert_eq!(maps.get(&f.key("b")), Lookup::Absent);
    assert!(maps.version().has_reached(&version(&left)));

    f.merge("b", label(&ns)).await;
    assert_eq!(line(&mut changes).await, "Added b", "entered the scope again");
}

async fn only_namespaces_in_the_scope_are_read(c: Cluster) {
    let spaces = [c.namespace().await, c.namespace().await, c.namespace().await];
    let scope = Scope {
        namespaces: spaces[..2].to_vec(),
        ..Scope::default()
    };
    let f = Fixture::with(&c, &spaces[0], scope).await;
    let create = async |ns: &str, name: &str| {
        let path = fixtures::core(ns, "configmaps");
        c.api().post(&path, fixtures::config_map(name)).await.expect(201)
    };
    for ns in &spaces {
        create(ns, "early").await;
    }
    let maps: Cache<Map> = f.caches.of(&MAPS);
    let mut changes = maps.subscribe();
    soon("the cache syncs", maps.synced()).await;
    assert_eq!(f.process.requests("LIST"), 2, "one each");
    for ns in spaces.iter().rev() {
        create(ns, "late").await;
    }
    let mut lines = Vec::new();
    for _ in 0..4 {
        let delta = next_delta(&mut changes).await;
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
