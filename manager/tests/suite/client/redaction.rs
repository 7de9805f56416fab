//! Bodies and credentials are never logged or part of an error.

use kube::config::AuthInfo;
use serde_json::{Value, json};
use steersman_harness::Log;
use steersman_manager::client::{Patch, Transport};
use steersman_manager::env::Clock;
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use tracing::level_filters::LevelFilter;

use super::Fixture;

#[tokio::test(start_paused = true)]
async fn bodies_are_not_logged_at_the_highest_verbosity() {
    let log = Log::keep(LevelFilter::TRACE);
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
    let key = Key::new("n", "a");
    let body = r#"{"data":{"password":"aHVudGVyMg=="}}"#;
    let _: Value = client
        .create(&secrets, "n", body.into())
        .await
        .expect("a response");
    let patch = Patch::merge(&json!({"data": {"password": "aHVudGVyMg=="}}));
    let _: Value = client.patch(&secrets, &key, patch).await.expect("a response");
    f.server.respond(200, &[], body);
    let _: Value = client.get(&secrets, &key).await.expect("a response");
    f.server.respond(200, &[], &body[..30]);
    client.get::<Value>(&secrets, &key).await.expect_err("cut off");
    f.server.respond(500, &[], body);
    client
        .get::<Value>(&secrets, &key)
        .await
        .expect_err("an error that quotes");

    let log = log.text();
    assert!(
        log.contains("/api/v1/namespaces/n/secrets/a"),
        "requests are logged: {log}"
    );
    assert!(!log.contains("aHVudGVyMg"), "{log}");
}

/// Returns a credential plugin with this output and exit code.
fn plugin(output: &str, code: u8) -> AuthInfo {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", format!("echo '{output}'; exit {code}")],
        "interactiveMode": "Never",
    });
    serde_json::from_value(json!({"exec": exec})).expect("an exec plugin")
}

fn config(server: &str, auth: AuthInfo) -> kube::Config {
    let mut config = kube::Config::new(server.parse().expect("a URL"));
    config.auth_info = auth;
    config
}

#[tokio::test]
async fn errors_do_not_contain_credentials() {
    let at = "https://127.0.0.1:1";
    let mut proxied = config(at, AuthInfo::default());
    proxied.proxy_url = Some("http://me:hunter2@proxy.test:3128".parse().expect("a URL"));
    let credential = |status| {
        format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#
        )
    };
    for config in [
        proxied,
        config(at, plugin(&credential(r#"{"token":"hunter2"}"#), 1)),
        config(at, plugin(&credential(r#""hunter2""#), 0)),
    ] {
        let error = match Transport::connect(&config, "test", &Clock::system(), &Registry::new("test")) {
            Ok(transport) => transport.authenticate().await.expect_err("a failed plugin"),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains("127.0.0.1:1"), "{error}");
    }
}

#[tokio::test]
async fn password_in_the_server_url_is_redacted() {
    let config = config("https://me:hunter2@127.0.0.1:1", AuthInfo::default());
    let registry = Registry::new("test");
    let transport = Transport::connect(&config, "test", &Clock::system(), &registry).expect("a transport");
    let client = transport.reader("a", None);
    let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
    let error = client.get::<Value>(&secrets, &Key::new("n", "a")).await;
    let error = error.expect_err("connection refused").to_string();
    assert!(!error.contains("hunter2"), "{error}");
    let metrics = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("metrics");
    assert!(
        metrics.contains("127.0.0.1:1") && !metrics.contains("hunter2"),
        "{metrics}"
    );
}
