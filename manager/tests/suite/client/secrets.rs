//! What is never said, at any verbosity.

use std::io::Write;
use std::sync::{Arc, Mutex};

use coxswain_manager::client::Patch;
use coxswain_manager::object::{Key, Resource};
use serde_json::{Value, json};

use super::World;
use super::spy::Answer;

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
async fn bodies_are_not_logged_even_at_the_highest_verbosity() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let world = World::new();
    let client = world.transport.unfenced("a", None);
    let secrets = Resource::namespaced("", "v1", "secrets", "Secret");
    let key = Key::new("n", "a");
    let body = r#"{"data":{"password":"aHVudGVyMg=="}}"#;
    let _: Value = client
        .create(&secrets, "n", body.into())
        .await
        .expect("an answer");
    let patch = Patch::merge(&json!({"data": {"password": "aHVudGVyMg=="}}));
    let _: Value = client.patch(&secrets, &key, patch).await.expect("an answer");
    world.spy.answer(Answer::With(200, vec![], body.to_owned()));
    let _: Value = client.get(&secrets, &key).await.expect("an answer");
    world.spy.answer(Answer::With(200, vec![], body[..30].to_owned()));
    client.get::<Value>(&secrets, &key).await.expect_err("cut off");
    world.spy.answer(Answer::With(500, vec![], body.to_owned()));
    client
        .get::<Value>(&secrets, &key)
        .await
        .expect_err("an error that quotes");

    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    assert!(
        log.contains("/api/v1/namespaces/n/secrets/a"),
        "requests are logged: {log}"
    );
    assert!(!log.contains("aHVudGVyMg"), "{log}");
}
