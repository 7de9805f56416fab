//! The watch of the one Lease, kept open.
//!
//! It begins with the present state each time, so nothing that is there is missed; a Lease that went away between two
//! watches is. [`Sighting::Opened`] says when to read for that reason.

use std::convert::Infallible;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::record::Record;
use crate::client::{Client, ClientError, View, WatchQuery};
use crate::env::Env;
use crate::object::{Key, Resource, Version};

/// After how long the server is asked to end a watch.
const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_mins(10);
/// How long to wait before a watch is opened again that did not last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(30);

/// What comes over the watch.
#[derive(Debug)]
pub(super) enum Sighting {
    /// The watch is open.
    Opened,
    /// There is no watch for now.
    Lost,
    /// The Lease is this.
    There(Record),
    /// The Lease was deleted, at this version.
    Gone(Version),
}

/// What to watch, and how.
pub(super) struct Watch {
    pub(super) env: Env,
    pub(super) client: Client,
    pub(super) resource: Resource,
    pub(super) key: Key,
    /// How long a watch may take to open, and be silent: a Lease that somebody holds changes all the time.
    pub(super) patience: Duration,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Watch {
    /// Watches for ever. Whether anybody listens is not its business: it is dropped with those who do.
    pub(super) async fn run(self, sightings: mpsc::Sender<Sighting>) -> Infallible {
        let clock = &self.env.clock;
        let mut wait = FIRST_WAIT;
        loop {
            let since = clock.now();
            if let Err(error) = self.once(&sightings).await {
                tracing::debug!(%error, "The watch of the lease was lost");
            }
            let _ = sightings.send(Sighting::Lost).await;
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
            let record = Record::new(event.object);
            let sighting = match event.kind.as_str() {
                "ADDED" | "MODIFIED" => Sighting::There(record),
                "DELETED" => Sighting::Gone(record.version()),
                "BOOKMARK" => continue,
                _ => break,
            };
            let _ = sightings.send(sighting).await;
        }
        Ok(())
    }
}
