//! Shutdown of the server.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Response};
use http_body_util::Full;
use steersman_manager::env::Fault;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use super::{Fixture, fixture, fixture_with, soon};

/// A server with `/slow`, which reports its start and responds when notified.
async fn slow() -> (Fixture, mpsc::UnboundedReceiver<()>, Arc<Notify>) {
    let (started, was_started) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let gone = go.clone();
    let fixture = fixture_with(|endpoints| {
        endpoints.mount("/slow", move |_| {
            let (started, gone) = (started.clone(), gone.clone());
            async move {
                let _ = started.send(());
                gone.notified().await;
                Response::new(Full::from("at last"))
            }
        })
    });
    (fixture.await, was_started, go)
}

#[tokio::test]
async fn shutdown_drains_in_flight_requests_and_rejects_new_ones() {
    let (fixture, mut started, go) = slow().await;
    let [mut http1, mut http2] = fixture.clients().await;
    let [one, two] = [
        fixture
            .env
            .tasks
            .spawn(async move { http1.send(Method::GET, "/slow", "").await }),
        fixture
            .env
            .tasks
            .spawn(async move { http2.send(Method::GET, "/slow", "").await }),
    ];
    let idle = fixture.http1().await;
    soon(async { (started.recv().await, started.recv().await) }).await;

    let Fixture {
        address,
        tasks,
        stop,
        served,
        ..
    } = fixture;
    stop.send(()).expect("a running server");
    // An idle connection is closed immediately, which shows that the shutdown has begun.
    soon(idle.closed()).await;
    assert!(TcpStream::connect(address).await.is_err(), "still listening");
    go.notify_waiters();
    for request in [one, two] {
        let reply = request.await.expect("no panic").expect("a response");
        assert_eq!(reply.body, "at last");
    }
    soon(served).await.expect("no panic");
    let left = async {
        while !tasks.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon(left).await;
}

#[tokio::test]
async fn shutdown_drains_for_at_most_two_seconds() {
    let (fixture, mut started, _go) = slow().await;
    let mut client = fixture.http2().await;
    let request = fixture
        .env
        .tasks
        .spawn(async move { client.send(Method::GET, "/slow", "").await });
    soon(started.recv()).await;
    let Fixture {
        env, stop, served, ..
    } = fixture;
    assert!(env.clock.inject(Fault::Thaw), "no fault injection");
    let before = env.clock.now();
    stop.send(()).expect("a running server");
    soon(served).await.expect("no panic");
    let took = env.clock.now() - before;
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(request.await.expect("no panic").is_err(), "the client notices");
}

#[tokio::test]
async fn dropped_server_closes_all_connections() {
    let fixture = fixture().await;
    let [mut http1, mut http2] = fixture.clients().await;
    assert_eq!(http1.get("/livez").await.body, "ok");
    assert_eq!(http2.get("/livez").await.body, "ok");
    fixture.served.abort();
    soon(http1.closed()).await;
    soon(http2.closed()).await;
    assert!(
        TcpStream::connect(fixture.address).await.is_err(),
        "still listening"
    );
}
