//! The end of the server.

use std::sync::Arc;
use std::time::Duration;

use coxswain_manager::env::Fault;
use http::{Method, Response};
use http_body_util::Full;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use super::{Bed, bed, bed_with, soon};

/// A server with `/slow`, which says when it was asked and answers when it is let go.
async fn slow() -> (Bed, mpsc::UnboundedReceiver<()>, Arc<Notify>) {
    let (asked, was_asked) = mpsc::unbounded_channel();
    let go = Arc::new(Notify::new());
    let gone = go.clone();
    let bed = bed_with(|endpoints| {
        endpoints.mount("/slow", move |_| {
            let (asked, gone) = (asked.clone(), gone.clone());
            async move {
                let _ = asked.send(());
                gone.notified().await;
                Response::new(Full::from("at last"))
            }
        })
    });
    (bed.await, was_asked, go)
}

#[tokio::test]
async fn a_request_under_way_is_finished_and_no_other_is_begun() {
    let (bed, mut asked, go) = slow().await;
    let [mut http1, mut http2] = bed.clients().await;
    let [one, two] = [
        bed.env
            .tasks
            .spawn(async move { http1.send(Method::GET, "/slow", "").await }),
        bed.env
            .tasks
            .spawn(async move { http2.send(Method::GET, "/slow", "").await }),
    ];
    let idle = bed.http1().await;
    soon(async { (asked.recv().await, asked.recv().await) }).await;

    let Bed {
        address,
        tasks,
        stop,
        served,
        ..
    } = bed;
    stop.send(()).expect("it serves");
    // An idle connection is closed at once: then it has heard.
    soon(idle.closed()).await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
    go.notify_waiters();
    for request in [one, two] {
        let reply = request.await.expect("no panic").expect("an answer");
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
async fn a_request_that_does_not_end_is_not_waited_for() {
    let (bed, mut asked, _go) = slow().await;
    let mut client = bed.http2().await;
    let request = bed
        .env
        .tasks
        .spawn(async move { client.send(Method::GET, "/slow", "").await });
    soon(asked.recv()).await;
    let Bed {
        env, stop, served, ..
    } = bed;
    assert!(env.clock.inject(Fault::Thaw), "its time comes");
    let before = env.clock.now();
    stop.send(()).expect("it serves");
    soon(served).await.expect("no panic");
    let took = env.clock.now() - before;
    assert!(took >= Duration::from_secs(2), "{took:?}");
    assert!(request.await.expect("no panic").is_err(), "it is told");
}

#[tokio::test]
async fn dropping_the_server_closes_everything() {
    let bed = bed().await;
    let [mut http1, mut http2] = bed.clients().await;
    assert_eq!(http1.get("/livez").await.body, "ok");
    assert_eq!(http2.get("/livez").await.body, "ok");
    bed.served.abort();
    soon(http1.closed()).await;
    soon(http2.closed()).await;
    assert!(TcpStream::connect(bed.address).await.is_err(), "nobody listens");
}
