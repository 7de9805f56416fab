//! Concurrent writes: exactly one of several conflicting writes succeeds, and no other write is lost.

use futures_util::future::join_all;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Reply, Test, test};

use crate::support::{
    JSON_PATCH, MERGE, config_map, core, finalizers, held, lines, names, object, version, with,
};

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

/// Adds the number of a writer to the data of a body.
fn by(body: Value, index: usize) -> Value {
    with(body, json!({"data": {"by": index.to_string()}}))
}

/// Asserts that one write has succeeded, that its answer is the stored object, and that the others have failed with this reason.
async fn expect_one_success(c: &Cluster, path: &str, replies: &[Reply], success: u16, reason: &str) {
    let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == success);
    for reply in lost {
        reply.expect_error(409, reason);
    }
    let won: Vec<Value> = won.into_iter().map(Reply::json).collect();
    assert_eq!(won, [c.read(path).await]);
}

async fn concurrent_creates_of_one_name_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let replies = join_all((0..MANY).map(|index| c.api().post(&path, by(config_map("a"), index)))).await;
    expect_one_success(&c, &format!("{path}/a"), &replies, 201, "AlreadyExists").await;
}

async fn concurrent_puts_of_one_version_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let path = format!("{path}/a");
    let replies = join_all((0..MANY).map(|index| c.api().put(&path, by(made.clone(), index)))).await;
    expect_one_success(&c, &path, &replies, 200, "Conflict").await;
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
    let from = json!({"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}});
    let replies = join_all((0..MANY).map(|index| c.api().patch(&path, MERGE, by(from.clone(), index)))).await;
    expect_one_success(&c, &path, &replies, 200, "Conflict").await;
}

/// Sends concurrent deletions of the object `a`, and then creates `b`. Returns the replies and two events since `made`.
async fn deleted(c: &Cluster, path: &str, made: &Value) -> (Vec<Reply>, Vec<String>) {
    let query = format!("{path}?watch=1&resourceVersion={}", version(made));
    let mut watch = c.api().watch(&query).await;
    let object = format!("{path}/a");
    let replies = join_all((0..MANY).map(|_| c.api().delete(&object, ()))).await;
    c.create(path, &config_map("b")).await;
    (replies, lines(&mut watch, 2).await)
}

async fn concurrent_deletions_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &config_map("a")).await;
    let (replies, events) = deleted(&c, &path, &made).await;
    assert_eq!((count(&replies, 200), count(&replies, 404)), (1, MANY - 1));
    c.expect_absent(&format!("{path}/a")).await;
    assert_eq!(events, ["DELETED a", "ADDED b"]);
}

async fn concurrent_deletions_with_finalizer_return_same_object(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.create(&path, &held(config_map("a"))).await;
    let (replies, events) = deleted(&c, &path, &made).await;
    let first = replies[0].expect(200);
    for reply in &replies {
        assert_eq!(reply.expect(200), first);
    }
    assert_eq!(events, ["MODIFIED a", "ADDED b"]);
}

/// Each client removes its own finalizer and retries after a conflict. The last removal deletes the object.
async fn concurrent_finalizer_removals_all_succeed(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let own: Vec<_> = (0..5).map(|index| format!("example.com/{index}")).collect();
    let object = with(config_map("a"), json!({"metadata": {"finalizers": own}}));
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
    let object = with(
        config_map("a"),
        json!({"metadata": {"name": null, "generateName": "g-"}}),
    );
    let replies = join_all((0..MANY).map(|_| c.api().post(&path, &object))).await;
    assert_eq!(count(&replies, 201), MANY);
    let list = c.read(&path).await;
    assert_eq!(names(&list).len(), MANY);
}

async fn concurrent_requests_for_cluster_ip_succeed_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let service = |name: String, spec: Value| with(object("v1", "Service", &name), json!({ "spec": spec }));
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
