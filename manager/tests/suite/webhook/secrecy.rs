//! Keys are never logged.

use coxswain_tests::Log;
use serde_json::json;
use tracing::level_filters::LevelFilter;

use super::{DAY, SECRETS, bytes, cluster, secret};

#[tokio::test(start_paused = true)]
async fn keys_are_not_logged_even_at_the_highest_verbosity() {
    let log = Log::keep(LevelFilter::TRACE);
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

    let log = log.text();
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
