//! Handover of hollow-kubelet between processes. It simulates the nodes of the whole cluster: one test at a time.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Program, Test, fixtures, test, time};
use tokio::sync::Mutex;

use crate::QUIET;
use crate::pair::{self, Pair, leads, one_at_a_time};

const FLAGS: [&str; 1] = ["--controllers=hollow-kubelet"];
const NODES: &str = "/api/v1/nodes";
/// Number of handovers.
const ROUNDS: usize = 3;
/// Held by the test whose processes simulate the nodes.
static NODES_LOCK: Mutex<()> = Mutex::const_new(());

pub fn tests() -> Vec<Test> {
    vec![
        test!(leader_hands_over_on_sigterm),
        test!(hollow_kubelet_does_not_start_beside_a_foreign_node),
    ]
}

/// Creates a pod, on a node or unbound, and returns its path.
async fn create(c: &Cluster, ns: &str, name: &str, node: Option<&Value>) -> String {
    let pods = fixtures::core(ns, "pods");
    let pod = fixtures::with(fixtures::pod(name), json!({"spec": {"nodeName": node}}));
    c.api().post(&pods, pod).await.expect(201);
    format!("{pods}/{name}")
}

async fn becomes_ready(c: &Cluster, path: &str) {
    let ready = time::within(time::ANSWER, async {
        while !is_ready(&c.api().get(path).await.expect(200)) {
            time::pause(Duration::from_millis(5)).await;
        }
    });
    assert!(ready.await.is_some(), "{}", c.api().get(path).await);
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// The metric of running controllers.
async fn running(program: &Program) -> Option<f64> {
    let series = "running_managed_controllers{manager=\"steersman\",name=\"hollow-kubelet\"}";
    program.metric(series).await
}

/// Whether a process has sent a PATCH.
async fn patches(program: &Program) -> bool {
    let metrics = program.endpoints().get("/metrics").await.text();
    let mut requests = metrics
        .lines()
        .filter(|line| line.starts_with("rest_client_requests_total{"));
    requests.any(|line| line.contains("method=\"PATCH\""))
}

/// The delay is asserted with a paused clock in `controllers/tests/suite/managers`.
async fn leader_hands_over_on_sigterm(c: Cluster) {
    let _quiet = QUIET.read().await;
    let _nodes = NODES_LOCK.lock().await;
    let (mut led, mut wrote) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let times = Box::pin(hand_over(&c)).await;
        led.push(times.0);
        wrote.push(times.1);
    }
    time::print_distribution("SIGTERM until the standby leads", &led);
    time::print_distribution("SIGTERM until the standby's first pod is ready", &wrote);
}

/// Stops a leader and returns the times until the standby leads and until its first pod is ready.
async fn hand_over(c: &Cluster) -> (Duration, Duration) {
    let ns = c.namespace().await;
    let Pair {
        leader,
        standby,
        lease,
    } = Pair::start(c, &ns, &FLAGS).await;
    let first = create(c, &ns, "first", None).await;
    becomes_ready(c, &first).await;
    let node = c.api().get(&first).await.expect(200)["spec"]["nodeName"].take();
    for path in ["/livez", "/readyz", "/healthz"] {
        let reply = standby.endpoints().get(path).await;
        assert_eq!(reply.status, 200, "{reply}");
    }
    assert_eq!(
        (running(&leader).await, running(&standby).await),
        (Some(1.0), Some(0.0))
    );

    assert!(!patches(&standby).await, "a standby writes");

    let handover = one_at_a_time(&leader, &standby, &lease, async {
        let signalled = leader.signal(Signal::TERM);
        // From here on the leader sends no writes: the successor gets this pod. "Stopping" is logged before the workers stop.
        leader.logs("\"Stopped\"").await;
        // It is bound already: a binding times out after three seconds, and its unknown outcome prevents the release below.
        let second = create(c, &ns, "second", Some(&node)).await;
        let led = async {
            leads(&standby, &lease).await;
            signalled.elapsed()
        };
        let wrote = async {
            becomes_ready(c, &second).await;
            signalled.elapsed()
        };
        futures_util::future::join(led, wrote).await
    });
    let (led, wrote) = Box::pin(handover).await;
    // The pod can be ready before the response to the write has arrived and is counted.
    let counted = time::eventually(time::ANSWER, async || patches(&standby).await.then_some(()));
    assert!(counted.await.is_some(), "the standby wrote nothing");
    assert_eq!(running(&standby).await, Some(1.0));
    standby.signal(Signal::TERM);
    for program in [leader, standby] {
        let ended = program.ends_within(time::ANSWER).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    assert_eq!(
        lease.spec().await["holderIdentity"].as_str().unwrap_or_default(),
        ""
    );
    (led, wrote)
}

async fn hollow_kubelet_does_not_start_beside_a_foreign_node(c: Cluster) {
    let _quiet = QUIET.read().await;
    let _nodes = NODES_LOCK.lock().await;
    let ns = c.namespace().await;
    c.api()
        .post(NODES, fixtures::named("v1", "Node", "foreign"))
        .await
        .expect(201);
    let path = create(&c, &ns, "unbound", None).await;
    let program = pair::start(&c, &ns, &FLAGS).await;
    let unhealthy = time::eventually(time::ANSWER, async || {
        let reply = program.endpoints().get("/healthz/hollow-kubelet").await;
        (reply.status == 500).then(|| reply.text())
    });
    let reason = unhealthy
        .await
        .unwrap_or_else(|| panic!("healthy:\n{}", program.log()));
    for words in [
        "node foreign",
        "--controllers",
        "sandbox.steersman.dev/hollow=true",
    ] {
        assert!(reason.contains(words), "{reason}");
    }
    // The summary of all checks does not contain the reason.
    let all = program.endpoints().get("/healthz?verbose").await;
    assert!(
        all.text().contains("[-]hollow-kubelet failed: reason withheld\n"),
        "{all}"
    );
    assert_eq!(program.endpoints().get("/readyz").await.status, 200);

    time::pause(Duration::from_secs(1)).await;
    let pod = c.api().get(&path).await.expect(200);
    assert!(pod["spec"]["nodeName"].is_null(), "{pod:#}");
    program.signal(Signal::TERM);
    let ended = program.ends_within(time::ANSWER).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    c.api().delete(&format!("{NODES}/foreign"), ()).await.expect(200);
}
