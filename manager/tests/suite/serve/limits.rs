//! Limits of clients.

use http::{Request, StatusCode};
use steersman_manager::serve::MAX_CONNECTIONS;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Client, fixture, soon};

#[tokio::test]
async fn too_large_headers_return_431() {
    let fixture = fixture().await;
    let mut stream = fixture.stream(&["http/1.1"]).await;
    let head = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(33_000)
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("an open connection");
    let mut response = String::new();
    // The server may reset the connection after its response.
    let _ = soon(stream.read_to_string(&mut response)).await;
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");

    let Client::Http2(mut client) = fixture.http2().await else {
        unreachable!("started for HTTP/2");
    };
    let request = |size: usize| {
        let builder = Request::builder().uri("https://localhost/healthz");
        builder
            .header("x", "x".repeat(size))
            .body(http_body_util::Full::default())
            .expect("a request")
    };
    let response = soon(client.send_request(request(33_000)))
        .await
        .expect("a response");
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let response = soon(client.send_request(request(30_000)))
        .await
        .expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
}

/// All slots are in use by idle connections: one of them is closed.
#[tokio::test]
async fn idle_clients_do_not_lock_out_others() {
    let fixture = fixture().await;
    let mut open = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut client = fixture.http1().await;
        assert_eq!(client.get("/healthz").await.body, "ok");
        open.push(client);
    }
    let mut client = Box::pin(soon(fixture.http2())).await;
    assert_eq!(soon(client.get("/healthz")).await.body, "ok");
}

/// One peer opens many more connections than there are slots and sends nothing, half a handshake or half a head, while
/// another peer probes. The server's clock is frozen, so no connection times out.
#[tokio::test]
async fn silent_connections_of_one_peer_do_not_delay_the_probes_of_another() {
    let fixture = fixture().await;
    let (mut open, mut handshaken) = (Vec::new(), Vec::new());
    for number in 0..MAX_CONNECTIONS + 500 {
        let mut silent = fixture.socket_from("127.0.0.2").await;
        match number % 3 {
            0 => {}
            // The first bytes of a ClientHello.
            1 => drop(silent.write_all(&[22, 3, 1, 2, 0, 1]).await),
            _ => {
                let mut stream = soon(fixture.handshake(&["http/1.1"], silent)).await;
                drop(stream.write_all(b"GET /healthz HTTP/1.1\r\nX: ").await);
                handshaken.push(stream);
                continue;
            }
        }
        open.push(silent);
        if number >= MAX_CONNECTIONS && number.is_multiple_of(25) {
            let mut probe = soon(fixture.http1_from("127.0.0.3")).await;
            assert_eq!(soon(probe.get("/healthz")).await.body, "ok", "probe {number}");
        }
    }
    // A process on the same machine as the flood is served too.
    let mut probe = soon(fixture.http1_from("127.0.0.2")).await;
    assert_eq!(soon(probe.get("/healthz")).await.body, "ok");
    // The oldest connections were closed.
    let read = soon(open[0].read(&mut [0])).await;
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}
