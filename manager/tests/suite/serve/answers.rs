//! What is answered, to a client on this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coxswain_manager::serve::{Health, Probes};
use http::Method;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGaugeVec, Opts};

use super::{bed, soon};

#[tokio::test]
async fn health_is_two_letters_or_every_line() {
    let bed = bed().await;
    let synced = Arc::new(AtomicBool::new(false));
    let known = synced.clone();
    let _caches = bed.checks.add("caches", Probes::READYZ, move || {
        if known.load(Ordering::Relaxed) {
            Health::Ok
        } else {
            Health::Failed("pods are not synced".to_owned())
        }
    });
    for mut client in bed.clients().await {
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
async fn a_check_that_is_gone_is_not_found() {
    let bed = bed().await;
    let added = bed.checks.add("gc", Probes::HEALTHZ, || {
        Health::Note("yields to kube-controller-manager".to_owned())
    });
    let mut client = bed.http1().await;
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
async fn metrics_are_those_of_the_registry() {
    let bed = bed().await;
    let counter = IntCounter::new("adds_total", "How many").expect("a counter");
    counter.inc_by(3);
    let empty = IntGaugeVec::new(Opts::new("nobody", "No series yet"), &["name"]).expect("a gauge");
    bed.registry.register(Box::new(counter)).expect("a free name");
    bed.registry.register(Box::new(empty)).expect("a free name");
    for mut client in bed.clients().await {
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
async fn what_is_not_there_is_404_and_what_is_not_get_is_405() {
    let bed = bed().await;
    for mut client in bed.clients().await {
        for path in [
            "/",
            "/nowhere",
            "/healthz/",
            "/healthz/nobody",
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
            let reply = client.ask(method, "/healthz", "").await;
            assert_eq!(reply.status, 405);
            assert_eq!(reply.header("allow"), "GET, HEAD");
        }
        assert_eq!(client.ask(Method::POST, "/nowhere", "").await.status, 404);
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let bed = bed().await;
    for mut client in bed.clients().await {
        let reply = client.ask(Method::HEAD, "/healthz?verbose", "").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-length"), "32");
        assert_eq!(reply.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(reply.body, "");
        // What comes next is not taken for the body.
        assert_eq!(client.get("/healthz?verbose").await.body.len(), 32);
    }
}

/// A body is not read, so that there is no next request on that connection of HTTP/1.1.
#[tokio::test]
async fn a_body_is_not_read() {
    let bed = bed().await;
    let mut client = bed.http1().await;
    let reply = client.ask(Method::GET, "/healthz", "hello").await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, "ok"));
    assert_eq!(reply.header("connection"), "close");
    soon(client.closed()).await;

    let mut client = bed.http2().await;
    let reply = client.ask(Method::GET, "/healthz", "hello").await;
    assert_eq!((reply.status.as_u16(), reply.body.as_str()), (200, "ok"));
    assert_eq!(client.get("/healthz").await.body, "ok");
}

/// Panics when it is asked, as a broken handler would.
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
async fn a_panic_costs_one_request() {
    let bed = bed().await;
    let desc = Desc::new(
        "bad".into(),
        "Bad".into(),
        vec![],
        BTreeMap::default().into_iter().collect(),
    );
    let collector = Panics(desc.expect("a description"));
    bed.registry.register(Box::new(collector)).expect("a free name");
    let _bad = bed.checks.add("bad", Probes::HEALTHZ, || panic!("for the test"));
    for mut client in bed.clients().await {
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
