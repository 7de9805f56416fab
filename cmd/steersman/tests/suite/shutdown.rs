//! Signals: the first starts a graceful shutdown, the second stops the process immediately.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use steersman_harness::audit::AuditLog;
use steersman_harness::{Api, Program, endpoint, fixtures, program, sandbox as server, time};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::PROGRAM;
use crate::proxy::Proxy;
use crate::rejections::{exec, kubeconfig};
use crate::sandbox;

/// Bounds a shutdown on a busy machine; a shutdown that is blocked takes longer.
const SHUTDOWN_MAX: Duration = Duration::from_mins(1);

#[tokio::test]
async fn first_signal_shuts_down_gracefully() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let program = sandbox::start(&[]).await;
        sandbox::leads(&program).await;
        program.signal(signal);
        let ended = program.ends_within(SHUTDOWN_MAX).await;
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
async fn signal_during_startup_stops_the_process() {
    let program = Program::start(PROGRAM, &["--sandbox"]).await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(SHUTDOWN_MAX).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
}

#[tokio::test]
async fn signal_during_a_credential_plugin_of_reviews_stops_the_process() {
    let files = tempfile::tempdir().expect("a directory");
    let write = |name: &str, user: &Value| {
        let path = files.path().join(name);
        fs::write(&path, kubeconfig(json!({}), user)).expect("a file");
        path.display().to_string()
    };
    // The plugin runs until the directory is removed.
    let started = files.path().join("started");
    let plugin = format!(
        "echo $PPID > {0}.tmp; mv {0}.tmp {0}; while [ -e {0} ]; do sleep 0.1; done",
        started.display()
    );
    let arguments = [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", program::free_address().port()),
        format!("--kubeconfig={}", write("own", &json!({"token": "a"}))),
        format!("--authentication-kubeconfig={}", write("reviews", &exec(&plugin))),
    ];
    let arguments = arguments.each_ref().map(String::as_str);
    let signal = async {
        let id = time::eventually(time::ANSWER, async || fs::read_to_string(&started).ok()).await;
        let id = id.expect("the plugin starts").trim().parse().expect("a number");
        let id = Pid::from_raw(id).expect("the id of a process");
        rustix::process::kill_process(id, Signal::TERM).expect("a signal to a child of ours");
    };
    let (ended, ()) = tokio::join!(program::run(PROGRAM, &arguments), signal);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// API servers send reviews until they observe that the pod has left the Service.
#[tokio::test]
async fn webhooks_are_served_after_the_manager_has_stopped() {
    let webhooks = program::free_address();
    let program = sandbox::start(&[&format!("--webhook-port={}", webhooks.port())]).await;
    sandbox::leads(&program).await;
    program.signal(Signal::TERM);
    program
        .logs("\"Serving webhooks until the pod has left the Service\"")
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

/// A program with a write in flight that never completes.
struct Stuck {
    program: Program,
    _proxy: Proxy,
    _files: TempDir,
}

impl Stuck {
    async fn start(arguments: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a directory");
        let mut endpoint = server::start(BTreeMap::new(), &AuditLog::default(), false)
            .await
            .expect("a server");
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
            // Renewals do not arrive either; a lost lease must not be the reason for the shutdown.
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
        // The pod is bound already: the write in flight is its status, whose timeout exceeds these tests. A binding times out
        // after three seconds.
        let second = json!({"spec": {"nodeName": first["spec"]["nodeName"]}});
        let second = fixtures::with(fixtures::pod("second"), second);
        api.post(&pods, second).await.expect(201);
        // After a second only that write is in flight. Any reconcile takes that long if the process stands still, but ends
        // before the next reading.
        let mut last = None;
        let in_flight = time::eventually(time::ANSWER, async || {
            let series = "workqueue_longest_running_processor_seconds{name=\"hollow-kubelet\"}";
            let longest = program.metric(series).await;
            let before = std::mem::replace(&mut last, longest);
            (before > Some(1.0) && longest > before).then_some(())
        });
        assert!(in_flight.await.is_some(), "{}", program.log());
        Self {
            program,
            _proxy: proxy,
            _files: files,
        }
    }
}

#[tokio::test]
async fn second_signal_stops_immediately() {
    // The wait is logged after a third of the timeout.
    let stuck = Stuck::start(&["--controller-shutdown-timeout=15s"]).await;
    stuck.program.signal(Signal::TERM);
    let waits = "\"Waiting for controllers to stop\" controllers=\"hollow-kubelet (default/second)\"";
    stuck.program.logs(waits).await;
    stuck.program.signal(Signal::INT);
    let ended = stuck.program.ends_within(SHUTDOWN_MAX).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for line in [
        "\"Stopping immediately, the lease is left to expire\" signal=\"SIGINT\"",
        "second signal",
    ] {
        assert!(ended.stderr.contains(line), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn controller_shutdown_timeout_names_running_controllers() {
    let stuck = Stuck::start(&["--controller-shutdown-timeout=500ms"]).await;
    stuck.program.signal(Signal::TERM);
    let ended = stuck.program.ends_within(SHUTDOWN_MAX).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = "controller shutdown timeout reached, still running: hollow-kubelet (default/second)";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}

/// An idle connection delays a graceful shutdown, which exits with 0 and logs "Stopped". The second signal is a different
/// one, because two equal signals may be delivered as one.
#[tokio::test]
async fn second_signal_does_not_wait_for_clients() {
    let program = sandbox::start(&[]).await;
    sandbox::leads(&program).await;
    let url = sandbox::summary_value(&program.stdout(), "API server:");
    let address = url.strip_prefix("https://").expect("a URL");
    let _silent = TcpStream::connect(address).await.expect("a connection");
    // The graceful shutdown takes two seconds: while the process is stopped, it cannot end between the two signals.
    for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
        program.signal(signal);
    }
    let ended = program.ends_within(SHUTDOWN_MAX).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("second signal"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("\"Stopped\""), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
}
