//! Concurrent writes during webhook calls: no write is lost, and a changed object is reviewed again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use steersman_harness::fixtures::{MERGE, config_map, core, service, with};
use steersman_harness::webhook::{Response, allow, change, deny};
use steersman_harness::{Cluster, Need, Test, test};

use super::hooked;
use crate::support::soon;

pub fn tests() -> Vec<Test> {
    vec![
        test!(concurrent_patches_are_all_applied),
        test!(concurrent_updates_of_one_version_conflict),
        test!(deletion_of_changed_object_is_reviewed_again),
        test!(concurrent_services_get_distinct_addresses),
        test!(requested_cluster_ip_is_allocated_once),
        test!(requested_node_port_is_allocated_once),
        // A real server reserves an address before it calls webhooks.
        test!(taken_cluster_ip_is_replaced_and_reviewed_again).needs(Need::Sandbox),
    ]
}

/// More patches than the server retries without webhooks.
async fn concurrent_patches_are_all_applied(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| allow()).await;
    let all = core(&ns, "configmaps");
    c.create(&all, config_map("a")).await;
    let path = &format!("{all}/a");
    let keys: Vec<String> = (0..24).map(|n| format!("k{n}")).collect();
    let patches = keys.iter().map(|key| {
        let body = json!({"data": {key.as_str(): "v"}});
        c.api().patch(path, MERGE, body)
    });
    for reply in join_all(patches).await {
        reply.expect(200);
    }
    let object = c.read(path).await;
    assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(25));
}

async fn concurrent_updates_of_one_version_conflict(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Validating", &["configmaps"], |_| allow()).await;
    let all = core(&ns, "configmaps");
    let made = c.create(&all, config_map("a")).await;
    let path = &format!("{all}/a");
    let puts = (0..6).map(|n| {
        let object = with(made.clone(), json!({"data": {"k": n.to_string()}}));
        c.api().put(path, object)
    });
    let replies = join_all(puts).await;
    let won = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(won, 1);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        reply.expect_error(409, "Conflict");
    }
}

/// The webhook denies the deletion of labelled objects.
async fn deletion_of_changed_object_is_reviewed_again(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Validating", &["configmaps"], |request| {
        let keep = request["oldObject"]["metadata"]["labels"]["keep"] == "yes";
        if request["operation"] == "DELETE" && keep {
            deny(&json!({"code": 403, "message": "protected"}))
        } else {
            allow()
        }
    })
    .await;
    let all = &core(&ns, "configmaps");
    for round in 0..12 {
        let name = format!("a{round}");
        let path = &format!("{all}/{name}");
        c.create(all, config_map(&name)).await;
        let label = json!({"metadata": {"labels": {"keep": "yes"}}});
        let (labelled, deleted) =
            futures_util::future::join(c.api().patch(path, MERGE, label), c.api().delete(path, ())).await;
        match (labelled.status, deleted.status) {
            (200, 403) => assert_eq!(c.api().get(path).await.status, 200),
            // The object is deleted. The patch finds no object, or conflicts.
            (404 | 409, 200) => assert_eq!(c.api().get(path).await.status, 404),
            other => panic!("{other:?}\n{labelled}\n{deleted}"),
        }
    }
}

async fn concurrent_services_get_distinct_addresses(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["services"], |_| {
        change(&json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
    })
    .await;
    let path = &core(&ns, "services");
    let creates = (0..12).map(|n| {
        let object = with(service(&format!("s{n}")), json!({"spec": {"type": "NodePort"}}));
        c.api().post(path, object)
    });
    let mut addresses: Vec<Value> = Vec::new();
    let mut ports: Vec<Value> = Vec::new();
    for reply in join_all(creates).await {
        let made = reply.expect(201);
        assert_eq!(made["metadata"]["labels"], json!({"a": "b"}));
        addresses.push(made["spec"]["clusterIP"].clone());
        ports.push(made["spec"]["ports"][0]["nodePort"].clone());
    }
    for mut given in [addresses, ports] {
        given.sort_by_key(ToString::to_string);
        given.dedup();
        assert_eq!(given.len(), 12);
    }
}

async fn requested_cluster_ip_is_allocated_once(c: Cluster) {
    allocated_once(&c, json!({}), |spec| json!({"clusterIP": spec["clusterIP"]})).await;
}

async fn requested_node_port_is_allocated_once(c: Cluster) {
    allocated_once(&c, json!({"type": "NodePort"}), |spec| {
        let ports = json!([{"port": 80, "nodePort": spec["ports"][0]["nodePort"]}]);
        json!({"type": "NodePort", "ports": ports})
    })
    .await;
}

/// The webhook delays all requests, so that they are reviewed before the first one is stored.
async fn allocated_once(c: &Cluster, probe: Value, choose: fn(&Value) -> Value) {
    let (ns, _webhook) = hooked(c, "Validating", &["services"], |_| {
        Response::Late(Duration::from_millis(200), json!({"allowed": true}))
    })
    .await;
    let path = &core(&ns, "services");
    let named = |name: &str, spec: &Value| with(service(name), json!({"spec": spec}));
    // An address or port that is free, independent of the ranges.
    let probe = c.create(path, named("probe", &probe)).await;
    c.delete(&format!("{path}/probe")).await;
    let chosen = choose(&probe["spec"]);
    let creates = (0..8).map(|n| c.api().post(path, named(&format!("s{n}"), &chosen)));
    let replies = join_all(creates).await;
    let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(won.len(), 1);
    for reply in lost {
        reply.expect_error(422, "Invalid");
    }
}

async fn taken_cluster_ip_is_replaced_and_reviewed_again(c: Cluster) {
    // Only the first answer is delayed, so that the other Service is stored first.
    let calls = AtomicUsize::new(0);
    let (ns, webhook) = hooked(&c, "Validating", &["services"], move |_| {
        match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Response::Late(Duration::from_secs(5), json!({"allowed": true})),
            _ => allow(),
        }
    })
    .await;
    let other = c.namespace().await;
    let create = async { c.create(&core(&ns, "services"), service("a")).await };
    let take = async {
        let address = soon("the webhook is called", async || {
            let calls = webhook.calls();
            Some(calls.first()?.request()["object"]["spec"]["clusterIP"].clone())
        })
        .await;
        let taken = with(service("b"), json!({"spec": {"clusterIP": address}}));
        c.create(&core(&other, "services"), taken).await
    };
    let (made, taken) = futures_util::future::join(create, take).await;
    assert_ne!(made["spec"]["clusterIP"], taken["spec"]["clusterIP"]);
    let calls: Vec<Value> = webhook
        .requests()
        .iter()
        .map(|request| request["object"]["spec"]["clusterIP"].clone())
        .collect();
    let (first, second) = (&taken["spec"]["clusterIP"], &made["spec"]["clusterIP"]);
    assert_eq!(
        calls,
        [first.clone(), second.clone()],
        "the second address was reviewed too"
    );
}
