//! What clients cannot do to others.

use std::time::Duration;

use coxswain_manager::serve::MAX_CONNECTIONS;
use coxswain_tests::time;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Client, bed, soon};

#[tokio::test]
async fn headers_beyond_the_limit_are_431() {
    let bed = bed().await;
    let mut stream = bed.stream(&["http/1.1"]).await;
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(70_000)
    );
    stream.write_all(head.as_bytes()).await.expect("it is read");
    let mut answer = String::new();
    // That the connection ends without ceremony is part of the answer.
    let _ = soon(stream.read_to_string(&mut answer)).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let Client::Http2(mut client) = bed.http2().await else {
        unreachable!("asked for HTTP/2");
    };
    let request = |size: usize| {
        let builder = Request::builder().uri("https://localhost/healthz");
        builder
            .header("x", "x".repeat(size))
            .body(http_body_util::Full::default())
            .expect("a request")
    };
    let answer = soon(client.send_request(request(70_000)))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let answer = soon(client.send_request(request(30_000)))
        .await
        .expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
}

/// Every place is taken by clients that were served and may ask again: they make way.
#[tokio::test]
async fn idle_clients_do_not_lock_out_others() {
    let bed = bed().await;
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut client = bed.http1().await;
        assert_eq!(client.get("/healthz").await.body, "ok");
        held.push(client);
    }
    let mut client = Box::pin(soon(bed.http2())).await;
    assert_eq!(soon(client.get("/healthz")).await.body, "ok");
}

/// Clients that say nothing keep their places for their ten seconds; the next one waits, and is served when one leaves.
#[tokio::test]
async fn one_more_than_there_are_places_waits() {
    let bed = bed().await;
    let mut held = Vec::new();
    for _ in 1..MAX_CONNECTIONS {
        held.push(TcpStream::connect(bed.address).await.expect("a connection"));
    }
    // Connections are accepted in order: this one is the last for which there is a place.
    let last = soon(bed.stream(&[])).await;
    let mut waiting = std::pin::pin!(bed.http1());
    let early = time::within(Duration::from_millis(200), &mut waiting);
    assert!(early.await.is_none(), "there is no place");
    drop(last);
    let mut client = soon(waiting).await;
    assert_eq!(soon(client.get("/healthz")).await.body, "ok");
}
