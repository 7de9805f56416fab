//! The watch of one object, by its name, kept open.
//!
//! It begins with the present state each time, so nothing that is there is missed; an object that went away between two
//! watches is. [`Sighting::Opened`] says when to read for that reason.

use std::convert::Infallible;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Client, ClientError, View, WatchQuery};
use crate::env::Env;
use crate::object::{Key, Resource, Version};

/// After how long the server is asked to end a watch.
const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_mins(10);
/// How long to wait before a watch is opened again that did not last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(30);

/// What comes over the watch. It may be a Secret: it is not to be printed.
pub(crate) enum Sighting {
    /// The watch is open.
    Opened,
    /// There is no watch for now, and why if that is known.
    Lost(Option<ClientError>),
    /// The object is this.
    There(Value),
    /// The object was deleted, at this version.
    Gone(Version),
}

/// What to watch, and how.
pub(crate) struct WatchOne {
    pub(crate) env: Env,
    pub(crate) client: Client,
    pub(crate) resource: Resource,
    pub(crate) key: Key,
    /// How long a watch may take to open, and be silent.
    pub(crate) patience: Duration,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl WatchOne {
    /// Watches for ever. Whether anybody listens is not its business: it is dropped with those who do.
    pub(crate) async fn run(self, sightings: mpsc::Sender<Sighting>) -> Infallible {
        let clock = &self.env.clock;
        let mut wait = FIRST_WAIT;
        loop {
            let since = clock.now();
            let lost = self.once(&sightings).await.err();
            if let Some(error) = &lost {
                tracing::debug!(%error, "The watch of an object was lost");
            }
            let _ = sightings.send(Sighting::Lost(lost)).await;
            let lasted = clock.now().saturating_duration_since(since);
            wait = if lasted > LAST_WAIT {
                FIRST_WAIT
            } else {
                (2 * wait).min(LAST_WAIT)
            };
            clock.sleep(self.env.rng.between(wait / 2, wait)).await;
        }
    }

    /// One watch, until it ends, fails or falls silent.
    async fn once(&self, sightings: &mpsc::Sender<Sighting>) -> Result<(), ClientError> {
        let query = WatchQuery {
            field_selector: format!("metadata.name={}", self.key.name),
            timeout_seconds: self.env.rng.between(SHORTEST, LONGEST).as_secs(),
            ..WatchQuery::default()
        };
        let open = self
            .client
            .watch(&self.resource, &self.key.namespace, &query, View::Full);
        let Some(lines) = self.env.clock.timeout(self.patience, open).await else {
            return Ok(());
        };
        let mut lines = lines?;
        let _ = sightings.send(Sighting::Opened).await;
        while let Some(line) = self.env.clock.timeout(self.patience, lines.next()).await {
            let Some(line) = line? else { break };
            let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                break;
            };
            let sighting = match event.kind.as_str() {
                "ADDED" | "MODIFIED" => Sighting::There(event.object),
                "DELETED" => Sighting::Gone(version(&event.object)),
                "BOOKMARK" => continue,
                _ => break,
            };
            let _ = sightings.send(sighting).await;
        }
        Ok(())
    }
}

/// The version of an object.
pub(crate) fn version(object: &Value) -> Version {
    let version = object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    Version::from(version.unwrap_or_default())
}
