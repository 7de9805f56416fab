//! Determinism: with one seed, every request is the same, at the same time, with the same response.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use steersman_controllers::hollow_kubelet;
use steersman_controllers::registry::{self, EnabledBy, Settings};
use steersman_manager::client::{Delete, RateLimit, Transport};
use steersman_manager::env::{Clock, Env, TaskSet};
use steersman_manager::manager::{Manager, Process};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, MetaObject};
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Faults, Matcher};
use tokio_util::sync::CancellationToken;

use crate::fixture::PODS;

/// Logs each request with its time, user agent, body and status code.
fn log_requests(faults: &Faults, clock: &Clock) -> Arc<Mutex<Vec<String>>> {
    let (clock, log) = (clock.clone(), Arc::default());
    let lines: Arc<Mutex<Vec<String>>> = Arc::clone(&log);
    faults.on(Matcher::any()).around(move |request| {
        let (agent, body) = (
            request.header("user-agent"),
            String::from_utf8_lossy(&request.body),
        );
        let (now, method, uri) = (clock.wall(), &request.method, request.uri());
        let line = format!("{now} {agent} {method} {uri} {body}");
        let lines = lines.clone();
        async move {
            async move |code: u16| {
                lines.lock().expect("no panic").push(format!("{line} -> {code}"));
            }
        }
    });
    log
}

/// Runs a manager with an election, nodes, and pods that run, fail or are deleted; returns the requests.
async fn run(seed: u64) -> Vec<String> {
    let tasks = TaskSet::new();
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
    let env = Env::starting_at(start, seed, &tasks);
    let sandbox = Sandbox::builder()
        .env(steersman_sandbox::Env::starting_at(start, seed))
        .start()
        .expect("a sandbox");
    let faults = Faults::new();
    let log = log_requests(&faults, &env.clock);
    let (service, registry) = (faults.wrap(sandbox.service()), Registry::new("steersman"));
    let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &registry);
    let transport = transport.expect("unregistered metrics");
    let admin = transport.unfenced("admin", None);
    let builder = Manager::builder("steersman")
        .registry(registry)
        .rate_limit(Some(RateLimit { qps: 20.0, burst: 30 }))
        .start_interval(Duration::from_secs(1))
        .shutdown_timeout(Some(Duration::from_secs(10)))
        .leader_election("kube-system", "steersman");
    let built = builder.build(Process::new(&env, transport)).await;
    let mut instance = built.expect("a manager");
    let settings = Settings {
        assume_no_kube_controller_manager: true,
        hollow_kubelet: hollow_kubelet::Options {
            nodes: 3,
            delay: Duration::from_secs(1),
            sandbox: true,
        },
        ..Settings::default()
    };
    registry::host(instance.manager(), |_| Some(EnabledBy::Star), &settings).expect("hosted");
    let stop = CancellationToken::new();
    let running = env.tasks.spawn(instance.run(stop.clone()));

    for i in 0..40 {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{i}")},
            "spec": {"containers": [{"name": "main", "image": "nginx"}]},
        });
        match i % 8 {
            3 => pod["spec"]["containers"][0]["image"] = json!("nginx:404"),
            5 => pod["metadata"]["annotations"] = json!({hollow_kubelet::FAIL: "true"}),
            _ => {}
        }
        let pod: MetaObject = admin
            .create(&PODS, "default", pod.to_string().into())
            .await
            .expect("created");
        env.clock
            .sleep(env.rng.between(Duration::ZERO, Duration::from_secs(3)))
            .await;
        if i % 3 == 0 {
            let key = Key::new("default", format!("pod-{i}"));
            let delete = Delete::of(pod.metadata.uid);
            admin.delete(&PODS, &key, &delete).await.expect("deleted");
        }
    }
    env.clock.sleep(Duration::from_mins(1)).await;
    stop.cancel();
    running.await.expect("no panic").expect("a clean shutdown");
    let log = log.lock().expect("no panic");
    log.clone()
}

#[test]
fn same_seed_gives_the_same_requests() {
    let of_seed = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(seed))
    };
    let (first, second) = (of_seed(7), of_seed(7));
    let differs = first.iter().zip(&second).position(|(a, b)| a != b);
    if let Some(at) = differs {
        panic!("request {at} differs:\n{}\n{}", first[at], second[at]);
    }
    assert_eq!(first.len(), second.len());
    assert!(first.len() > 200, "only {} requests", first.len());
    let bound = first.iter().filter(|line| line.contains("/binding")).count();
    assert!(bound >= 30, "{bound} pods were bound");
    assert_ne!(first, of_seed(8), "another seed gave the same requests");
}
