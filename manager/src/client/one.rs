//! The watch of one object, by its name, kept open.
//!
//! Each watch starts at the version of a list of that one object, so nothing that happens after the list is missed: a
//! watch without a version is refused by servers whose storage has no progress requests. If the list is forbidden, the
//! watch starts at the version of the object itself.

use std::convert::Infallible;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Client, ClientError, ListQuery, Status, View, WatchQuery, answer};
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
    /// The watch is open, and starts at this state.
    Opened(Present),
    /// There is no watch for now.
    Lost(WatchEnd),
    /// The object is this.
    There(Value),
    /// The object was deleted, at this version.
    Gone(Version),
}

/// The reason why a watch ended. It never quotes an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchEnd {
    #[error("the server closed the watch")]
    Closed,
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the server sent an error event with code {}: {}", .0.code, .0.message)]
    Event(Status),
    #[error("an event cannot be decoded")]
    Malformed,
    #[error(transparent)]
    Request(#[from] ClientError),
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
        let mut failed = false;
        loop {
            let since = clock.now();
            let end = self.once(&sightings).await;
            let lasted = clock.now().saturating_duration_since(since) > LAST_WAIT;
            failed = self.log(&end, failed && !lasted);
            let _ = sightings.send(Sighting::Lost(end)).await;
            wait = if lasted {
                FIRST_WAIT
            } else {
                (2 * wait).min(LAST_WAIT)
            };
            clock.sleep(self.env.rng.between(wait / 2, wait)).await;
        }
    }

    /// Logs the end of a watch: the first failure of a series as a warning. Returns whether it is a failure.
    fn log(&self, end: &WatchEnd, failed: bool) -> bool {
        let (resource, object) = (&self.resource, &self.key);
        // A server closes a watch from time to time, and an object may not change for long.
        let ordinary = match end {
            WatchEnd::Closed | WatchEnd::Silent(_) => true,
            WatchEnd::Request(error) => matches!(error, ClientError::Fenced { .. }),
            WatchEnd::Event(_) | WatchEnd::Malformed => false,
        };
        if ordinary || failed {
            tracing::debug!(%resource, %object, reason = %end, "Watch ended");
        } else {
            tracing::warn!(%resource, %object, reason = %end, "Watch ended");
        }
        failed || !ordinary
    }

    /// One watch, until it ends, fails or falls silent.
    async fn once(&self, sightings: &mpsc::Sender<Sighting>) -> WatchEnd {
        match self.follow(sightings).await {
            Ok(end) => end,
            Err(error) => error.into(),
        }
    }

    async fn follow(&self, sightings: &mpsc::Sender<Sighting>) -> Result<WatchEnd, ClientError> {
        let clock = &self.env.clock;
        let open = async {
            let present = present(&self.client, &self.resource, &self.key, View::Full).await?;
            let seconds = self.env.rng.between(SHORTEST, LONGEST).as_secs();
            let query = present.watch(&self.key, seconds);
            let lines = self
                .client
                .watch(&self.resource, &self.key.namespace, &query, View::Full);
            Ok::<_, ClientError>((present, lines.await?))
        };
        let Some(opened) = clock.timeout(self.patience, open).await else {
            return Ok(WatchEnd::Silent(self.patience));
        };
        let (present, mut lines) = opened?;
        let _ = sightings.send(Sighting::Opened(present)).await;
        loop {
            let Some(line) = clock.timeout(self.patience, lines.next()).await else {
                return Ok(WatchEnd::Silent(self.patience));
            };
            let Some(line) = line? else {
                return Ok(WatchEnd::Closed);
            };
            let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                return Ok(WatchEnd::Malformed);
            };
            let sighting = match event.kind.as_str() {
                "BOOKMARK" => continue,
                "ERROR" => return Ok(WatchEnd::Event(status(event.object))),
                "ADDED" | "MODIFIED" | "DELETED" if !is_named(&event.object, &self.key) => continue,
                "ADDED" | "MODIFIED" => Sighting::There(event.object),
                "DELETED" => Sighting::Gone(version(&event.object)),
                _ => return Ok(WatchEnd::Malformed),
            };
            let _ = sightings.send(sighting).await;
        }
    }
}

/// One object as it is now, if it exists, and the version from which a watch misses nothing.
pub(crate) struct Present {
    pub(crate) object: Option<Value>,
    pub(crate) version: Version,
}

impl Present {
    /// The version of the object, if it exists.
    pub(crate) fn object_version(&self) -> Option<Version> {
        self.object.as_ref().map(version)
    }

    /// The watch of that object from here on.
    pub(crate) fn watch(&self, key: &Key, timeout_seconds: u64) -> WatchQuery {
        WatchQuery {
            field_selector: selector(key),
            resource_version: self.version.clone(),
            timeout_seconds,
            ..WatchQuery::default()
        }
    }
}

/// Reads one object by a list: its version is newer than that of the object, which the server may have compacted, and
/// there is one if the object does not exist. Falls back to a GET where the list is forbidden.
pub(crate) async fn present(
    client: &Client,
    resource: &Resource,
    key: &Key,
    view: View,
) -> Result<Present, ClientError> {
    #[derive(Deserialize)]
    struct Page {
        metadata: ListMeta,
        items: Option<Vec<Value>>,
    }
    #[derive(Default, Deserialize)]
    struct ListMeta {
        #[serde(rename = "resourceVersion", default)]
        version: Version,
    }
    let query = ListQuery {
        field_selector: selector(key),
        ..ListQuery::default()
    };
    let page = match client.list(resource, &key.namespace, &query, view).await {
        Ok(page) => page,
        Err(error) if error.code() == Some(403) => {
            let object: Value = client.get_as(resource, key, view).await?;
            return Ok(Present {
                version: version(&object),
                object: Some(object),
            });
        }
        Err(error) => return Err(error),
    };
    let what = format!("GET {}", resource.collection(&key.namespace));
    let page: Page = answer::decode(&page, &what)?;
    if page.metadata.version.is_none() {
        let reason = "a list without a resourceVersion".to_owned();
        return Err(ClientError::Decode { what, reason });
    }
    let items = page.items.unwrap_or_default().into_iter();
    let mut object = { items }.find(|item| is_named(item, key));
    // Lists leave out what an object and an event have.
    if let Some(Value::Object(object)) = &mut object {
        object.insert("apiVersion".to_owned(), resource.api_version().into());
        object.insert("kind".to_owned(), resource.kind.as_ref().into());
    }
    Ok(Present {
        object,
        version: page.metadata.version,
    })
}

fn selector(key: &Key) -> String {
    format!("metadata.name={}", key.name)
}

/// Whether it is the object: some servers ignore field selectors.
fn is_named(object: &Value, key: &Key) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name == Some(&*key.name)
}

/// The version of an object.
pub(crate) fn version(object: &Value) -> Version {
    let version = object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    Version::from(version.unwrap_or_default())
}

fn status(object: Value) -> Status {
    serde_json::from_value(object).unwrap_or_default()
}
