//! Startup without an API server: not ready, retries with backoff, stops on a signal.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use steersman_harness::endpoint::Endpoint;
use steersman_harness::{Program, certs, program, time};
use steersman_manager::env::TaskSet;
use tokio::net::TcpListener;

use crate::PROGRAM;

async fn start(port: u16) -> (Program, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    let endpoint = Endpoint {
        url: format!("https://127.0.0.1:{port}"),
        ca_pem: certs::generate().expect("certificates").ca,
        token: "token".to_owned(),
    };
    endpoint.write_kubeconfig(&path).expect("a file");
    let kubeconfig = format!("--kubeconfig={}", path.display());
    let flags = [kubeconfig.as_str(), "--controllers=hollow-kubelet"];
    (Program::start(PROGRAM, &flags).await, dir)
}

#[tokio::test]
async fn process_without_server_is_live_but_not_ready() {
    let (mut program, _dir) = start(program::free_address().port()).await;
    let reason = time::eventually(time::ANSWER, async || {
        let caches = program.endpoints().get("/readyz/caches").await;
        (caches.status == 500 && caches.text().contains("pods")).then_some(caches)
    });
    assert!(
        reason.await.is_some(),
        "{}",
        program.endpoints().get("/readyz/caches").await
    );
    let [live, ready, health] = ["/livez", "/readyz", "/healthz"].map(|path| program.endpoints().get(path));
    assert_eq!(
        (live.await.status, ready.await.status, health.await.status),
        (200, 500, 500)
    );
    assert!(program.runs());
    program.signal(Signal::TERM);
    let ended = program.ends_within(Duration::from_mins(1)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn insecure_kubeconfig_is_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    let address = program::free_address();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    server: \
         https://{address}\n    insecure-skip-tls-verify: true\nusers:\n- name: c\n  user:\n    token: token\n\
         contexts:\n- name: c\n  context:\n    cluster: c\n    user: c\n"
    );
    std::fs::write(&path, text).expect("a file");
    let kubeconfig = format!("--kubeconfig={}", path.display());
    let program = Program::start(PROGRAM, &[&kubeconfig, "--controllers=hollow-kubelet"]).await;
    program.logs("insecure-skip-tls-verify").await;

    let (verifying, _dir) = start(address.port()).await;
    verifying.logs("\"Starting\"").await;
    assert!(
        !verifying.log().contains("insecure-skip-tls-verify"),
        "{}",
        verifying.log()
    );
}

/// Connections are closed at once. Two caches and the election connect.
#[tokio::test]
async fn connections_are_retried_with_backoff() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let attempts = Arc::new(AtomicU64::new(0));
    let (count, tasks) = (attempts.clone(), TaskSet::new());
    tasks.handle().spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (program, _dir) = start(port).await;
    let begun = time::now();
    time::pause(Duration::from_secs(5)).await;
    let so_far = attempts.load(Ordering::Relaxed);
    println!("{so_far} connections in {:?}", begun.elapsed());
    let most = 40 * begun.elapsed().as_secs().div_ceil(5);
    assert!(so_far < most, "{so_far} in {:?}", begun.elapsed());
    let all = time::eventually(time::ANSWER, async || {
        (attempts.load(Ordering::Relaxed) >= 3).then_some(())
    });
    assert!(all.await.is_some(), "fewer than three connections");
    let so_far = attempts.load(Ordering::Relaxed);
    let more = time::eventually(time::ANSWER, async || {
        (attempts.load(Ordering::Relaxed) > so_far).then_some(())
    });
    assert!(more.await.is_some(), "no more connections");
    program.signal(Signal::TERM);
    let ended = program.ends_within(Duration::from_mins(1)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
