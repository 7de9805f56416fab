//! Keys are never logged.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{DAY, SECRETS, bytes, cluster, secret};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_not_logged_even_at_the_highest_verbosity() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let cluster = cluster().await;
    let leader = cluster.leader().await;
    let first = cluster.serves(&leader, None).await;
    let mut keys = vec![cluster.data("tls.key").await.expect("a key")];
    cluster.later(61 * DAY, &[&leader]);
    let second = cluster.serves(&leader, Some(&first)).await;
    keys.push(cluster.data("tls.key").await.expect("a key"));
    let data = json!({"tls.crt": bytes("hunter2")});
    cluster.patch(&SECRETS, &secret(), &json!({"data": data})).await;
    cluster.serves(&leader, Some(&second)).await;
    keys.push(cluster.data("tls.key").await.expect("a key"));

    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    assert!(log.contains("Renewing the certificate for webhooks"), "{log}");
    assert!(log.contains("cannot be used, making another"), "{log}");
    assert!(!log.contains("PRIVATE KEY") && !log.contains("hunter2"));
    for key in keys {
        let body: Vec<&str> = key.lines().filter(|line| !line.starts_with("---")).collect();
        assert!(body.len() > 1);
        for line in body {
            assert!(!log.contains(line));
        }
        let encoded = json!(bytes(&key));
        let encoded = encoded.as_str().expect("base64");
        assert!(!log.contains(&encoded[..40]));
    }
}
