//! Writes: invalid headers, deep objects, deletion times and concurrent writers.

use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{MAPS, create, delete, get, patch, post, sandbox, send, version, watch};
use crate::definitions::{WIDGETS, define, widget, widgets};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn pod(api_service: &steersman_sandbox::ApiService, name: &str) {
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let (status, answer) = post(api_service, PODS, &pod).await;
    assert_eq!(status, 201, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn invalid_quality_does_not_panic() {
    let api_service = sandbox().service();
    for stride in 2..12 {
        let accept: Vec<String> = (0..200)
            .map(|n| match n % stride {
                0 => "application/json;q=NaN".to_owned(),
                _ => format!("application/json;q=0.{}", (n * 7919) % 1000),
            })
            .collect();
        let request = http::Request::get(MAPS)
            .header("accept", accept.join(","))
            .body(http_body_util::Full::new(bytes::Bytes::new()))
            .expect("a request");
        let Ok(answer) = tower_service::Service::call(&mut api_service.clone(), request).await;
        assert_ne!(answer.status(), 500, "stride {stride}");
    }
}

#[tokio::test(start_paused = true)]
async fn deeply_nested_object_can_be_updated_and_deleted() {
    let api_service = sandbox().service();
    define(&api_service, &widgets()).await;
    let mut accepted = 0;
    for depth in 100..140 {
        let name = format!("w{depth}");
        let nested = (0..depth).fold(json!(1), |inner, _| json!({"a": inner}));
        let mut object = widget(&name);
        object["metadata"]["finalizers"] = json!(["x.io/f"]);
        object["spec"] = nested;
        let (status, _) = post(&api_service, WIDGETS, &object).await;
        if status != 201 {
            continue;
        }
        accepted += 1;
        let one = format!("{WIDGETS}/{name}");
        let (status, answer) = patch(&api_service, &one, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(status, 200, "depth {depth}: {answer}");
        delete(&api_service, &one).await;
        assert_eq!(
            get(&api_service, &one).await.0,
            200,
            "depth {depth}: the finalizer blocks the deletion"
        );
    }
    assert!((1..40).contains(&accepted), "{accepted}");
}

#[tokio::test(start_paused = true)]
async fn busy_watch_ends_at_its_timeout() {
    let sandbox = sandbox();
    let api_service = sandbox.service();
    let mut events = watch(
        &api_service,
        &format!(
            "{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={}",
            sandbox.revision()
        ),
    )
    .await;
    for n in 0..60 {
        create(&api_service, &format!("m-{n}")).await;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        if events.brief().await.is_none() {
            return;
        }
    }
    panic!("the watch is open after a minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn namespace_is_deleted_under_concurrent_writes() {
    for round in 0..40 {
        let api_service = sandbox().service();
        post(
            &api_service,
            "/api/v1/namespaces",
            &json!({"metadata": {"name": "n"}}),
        )
        .await;
        let path = "/api/v1/namespaces/n/configmaps";
        post(&api_service, path, &json!({"metadata": {"name": "m"}})).await;
        let (started, mut running) = tokio::sync::mpsc::channel(4);
        let mut writers = JoinSet::new();
        for w in 0..4 {
            let (api_service, started) = (api_service.clone(), started.clone());
            writers.spawn(async move {
                for n in 0..300 {
                    let change = json!({"data": {format!("w{w}"): n.to_string()}});
                    if patch(&api_service, &format!("{path}/m"), &change).await.0 == 404 {
                        return;
                    }
                    let _ = started.try_send(());
                }
            });
        }
        running.recv().await.expect("a write");
        delete(&api_service, "/api/v1/namespaces/n").await;
        writers.join_all().await;
        delete(&api_service, "/api/v1/namespaces/n").await;
        let (status, left) = get(&api_service, "/api/v1/namespaces/n").await;
        assert_eq!(status, 404, "round {round}: {left}");
    }
}

#[tokio::test(start_paused = true)]
async fn second_deletion_keeps_deletion_timestamp() {
    let api_service = sandbox().service();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    post(&api_service, MAPS, &held).await;
    let path = format!("{MAPS}/held");
    let (_, first) = delete(&api_service, &path).await;
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    let foreground = format!("{path}?propagationPolicy=Foreground");
    let (_, second) = delete(&api_service, &foreground).await;
    assert_ne!(version(&first), version(&second), "the policy added a finalizer");
    assert_eq!(
        first["metadata"]["deletionTimestamp"],
        second["metadata"]["deletionTimestamp"]
    );
}

/// A grace period below the elapsed time ends now, and has one second.
#[tokio::test(start_paused = true)]
async fn shortened_grace_period_ends_now() {
    let api_service = sandbox().service();
    pod(&api_service, "p").await;
    let path = format!("{PODS}/p");
    let (_, first) = delete(&api_service, &path).await;
    assert_eq!(first["metadata"]["deletionTimestamp"], "2027-01-15T08:00:30Z");
    tokio::time::advance(std::time::Duration::from_secs(20)).await;
    let (_, second) = send(
        &api_service,
        Method::DELETE,
        &path,
        &json!({"gracePeriodSeconds": 5}),
    )
    .await;
    assert_eq!(second["metadata"]["deletionTimestamp"], "2027-01-15T08:00:20Z");
    assert_eq!(second["metadata"]["deletionGracePeriodSeconds"], 1);
}
