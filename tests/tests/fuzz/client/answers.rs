//! Single requests of the client with changed answers. Each returns a value or an error, and no error quotes a secret.

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use std::time::Duration;
use steersman_harness::draw::Draw;
use steersman_manager::client::{Client, ClientError, Delete, ListQuery, ObjectWatch, Patch, Reader, View};
use steersman_manager::object::{Key, MetaObject, Resource, Uid, Version};

use super::{Fixture, fixture, status};
use crate::{AllocatedMax, Input, Target, paused};

pub const TARGET: Target = Target {
    name: "client::answers",
    inputs: 250,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// The value of the secret. It has characters that no mutation writes.
const PASSWORD: &str = "aHVudGVyMg==";

fn draw(draw: &mut Draw) -> Input {
    let secret = json!({
        "kind": "Secret", "apiVersion": "v1", "type": "Opaque", "data": {"password": PASSWORD},
        "metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "7", "generation": 1},
    });
    let list = json!({"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [secret]});
    let body = draw.one(&[secret.clone(), list, status()]).clone();
    let events = [
        json!({"type": "ADDED", "object": secret}),
        json!({"type": "ERROR", "object": status()}),
    ];
    super::draw(draw, &body, &events)
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    paused().block_on(async {
        let fixture = fixture(input);
        let errors = requests(&fixture).await;
        for error in errors {
            let _ = (
                error.class(),
                error.retry_after(),
                error.code(),
                error.is_unknown_outcome(),
            );
            // The message of a Status is for users.
            if !matches!(error, ClientError::Status { .. }) && format!("{error} {error:?}").contains(PASSWORD)
            {
                return Err(format!("error quotes a secret: {error:?}"));
            }
        }
        Ok(())
    })
}

/// Sends one request of each sort. Returns the errors.
async fn requests(fixture: &Fixture) -> Vec<ClientError> {
    let reader: Reader = fixture.transport.reader("fuzz", None);
    let client: Client = fixture.transport.unfenced("fuzz", None);
    let (key, patch) = (
        Key::new("default", "a"),
        json!({"metadata": {"resourceVersion": "7"}}),
    );
    let watch = ObjectWatch {
        env: fixture.env.clone(),
        client: reader.clone(),
        resource: SECRETS,
        key: key.clone(),
        view: View::Full,
        idle_timeout: Duration::from_secs(30),
    };
    let mut errors = vec![
        reader.get::<Value>(&SECRETS, &key).await.err(),
        reader.get::<MetaObject>(&SECRETS, &key).await.err(),
        reader.get::<Secret>(&SECRETS, &key).await.err(),
        reader.get_raw("/api", "application/json").await.err(),
        reader
            .list_metadata(&SECRETS, "", &ListQuery::default())
            .await
            .err(),
        reader
            .list_all_metadata(&SECRETS, "", ListQuery::default(), |_| true)
            .await
            .err(),
        client
            .create::<Secret>(&SECRETS, "default", patch.to_string().into())
            .await
            .err(),
        client
            .patch::<Secret>(&SECRETS, &key, Patch::merge(&patch))
            .await
            .err(),
        client
            .delete(&SECRETS, &key, &Delete::of(Uid::from("1")))
            .await
            .err(),
        watch.read().await.err(),
    ];
    match watch.open(&Version::from("7")).await {
        Ok(mut events) => while events.next().await.is_ok() {},
        Err(error) => errors.push(Some(error)),
    }
    errors.into_iter().flatten().collect()
}
