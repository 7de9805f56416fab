//! A Deployment with a long history of large templates.

use serde_json::{Value, json};

use super::super::Load;
use super::super::cluster::reference;
use super::{TENANT, deployment, path, replica_set, work};

/// The empty arguments of a container in an object of 1.5 MB. In JSON, each one takes three bytes.
const ARGS: usize = 700_000;
const CHANGES: u64 = 10;
/// Bound on the bytes that a change of the Deployment makes the product allocate, whatever the size of the history is.
const CHANGE_BYTES: u64 = 1 << 20;
/// Bound on the heap bytes of a `ReplicaSet`: its template is not kept.
const BYTES: u64 = 64 << 10;
/// Bound on the heap bytes of objects that are being decoded.
const DECODED_BYTES: u64 = 16 << 20;

pub(super) async fn run(load: &mut Load) {
    load.prepare_hostile().await;
    let count = load.scaled(60);
    let cluster = load.cluster.clone();
    let (deployments, sets) = (path("deployments", TENANT), path("replicasets", TENANT));
    let mut web = deployment("web");
    web["spec"]["revisionHistoryLimit"] = json!(i32::MAX);
    let uid = cluster.create(&deployments, || web).await;
    let mut owner = reference("apps/v1", "Deployment", "web", &uid);
    owner[0]["controller"] = json!(true);
    for n in 0..count {
        let make = || {
            let mut set = replica_set("web", &Value::from(vec![""; ARGS]));
            set["metadata"] =
                json!({"name": format!("web-{n}"), "labels": {"app": "web"}, "ownerReferences": owner});
            set["spec"]["template"]["spec"]["containers"][0]["image"] =
                json!(format!("registry.example/web:{n}-old"));
            set
        };
        cluster.create(&sets, make).await;
    }
    load.memory_limit = count * BYTES + DECODED_BYTES;
    load.start_hostile_with(&[("replicasets", count + 1)]).await;
    load.bound_poll("start");
    let before = work();
    for change in 0..CHANGES {
        let seconds = json!({"spec": {"minReadySeconds": change + 1}});
        cluster.patch(&format!("{deployments}/web"), &seconds).await;
        if change == 1 {
            load.serve_other("db").await;
        }
        load.sleep(std::time::Duration::from_secs(2)).await;
    }
    load.settle("changes").await;
    load.bound_allocated("changes of the Deployment", before, CHANGES * CHANGE_BYTES);
    load.bound_poll("changes");
}
