//! What a leader hands over that was stopped before it had seen what its predecessor wrote.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use bytes::Bytes;
use coxswain_manager::cache::{Cache, Lookup};
use coxswain_manager::client::Delete;
use coxswain_manager::election::{RELEASED_BY_ANNOTATION, WRITTEN_VERSIONS_ANNOTATION};
use coxswain_manager::object::{Key, MetaObject, Resource, Version};
use coxswain_sandbox::{BoxError, Door, ResponseBody, Sandbox};
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tower_service::Service;

use super::probe::{Manners, Probe};
use super::{MAPS, Process, Running, SECOND, sandbox};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");

async fn lease(sandbox: &Sandbox) -> Value {
    let other = Process::new(sandbox.door(), "other");
    let client = other.transport.client("other", None);
    let key = Key::new("kube-system", "coxswain");
    client.get(&LEASES, &key).await.expect("the lease")
}

/// What a lease hands over.
fn versions(lease: &Value) -> BTreeMap<String, String> {
    let versions = lease["metadata"]["annotations"][WRITTEN_VERSIONS_ANNOTATION].as_str();
    serde_json::from_str(versions.expect("versions")).expect("JSON")
}

/// A leader `a` that has written, and a standby `b` whose cache does not show it. Returns the version that was written.
async fn leader_and_blind_standby(sandbox: &Sandbox) -> (Running, Running, Version) {
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let leader = Process::new(sandbox.door(), "a").with(&first);
    let (client, fence) = (leader.manager.client("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    first.started(1).await;
    let door = sandbox.door();
    let standby = Process::new(door.clone(), "b").with(&second);
    let maps: Cache<MetaObject> = standby.manager.caches().of(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    door.lag().hold_at("configmaps", sandbox.revision());
    let term = fence.term().expect("it leads");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let written: Value = client
        .in_term(&fence, term)
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("written");
    let version = written["metadata"]["resourceVersion"].as_str();
    (leader, standby, Version::from(version.expect("a version")))
}

/// Stops the standby as soon as it holds the lease: it is catching up then.
async fn stop_once_it_leads(sandbox: &Sandbox, standby: Running) {
    while lease(sandbox).await["spec"]["holderIdentity"] != "b" {
        standby.env.clock.sleep(SECOND / 10).await;
    }
    standby.env.clock.sleep(SECOND / 10).await;
    standby.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn what_it_was_handed_it_hands_on() {
    let sandbox = sandbox();
    let (leader, standby, written) = leader_and_blind_standby(&sandbox).await;
    leader.stop().await.expect("an orderly end");
    stop_once_it_leads(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
    let versions = versions(&lease);
    let handed_on = Version::from(versions["configmaps"].as_str());
    assert!(handed_on.has_reached(&written), "{handed_on:?} {written:?}");
}

#[tokio::test(start_paused = true)]
async fn what_it_did_not_get_to_see_it_does_not_call_clean() {
    let sandbox = sandbox();
    let (leader, standby, _) = leader_and_blind_standby(&sandbox).await;
    drop(leader.tasks);
    stop_once_it_leads(&sandbox, standby).await;
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "b", "left to expire");
    assert_eq!(
        lease["metadata"]["annotations"][RELEASED_BY_ANNOTATION],
        Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_read_for_its_metadata_only_is_not_handed_over_whatever_was_written() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let leader = Process::new(sandbox.door(), "a").with(&probe);
    let (client, fence) = (leader.manager.client("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    for i in 0..1000 {
        let plural = format!("widgets{i}");
        let metadata = Resource {
            plural: plural.into(),
            ..SECRETS
        };
        let _ = leader.manager.caches().metadata(&metadata);
    }
    let secrets = leader.manager.caches().metadata(&SECRETS);
    let leader = leader.elect();
    probe.started(1).await;
    secrets.synced().await;
    let client = client.in_term(&fence, fence.term().expect("it leads"));
    let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "last"}});
    let written: Result<Value, _> = client.create(&SECRETS, "default", body.to_string().into()).await;
    written.expect("written");
    leader.stop().await.expect("an orderly end");
    let versions = versions(&lease(&sandbox).await);
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["configmaps"]);
}

#[tokio::test(start_paused = true)]
async fn delete_that_is_answered_by_a_status_is_seen_by_the_next_leader() {
    let sandbox = sandbox();
    let (first, second) = (Probe::new(Manners::Stops), Probe::new(Manners::Stops));
    let leader = Process::new(sandbox.door(), "a").with(&first);
    let (client, fence) = (leader.manager.client("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    first.started(1).await;
    let client = client.in_term(&fence, fence.term().expect("it leads"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}});
    let map: MetaObject = client
        .create(&MAPS, "default", body.to_string().into())
        .await
        .expect("created");
    let door = sandbox.door();
    let standby = Process::new(door.clone(), "b").with(&second);
    let maps: Cache<MetaObject> = standby.manager.caches().of(&MAPS);
    let standby = standby.elect();
    maps.synced().await;
    door.lag().hold_at("configmaps", sandbox.revision());
    let key = Key::new("default", "last");
    let delete = Delete::of(map.metadata.uid);
    let answer = client.delete(&MAPS, &key, &delete).await.expect("deleted");
    assert_eq!(answer, None, "the answer is a Status");
    leader.stop().await.expect("an orderly end");
    second.started(1).await;
    assert_eq!(maps.get(&key), Lookup::Absent, "the deletion is in the cache");
    standby.stop().await.expect("an orderly end");
}

#[tokio::test(start_paused = true)]
async fn write_refused_with_an_internal_error_does_not_cost_the_release() {
    let sandbox = sandbox();
    let probe = Probe::new(Manners::Stops);
    let failing = Failing(sandbox.door());
    let leader = Process::over(failing, "a").with(&probe);
    let (client, fence) = (leader.manager.client("probe"), leader.manager.fence().clone());
    let _: Cache<MetaObject> = leader.manager.caches().of(&MAPS);
    let leader = leader.elect();
    probe.started(1).await;
    let client = client.in_term(&fence, fence.term().expect("it leads"));
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let created = client
        .create::<Value>(&MAPS, "default", body.to_string().into())
        .await;
    assert_eq!(created.expect_err("a webhook fails").code(), Some(500));
    leader.stop().await.expect("an orderly end");
    let lease = lease(&sandbox).await;
    assert_eq!(lease["spec"]["holderIdentity"], "", "released");
    assert_eq!(
        versions(&lease).get("configmaps"),
        None,
        "the next leader asks the API server"
    );
}

/// An API server on which a webhook of config maps fails closed.
#[derive(Clone)]
struct Failing(Door);

impl Service<Request<Body>> for Failing {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_map = request.uri().path().ends_with("/configmaps");
        if request.method() != Method::POST || !is_map {
            let answer = self.0.call(request);
            return Box::pin(async { Ok(answer.await?) });
        }
        let status = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError"});
        let body = Full::new(Bytes::from(status.to_string())).boxed_unsync();
        let response = Response::builder().status(500).body(body);
        Box::pin(async { Ok(response?) })
    }
}
