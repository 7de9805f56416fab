//! What clients cannot do to others.

use coxswain_manager::serve::MAX_CONNECTIONS;
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

/// Every slot is taken by clients that were served and may ask again: one is closed.
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

/// Connections of one peer that send nothing, half a handshake or half a head, as many as there are slots and then many
/// more, while another peer probes. The server's clock stands still: no deadline helps.
#[tokio::test]
async fn silent_connections_of_one_peer_do_not_delay_the_probes_of_another() {
    let bed = bed().await;
    let (mut held, mut greeted) = (Vec::new(), Vec::new());
    for number in 0..MAX_CONNECTIONS + 500 {
        let mut silent = bed.socket_from("127.0.0.2").await;
        match number % 3 {
            0 => {}
            // The first bytes of a ClientHello.
            1 => drop(silent.write_all(&[22, 3, 1, 2, 0, 1]).await),
            _ => {
                let mut stream = soon(bed.handshake(&["http/1.1"], silent)).await;
                drop(stream.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await);
                greeted.push(stream);
                continue;
            }
        }
        held.push(silent);
        if number >= MAX_CONNECTIONS && number.is_multiple_of(25) {
            let mut probe = soon(bed.http1_from("127.0.0.3")).await;
            assert_eq!(soon(probe.get("/healthz")).await.body, "ok", "probe {number}");
        }
    }
    // A process on the same machine as the flood is served too.
    let mut probe = soon(bed.http1_from("127.0.0.2")).await;
    assert_eq!(soon(probe.get("/healthz")).await.body, "ok");
    // The oldest ones were closed.
    let read = soon(held[0].read(&mut [0])).await;
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}
