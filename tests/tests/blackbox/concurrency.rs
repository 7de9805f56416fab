//! Concurrent writes: exactly one of several conflicting writes succeeds, and no other write is lost.

use coxswain_tests::{Cluster, Reply, Test, test};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{JSON_PATCH, MERGE, config_map, core, finalizers, held, object, version, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(concurrent_creates_of_one_name_succeed_once),
        test!(concurrent_puts_of_one_version_succeed_once),
        test!(concurrent_merge_patches_are_applied_or_conflict),
        test!(concurrent_patches_with_version_succeed_once),
        test!(concurrent_deletions_succeed_once),
        test!(concurrent_deletions_with_finalizer_return_same_object),
        test!(concurrent_finalizer_removals_all_succeed),
        test!(concurrent_generated_names_differ),
        test!(concurrent_requests_for_cluster_ip_succeed_once),
    ]
}

const MANY: usize = 20;

fn count(replies: &[Reply], status: u16) -> usize {
    replies.iter().filter(|reply| reply.status == status).count()
}

async fn concurrent_creates_of_one_name_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let objects = (0..MANY).map(|index| with(config_map("a"), "/data", json!({"by": index.to_string()})));
    let replies = join_all(objects.map(|object| c.api().post(&path, object))).await;
    assert_eq!((count(&replies, 201), count(&replies, 409)), (1, MANY - 1));
    for reply in &replies {
        if reply.status == 409 {
            reply.expect_error(409, "AlreadyExists");
        }
    }
    let winner = replies.iter().find(|reply| reply.status == 201);
    let stored = c.read(&format!("{path}/a")).await;
    assert_eq!(winner.map(Reply::json), Some(stored));
}

async fn concurrent_puts_of_one_version_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let path = format!("{path}/a");
    let objects = (0..MANY).map(|index| with(made.clone(), "/data", json!({"by": index.to_string()})));
    let replies = join_all(objects.map(|object| c.api().put(&path, object))).await;
    assert_eq!((count(&replies, 200), count(&replies, 409)), (1, MANY - 1));
    for reply in &replies {
        if reply.status == 409 {
            reply.expect_error(409, "Conflict");
        }
    }
    let winner = replies.iter().find(|reply| reply.status == 200);
    let stored = c.read(&path).await;
    assert_eq!(winner.map(Reply::json), Some(stored));
}

/// The server retries a patch that conflicts five times.
async fn concurrent_merge_patches_are_applied_or_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    c.create(&path, &config_map("a")).await;
    let path = format!("{path}/a");
    let changes = (0..MANY).map(|index| json!({"data": {format!("k{index}"): "v"}}));
    let replies = join_all(changes.map(|change| c.api().patch(&path, MERGE, change))).await;
    let done = count(&replies, 200);
    assert!(done > 0);
    assert_eq!(done + count(&replies, 409), MANY);
    let stored = c.read(&path).await;
    let data = stored["data"].as_object().expect("data");
    assert_eq!(data.len(), done);
    for (index, reply) in replies.iter().enumerate() {
        assert_eq!(data.contains_key(&format!("k{index}")), reply.status == 200);
    }
}

async fn concurrent_patches_with_version_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let path = format!("{path}/a");
    let from = made["metadata"]["resourceVersion"].clone();
    let changes = (0..MANY)
        .map(|index| json!({"metadata": {"resourceVersion": from}, "data": {"by": index.to_string()}}));
    let replies = join_all(changes.map(|change| c.api().patch(&path, MERGE, change))).await;
    assert_eq!((count(&replies, 200), count(&replies, 409)), (1, MANY - 1));
}

async fn concurrent_deletions_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let query = format!("{path}?watch=1&resourceVersion={}", version(&made));
    let mut watch = c.api().watch(&query).await;
    let object = format!("{path}/a");
    let replies = join_all((0..MANY).map(|_| c.api().delete(&object, ()))).await;
    assert_eq!((count(&replies, 200), count(&replies, 404)), (1, MANY - 1));
    c.expect_absent(&object).await;
    c.create(&path, &config_map("b")).await;
    let lines = crate::support::lines(&mut watch, 2).await;
    assert_eq!(lines, ["DELETED a", "ADDED b"]);
}

async fn concurrent_deletions_with_finalizer_return_same_object(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &held(config_map("a"))).await;
    let query = format!("{path}?watch=1&resourceVersion={}", version(&made));
    let mut watch = c.api().watch(&query).await;
    let object = format!("{path}/a");
    let replies = join_all((0..MANY).map(|_| c.api().delete(&object, ()))).await;
    let first = replies[0].expect(200);
    for reply in &replies {
        assert_eq!(reply.expect(200), first);
    }
    c.create(&path, &config_map("b")).await;
    let lines = crate::support::lines(&mut watch, 2).await;
    assert_eq!(lines, ["MODIFIED a", "ADDED b"]);
}

/// Each client removes its own finalizer and retries after a conflict. The last removal deletes the object.
async fn concurrent_finalizer_removals_all_succeed(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let own: Vec<_> = (0..5).map(|index| format!("example.com/{index}")).collect();
    let object = with(config_map("a"), "/metadata/finalizers", json!(own));
    c.create(&path, &object).await;
    let path = format!("{path}/a");
    c.delete(&path).await;
    let remove = async |mine: &str| {
        loop {
            let reply = c.api().get(&path).await;
            assert!(reply.status != 404, "deleted before {mine} was removed");
            let object = reply.expect(200);
            let at = finalizers(&object).iter().position(|f| *f == mine);
            let at = at.unwrap_or_else(|| panic!("another client removed {mine}"));
            let place = format!("/metadata/finalizers/{at}");
            let change =
                json!([{"op": "test", "path": place, "value": mine}, {"op": "remove", "path": place}]);
            let reply = c.api().patch(&path, JSON_PATCH, change).await;
            match reply.status {
                200 => break,
                // A concurrent removal moved the finalizer (422), or the server gave up (409).
                409 | 422 => {}
                _ => panic!("{reply}"),
            }
        }
    };
    join_all(own.iter().map(|mine| remove(mine))).await;
    c.expect_absent(&path).await;
}

async fn concurrent_generated_names_differ(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let object = with(config_map("a"), "/metadata", json!({"generateName": "g-"}));
    let replies = join_all((0..MANY).map(|_| c.api().post(&path, &object))).await;
    assert_eq!(count(&replies, 201), MANY);
    let list = c.read(&path).await;
    assert_eq!(crate::support::names(&list).len(), MANY);
}

async fn concurrent_requests_for_cluster_ip_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let service = |name: String, spec: Value| with(object("v1", "Service", &name), "/spec", spec);
    let ports = json!([{"port": 80}]);
    // An address that is free, independent of the range.
    let probe = c
        .create(&path, &service("probe".to_owned(), json!({"ports": ports})))
        .await;
    let address = &probe["spec"]["clusterIP"];
    c.delete(&format!("{path}/probe")).await;
    let all =
        (0..MANY).map(|index| service(format!("s{index}"), json!({"ports": ports, "clusterIP": address})));
    let replies = join_all(all.map(|object| c.api().post(&path, object))).await;
    assert_eq!((count(&replies, 201), count(&replies, 422)), (1, MANY - 1));
}
