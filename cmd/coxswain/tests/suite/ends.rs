//! Signals: the first one ends it in order, the second one at once.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_tests::{Api, Program, endpoint, fixtures, sandbox as server, time};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::PROGRAM;
use crate::proxy::Proxy;
use crate::sandbox;

/// How long an end in order may take.
const IN_ORDER: Duration = Duration::from_secs(10);
/// How long an end at once may take: no more than a busy machine needs.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn either_signal_ends_it_in_order() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let program = sandbox::start(&[]).await;
        sandbox::works(&program).await;
        program.signal(signal);
        let ended = program.ends_within(IN_ORDER).await;
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
    let ended = program.ends_within(IN_ORDER).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
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
        let arguments = [&[kubeconfig.as_str(), "--controllers=hollow-kubelet"], arguments].concat();
        let program = Program::start(PROGRAM, &arguments).await;

        let pods = fixtures::core("default", "pods");
        api.post(&pods, fixtures::pod("first")).await.expect(201);
        sandbox::becomes(&api, "first", sandbox::is_ready).await;
        proxy.cut();
        api.post(&pods, fixtures::pod("second")).await.expect(201);
        let at_it = time::eventually(time::ANSWER, async || {
            let begun = "controller_runtime_active_workers{controller=\"hollow-kubelet\"}";
            (program.metric(begun).await == Some(1.0)).then_some(())
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
    let stuck = Stuck::start(&["--controller-shutdown-timeout=6s"]).await;
    stuck.program.signal(Signal::TERM);
    let waits = "\"Waiting for controllers to stop\" controllers=\"hollow-kubelet (default/second)\"";
    stuck.program.logs(waits).await;
    stuck.program.signal(Signal::INT);
    let ended = stuck.program.ends_within(AT_ONCE).await;
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
    let ended = stuck.program.ends_within(IN_ORDER).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let line = "controller shutdown timeout reached, still running: hollow-kubelet (default/second)";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}

/// Somebody has connected and says nothing: the end waits for him a little, but not after a second signal.
#[tokio::test]
async fn a_second_signal_does_not_wait_for_clients() {
    let program = sandbox::start(&[]).await;
    sandbox::works(&program).await;
    let url = sandbox::greeting_says(&program.stdout(), "API server:");
    let address = url.strip_prefix("https://").expect("a URL");
    let _silent = TcpStream::connect(address).await.expect("a connection");
    program.signal(Signal::TERM);
    program.logs("\"Stopping\"").await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(AT_ONCE).await;
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.left.is_empty(), "left {:?}", ended.left);
}
