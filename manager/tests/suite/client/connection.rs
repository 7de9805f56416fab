//! Network connections: TLS, credentials and errors.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use steersman_manager::client::{ClientError, Transport};
use steersman_manager::env::Clock;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::{Sandbox, Server};
use tokio::sync::oneshot;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

async fn config(kubeconfig: &str) -> kube::Config {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .expect("a configuration")
}

fn connect(config: &kube::Config) -> Transport {
    Transport::connect(config, "test", &Clock::system(), &Registry::new("test")).expect("a transport")
}

#[tokio::test]
async fn connection_uses_the_kubeconfig_and_reports_errors() {
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"))
        .await
        .expect("a free port");
    let right = config(&server.credentials().kubeconfig(&server.url())).await;
    let other = steersman_sandbox::Credentials::generate([127, 0, 0, 1].into()).expect("credentials");
    let strange = config(&other.kubeconfig(&server.url())).await;
    let mut stranger = right.clone();
    stranger.auth_info.token = Some("wrong".to_owned().into());
    let mut unreachable_server = right.clone();
    unreachable_server.cluster_url = "https://127.0.0.1:1".parse().expect("a URL");

    let (stop, stopped) = oneshot::channel::<()>();
    let service = Sandbox::builder().start().expect("a sandbox").service();
    let serving = server.serve(service, async {
        let _ = stopped.await;
    });
    let key = Key::cluster("default");
    let asking = async {
        let client = connect(&right).reader("a", None);
        let found: Value = client.get(&NAMESPACES, &key).await.expect("the namespace");
        assert_eq!(found["metadata"]["name"], "default");

        let error = connect(&strange)
            .reader("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        let error = error.expect_err("an untrusted certificate");
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(!error.is_unknown_outcome(), "there was no connection");

        let error = connect(&stranger)
            .reader("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        assert_eq!(error.expect_err("a wrong token").code(), Some(401));

        // Neither the token nor another credential of the kubeconfig is sent.
        let bare = connect(&right).without_credentials(&right).expect("a transport");
        let error = bare.reader("a", None).get::<Value>(&NAMESPACES, &key).await;
        assert_eq!(error.expect_err("no credentials").code(), Some(401));

        let error = connect(&unreachable_server)
            .reader("a", None)
            .get::<Value>(&NAMESPACES, &key)
            .await;
        let error = error.expect_err("connection refused");
        assert!(
            matches!(error, ClientError::Connection { connected: false, .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("refused"), "{error}");
        let _ = stop.send(());
    };
    tokio::join!(serving, asking);
}

/// An HTTP/1.1 server that responds to `answered` requests of each connection, and closes it after one more. Records the
/// request lines.
async fn closing_server(
    listener: tokio::net::TcpListener,
    answered: usize,
    requests: Arc<Mutex<Vec<String>>>,
) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    loop {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        for request in 0.. {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match socket.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            let head = String::from_utf8(head).expect("text");
            let Some(line) = head.lines().next() else { break };
            requests.lock().expect("no panic").push(line.to_owned());
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a length"));
            socket.read_exact(&mut vec![0; length]).await.expect("a body");
            if request == answered {
                break;
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            socket.write_all(answer).await.expect("answered");
        }
    }
}

#[tokio::test]
async fn write_on_a_closed_connection_is_sent_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let config = kube::Config::new(server.parse().expect("a URL"));
    let client = connect(&config).unfenced("a", None);
    let asking = async {
        let _: Value = client
            .get(&NAMESPACES, &Key::cluster("a"))
            .await
            .expect("the first");
        let error = client.create::<Value>(&NAMESPACES, "", "{}".into()).await;
        let error = error.expect_err("closed without a response");
        assert!(error.is_unknown_outcome(), "{error:?}");
        let _: Value = client
            .get(&NAMESPACES, &Key::cluster("b"))
            .await
            .expect("on a new connection");
    };
    tokio::select! {
        biased;
        () = asking => {}
        () = closing_server(listener, 1, requests.clone()) => unreachable!("the server never stops"),
    }
    let requests = requests.lock().expect("no panic").clone();
    let posts = requests.iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!((requests.len(), posts), (3, 1), "{requests:#?}");
}
