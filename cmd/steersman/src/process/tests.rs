//! The process in the runtime of a test, which advances its clock.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use steersman_config::Parsed;
use steersman_harness::endpoint::Endpoint;
use steersman_harness::tls::{Client, Version};
use steersman_harness::{Api, Log as Kept, certs, program, time};
use tracing::level_filters::LevelFilter;

use super::*;
use crate::log::{LogHandle, Output};

/// Another process can use a free port first.
const ATTEMPTS_MAX: usize = 3;

/// Runs the process while `test` runs. It serves the certificate in `files` at the given address, without an API server.
async fn serving(files: &Path, test: impl AsyncFn(SocketAddr)) {
    let unreachable = Endpoint {
        url: format!("https://{}", program::free_address()),
        ca_pem: certs::generate().expect("certificates").ca,
        token: "token".to_owned(),
    };
    let kubeconfig = files.join("kubeconfig");
    unreachable.write_kubeconfig(&kubeconfig).expect("a file");
    for _ in 0..ATTEMPTS_MAX {
        let address = program::free_address();
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--controllers=hollow-kubelet".to_owned(),
            format!("--bind-address={}", address.ip()),
            format!("--secure-port={}", address.port()),
            format!("--tls-cert-file={}", files.join("tls.crt").display()),
            format!("--tls-private-key-file={}", files.join("tls.key").display()),
            "--authorization-always-allow-paths=/metrics".to_owned(),
        ];
        let arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
        let parsed = steersman_config::parse(arguments.clone(), &crate::known());
        let Ok(Parsed::Run(config)) = parsed else {
            panic!("the flags are invalid");
        };
        let log = Log {
            output: Output::default(),
            handle: LogHandle::new(config.logging.verbosity, &config.logging.vmodule),
        };
        let tasks = TaskSet::new();
        let env = Env::system(&tasks);
        let ended = tokio::select! {
            biased;
            ended = Box::pin(run_in(&env, &env, &env, Registry::new(NAME), *config, arguments, &log)) => ended,
            () = test(address) => return,
        };
        let error = ended.expect_err("it runs until it is stopped").to_string();
        assert!(error.contains("cannot listen on"), "{error}");
    }
    panic!("found no free port");
}

/// Returns the number of failed reads of certificates.
async fn read_errors(address: SocketAddr) -> u64 {
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    let api = Api::new(kube::Client::try_from(config).expect("a client"));
    let page = api.get("/metrics").await.text();
    let counter =
        { page.lines() }.find_map(|it| it.strip_prefix("certwatcher_read_certificate_errors_total "));
    counter.and_then(|it| it.parse().ok()).expect("a counter")
}

/// Advances the clock until `holds` returns true.
async fn advance_until(mut holds: impl AsyncFnMut() -> bool) {
    let start = time::now();
    while !holds().await {
        assert!(start.elapsed() < time::ANSWER, "it does not hold in time");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(5)).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn unreadable_certificate_is_logged_once_and_the_previous_one_is_served() {
    let kept = Kept::keep(LevelFilter::INFO);
    let files = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    let issue = || {
        let issued = certs::generate().expect("certificates");
        fs::write(&certificate, &issued.cert).expect("a file");
        fs::write(&key, &issued.key).expect("a file");
        issued.ca
    };
    let old = issue();
    serving(files.path(), async |address| {
        let is_served = async |ca: &str| {
            let client = Client {
                version: Version::Tls13,
                cipher_suites: &[],
                ca,
                server_name: "127.0.0.1",
            };
            client.connect(address).await.is_ok()
        };
        advance_until(async || is_served(&old).await).await;
        assert_eq!(read_errors(address).await, 0);

        fs::remove_file(&certificate).expect("removed");
        advance_until(async || read_errors(address).await >= 2).await;
        assert!(is_served(&old).await, "the certificate stays");
        let log = kept.text();
        let logged = log.matches("Failed to reload serving certificate").count();
        assert_eq!(logged, 1, "{log}");

        let new = issue();
        advance_until(async || is_served(&new).await).await;
        assert!(!is_served(&old).await);
    })
    .await;
}
