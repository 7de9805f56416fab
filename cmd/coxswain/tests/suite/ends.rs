//! Signals: the first one ends it in order, the second one at once.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_tests::{Api, Program, endpoint, fixtures, program, sandbox as server, time};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::PROGRAM;
use crate::proxy::Proxy;
use crate::sandbox;

/// How long an end may take on a busy machine. What must not hold it up would do so for longer.
const SOON: Duration = Duration::from_mins(1);

#[tokio::test]
async fn either_signal_ends_it_in_order() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let program = sandbox::start(&[]).await;
        sandbox::works(&program).await;
        program.signal(signal);
        let ended = program.ends_within(SOON).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(
            ended.stderr.contains(&format!("\"Stopping\" signal=\"{name}\"")),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.trim_end().ends_with("\"Stopped\""),
            "{}",
            ended.stderr
        );
        assert!(ended.left.is_empty(), "left {:?}", ended.left);
    }
}

#[tokio::test]
async fn a_signal_right_after_the_start_ends_it_too() {
    let program = Program::start(PROGRAM, &["--sandbox"]).await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(SOON).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
}

/// The API server sends reviews until it sees that the pod has left the Service.
#[tokio::test]
async fn webhooks_are_served_for_a_while_after_the_manager_has_ended() {
    let webhooks = program::free_address();
    let program = sandbox::start(&[&format!("--webhook-port={}", webhooks.port())]).await;
    sandbox::works(&program).await;
    program.signal(Signal::TERM);
    program
        .logs("\"Serving webhooks until the Service has dropped this pod\"")
        .await;
    assert!(program.log().contains("\"Stopped leading\""), "{}", program.log());
    TcpStream::connect(webhooks).await.expect("the port is open");
    let ended = program.ends_within(time::ANSWER).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.trim_end().ends_with("\"Stopped\""),
        "{}",
        ended.stderr
    );
}

/// A program whose write does not arrive, so that it cannot finish what it is at.
struct Stuck {
    program: Program,
    _proxy: Proxy,
    _files: TempDir,
}

impl Stuck {
    async fn start(arguments: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let mut endpoint = server::start(BTreeMap::new()).await.expect("a server");
        let direct = files.path().join("direct");
        endpoint.write_kubeconfig(&direct).expect("a file");
        let api = Api::new(endpoint::client(&direct).await.expect("a client"));

        let address = endpoint.url.strip_prefix("https://").expect("a URL");
        let proxy = Proxy::start(address.parse().expect("an address")).await;
        endpoint.url = format!("https://{}", proxy.address);
        let through = files.path().join("through");
        endpoint.write_kubeconfig(&through).expect("a file");
        let kubeconfig = format!("--kubeconfig={}", through.display());
        let own = [
            kubeconfig.as_str(),
            "--controllers=hollow-kubelet",
            // Its lease cannot be renewed any more, either, and that must not be what ends it.
            "--leader-elect-lease-duration=20m",
            "--leader-elect-renew-deadline=15m",
        ];
        let arguments = [&own, arguments].concat();
        let program = Program::start(PROGRAM, &arguments).await;

        let pods = fixtures::core("default", "pods");
        api.post(&pods, fixtures::pod("first")).await.expect(201);
        sandbox::becomes(&api, "first", sandbox::is_ready).await;
        let first = api.get(&format!("{pods}/first")).await.expect(200);
        proxy.cut();
        // On a node already: what is left to write is its status, and an answer to that is waited for longer than these tests
        // take. To put it on a node takes three seconds at most.
        let second = json!({"spec": {"nodeName": first["spec"]["nodeName"]}});
        let second = fixtures::with(fixtures::pod("second"), second);
        api.post(&pods, second).await.expect(201);
        // So long that it is at nothing else any more.
        let at_it = time::eventually(time::ANSWER, async || {
            let so_far = "workqueue_longest_running_processor_seconds{name=\"hollow-kubelet\"}";
            (program.metric(so_far).await > Some(1.0)).then_some(())
        });
        assert!(at_it.await.is_some(), "{}", program.log());
        Self {
            program,
            _proxy: proxy,
            _files: files,
        }
    }
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    // It says after a third of it whom it waits for.
    let stuck = Stuck::start(&["--controller-shutdown-timeout=15s"]).await;
    stuck.program.signal(Signal::TERM);
    let waits = "\"Waiting for controllers to stop\" controllers=\"hollow-kubelet (default/second)\"";
    stuck.program.logs(waits).await;
    stuck.program.signal(Signal::INT);
    let ended = stuck.program.ends_within(SOON).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for line in [
        "\"Stopping at once, the lease is left to expire\" signal=\"SIGINT\"",
        "second signal",
    ] {
        assert!(ended.stderr.contains(line), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn controllers_that_do_not_stop_in_time_are_named() {
    let stuck = Stuck::start(&["--controller-shutdown-timeout=500ms"]).await;
    stuck.program.signal(Signal::TERM);
    let ended = stuck.program.ends_within(SOON).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = "controller shutdown timeout reached, still running: hollow-kubelet (default/second)";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}

/// A client that has connected and sends nothing delays an orderly end, which exits with 0 and logs "Stopped". The second
/// signal follows at once, so that it does not come too late; it is another one, as two of the same may arrive as one.
#[tokio::test]
async fn second_signal_does_not_wait_for_clients() {
    let program = sandbox::start(&[]).await;
    sandbox::works(&program).await;
    let url = sandbox::greeting_says(&program.stdout(), "API server:");
    let address = url.strip_prefix("https://").expect("a URL");
    let _silent = TcpStream::connect(address).await.expect("a connection");
    program.signal(Signal::TERM);
    program.signal(Signal::INT);
    let ended = program.ends_within(SOON).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("second signal"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("\"Stopped\""), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
}
