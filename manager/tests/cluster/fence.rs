//! The leader fence on a real server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_harness::fixtures::MERGE;
use steersman_harness::{Cluster, Test, fixtures, test};
use steersman_manager::client::{ClientError, Delete, Patch};
use steersman_manager::object::{Key, Resource, Uid};

use crate::candidate::{self, Candidate};

pub fn tests() -> Vec<Test> {
    vec![
        test!(write_of_an_old_term_is_not_sent),
        test!(write_after_release_is_not_sent),
    ]
}

async fn write_of_an_old_term_is_not_sent(c: Cluster) {
    let ns = c.namespace().await;
    let path = fixtures::core(&ns, "configmaps");
    c.api().post(&path, fixtures::config_map("a")).await.expect(201);
    let mut a = Candidate::short(&c, &ns).await;
    let (old, _) = a.leads().await;
    a.watching().await;
    let maps = Resource::of::<ConfigMap>();
    let key = Key::new(ns.as_str(), "a");
    let (client, fence) = (a.process.transport.reader("worker", None), a.fence.clone());
    // Conditional: the deadline of other writes is three seconds.
    let write = async |term, value: &str| {
        let now = c.api().get(&format!("{path}/a")).await.expect(200);
        let version = &now["metadata"]["resourceVersion"];
        let change = Patch::merge(&json!({"metadata": {"resourceVersion": version}, "data": {"k": value}}));
        let client = client.in_term(&fence, term);
        client.patch::<Value>(&maps, &key, change).await
    };
    write(old, "first").await.expect("it is the leader");

    let intruder = json!({"spec": {"holderIdentity": "intruder"}});
    c.api()
        .patch(&candidate::path(&ns), MERGE, intruder)
        .await
        .expect(200);
    a.steps_down().await;
    let before = c.api().get(&format!("{path}/a")).await.expect(200);
    let sent = a.process.requests("PATCH");
    let rejected = write(old, "old").await.expect_err("the term is over");
    assert!(matches!(rejected, ClientError::Fenced { .. }), "{rejected}");
    let deleted = client
        .in_term(&fence, old)
        .delete(
            &maps,
            &key,
            &Delete::of(Uid::from(before["metadata"]["uid"].as_str().expect("a uid"))),
        )
        .await;
    assert!(matches!(deleted, Err(ClientError::Fenced { .. })), "{deleted:?}");
    assert_eq!(c.api().get(&format!("{path}/a")).await.expect(200), before);
    assert_eq!(
        (a.process.requests("PATCH"), a.process.requests("DELETE")),
        (sent, 0)
    );

    let (new, _) = a.leads().await;
    let rejected = write(old, "old").await.expect_err("the term is over");
    assert!(matches!(rejected, ClientError::Fenced { .. }), "{rejected}");
    let written = write(new, "new").await.expect("it is the leader again");
    assert_eq!(written["data"]["k"], "new");
}

async fn write_after_release_is_not_sent(c: Cluster) {
    let ns = c.namespace().await;
    let path = fixtures::core(&ns, "configmaps");
    let mut a = Candidate::steady(&c, &ns).await;
    let (term, _) = a.leads().await;
    let fence = a.fence.clone();
    let process = a.release(term, BTreeMap::new()).await;
    let client = process.transport.reader("worker", None).in_term(&fence, term);
    let body = fixtures::config_map("late").to_string();
    let rejected = client
        .create::<Value>(&Resource::of::<ConfigMap>(), &ns, body.into())
        .await;
    assert!(
        matches!(rejected, Err(ClientError::Fenced { .. })),
        "{rejected:?}"
    );
    c.api()
        .get(&format!("{path}/late"))
        .await
        .expect_error(404, "NotFound");
}
