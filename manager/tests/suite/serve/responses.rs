//! Responses to local clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGaugeVec, Opts};
use steersman_manager::health::{Health, Probes};

use super::{fixture, soon};

#[tokio::test]
async fn health_endpoints_list_checks_on_failure_or_verbose() {
    let fixture = fixture().await;
    let synced = Arc::new(AtomicBool::new(false));
    let known = synced.clone();
    let _caches = fixture.checks.add("caches", Probes::READYZ, move || {
        if known.load(Ordering::Relaxed) {
            Health::Ok
        } else {
            Health::Failed("pods are not synced".to_owned())
        }
    });
    for mut client in fixture.clients().await {
        synced.store(false, Ordering::Relaxed);
        let reply = client.get("/livez?verbose").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.body, "[+]ping ok\nlivez check passed\n");
        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(reply.header("cache-control"), "no-cache, private");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");

        let reply = client.get("/readyz").await;
        assert_eq!(reply.status, 500);
        assert_eq!(
            reply.body,
            "[+]ping ok\n[-]caches failed: reason withheld\nreadyz check failed\n"
        );
        let reply = client.get("/readyz?exclude=caches&exclude=x&verbose").await;
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.body,
            "[+]ping ok\n[+]caches excluded: ok\nwarn: some health checks cannot be excluded: no matches for \
             \"x\"\nreadyz check passed\n"
        );
        let reply = client.get("/readyz/caches").await;
        assert_eq!(reply.status, 500);
        assert_eq!(reply.body, "internal server error: pods are not synced\n");

        synced.store(true, Ordering::Relaxed);
        for path in ["/healthz", "/readyz", "/livez/ping", "/readyz/caches"] {
            let reply = client.get(path).await;
            assert_eq!(
                (reply.status.as_u16(), reply.body.as_str()),
                (200, "ok"),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn removed_check_returns_404() {
    let fixture = fixture().await;
    let added = fixture.checks.add("gc", Probes::HEALTHZ, || {
        Health::Note("yields to kube-controller-manager".to_owned())
    });
    let mut client = fixture.http1().await;
    let reply = client.get("/healthz?verbose").await;
    assert_eq!(
        reply.body,
        "[+]ping ok\n[+]gc ok: yields to kube-controller-manager\nhealthz check passed\n"
    );
    assert_eq!(client.get("/healthz/gc").await.status, 200);
    assert_eq!(client.get("/livez/gc").await.status, 404);
    drop(added);
    assert_eq!(client.get("/healthz/gc").await.status, 404);
    let reply = client.get("/healthz?verbose").await;
    assert_eq!(reply.body, "[+]ping ok\nhealthz check passed\n");
}

#[tokio::test]
async fn metrics_endpoint_encodes_the_registry() {
    let fixture = fixture().await;
    let counter = IntCounter::new("adds_total", "How many").expect("a counter");
    counter.inc_by(3);
    let empty = IntGaugeVec::new(Opts::new("missing", "No series yet"), &["name"]).expect("a gauge");
    fixture.registry.register(Box::new(counter)).expect("a free name");
    fixture.registry.register(Box::new(empty)).expect("a free name");
    for mut client in fixture.clients().await {
        let reply = client.get("/metrics").await;
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.header("content-type"),
            "text/plain; version=0.0.4; charset=utf-8"
        );
        assert_eq!(
            reply.body,
            "# HELP adds_total How many\n# TYPE adds_total counter\nadds_total 3\n"
        );
    }
}

#[tokio::test]
async fn unknown_path_returns_404_and_other_method_405() {
    let fixture = fixture().await;
    for mut client in fixture.clients().await {
        for path in [
            "/",
            "/nowhere",
            "/healthz/",
            "/healthz/missing",
            "/metrics/",
            "//healthz",
            "/%68ealthz",
        ] {
            let reply = client.get(path).await;
            assert_eq!(reply.status, 404, "{path}");
            assert_eq!(reply.body, "404 page not found\n");
            assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        }
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let reply = client.request(method, "/healthz", "").await;
            assert_eq!(reply.status, 405);
            assert_eq!(reply.header("allow"), "GET, HEAD");
        }
        assert_eq!(client.request(Method::POST, "/nowhere", "").await.status, 404);
    }
}

#[tokio::test]
async fn head_returns_get_headers_without_body() {
    let fixture = fixture().await;
    for mut client in fixture.clients().await {
        let reply = client.request(Method::HEAD, "/healthz?verbose", "").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-length"), "32");
        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(reply.body, "");
        // The next response is not mistaken for the body.
        assert_eq!(client.get("/healthz?verbose").await.body.len(), 32);
    }
}

/// HTTP/1.1 connections are closed after a request with a body.
#[tokio::test]
async fn request_body_is_not_read() {
    let fixture = fixture().await;
    let mut client = fixture.http1().await;
    let reply = client.request(Method::GET, "/healthz", "hello").await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, "ok"));
    assert_eq!(reply.header("connection"), "close");
    soon(client.closed()).await;

    let mut client = fixture.http2().await;
    let reply = client.request(Method::GET, "/healthz", "hello").await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, "ok"));
    assert_eq!(client.get("/healthz").await.body, "ok");
}

/// A collector that panics.
struct Panics(Desc);

impl Collector for Panics {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        panic!("for the test")
    }
}

#[tokio::test]
async fn panic_fails_only_its_request() {
    let fixture = fixture().await;
    let desc = Desc::new(
        "bad".into(),
        "Bad".into(),
        vec![],
        BTreeMap::default().into_iter().collect(),
    );
    let collector = Panics(desc.expect("a description"));
    fixture
        .registry
        .register(Box::new(collector))
        .expect("a free name");
    let _bad = fixture
        .checks
        .add("bad", Probes::HEALTHZ, || panic!("for the test"));
    for mut client in fixture.clients().await {
        let reply = client.get("/metrics").await;
        assert_eq!(reply.status, 500);
        assert_eq!(reply.body, "500 internal server error\n");
        assert_eq!(reply.header("cache-control"), "no-cache, private");
        let reply = client.get("/healthz").await;
        assert_eq!(reply.status, 500);
        assert_eq!(
            reply.body,
            "[+]ping ok\n[-]bad failed: reason withheld\nhealthz check failed\n"
        );
        assert_eq!(client.get("/livez").await.body, "ok");
    }
}
