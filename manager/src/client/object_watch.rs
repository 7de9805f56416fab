//! List and watch of one object by name.
//!
//! The watch starts at the resourceVersion of a list of that one object, so it misses no change. A watch without a
//! resourceVersion is refused by servers whose storage cannot report progress. If the list is forbidden,
//! [`ObjectWatch::read`] falls back to a GET, and the watch starts at the resourceVersion of the object.

use std::convert::Infallible;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{ClientError, ListQuery, Reader, Status, View, WatchQuery, WatchStream, response};
use crate::backoff::Backoff;
use crate::env::{Clock, Env};
use crate::object::{Key, Resource, Version};
use crate::revived;

/// The server closes a watch after a random time between these two.
const WATCH_TIMEOUT_MIN: Duration = Duration::from_mins(5);
const WATCH_TIMEOUT_MAX: Duration = Duration::from_mins(10);
/// The longest delay before a watch is reopened that lasted for [`HEALTHY`]. It is at least half as long.
const REOPEN_DELAY: Duration = Duration::from_secs(1);
/// The delays before a watch is reopened that did not last.
const BACKOFF: Backoff = Backoff::exponential(REOPEN_DELAY, Duration::from_secs(15)).jitter(1.0);
const HEALTHY: Duration = Duration::from_secs(30);

/// A list and watch of one object.
#[derive(Clone, Debug)]
pub struct ObjectWatch {
    /// The clock and random numbers of timeouts and retries.
    pub env: Env,
    /// The client that sends the requests. A watch ends with the term of its client.
    pub client: Reader,
    /// The resource of the object.
    pub resource: Resource,
    /// The namespace and name of the object.
    pub key: Key,
    /// Whether to request the whole object or its metadata.
    pub view: View,
    /// A watch without any event or bookmark for this long is closed. [`ObjectWatch::run`] also bounds the time to open
    /// the watch by it.
    pub idle_timeout: Duration,
}

/// An object as of a list, and the resourceVersion to watch it from. It may be a Secret, so it does not implement `Debug`.
#[expect(missing_docs, reason = "plain data")]
pub struct ObjectState {
    pub object: Option<Value>,
    pub version: Version,
}

/// A change of the watched object. It may be a Secret, so it does not implement `Debug`.
pub enum ObjectEvent {
    /// The object was created or modified.
    Updated(Value),
    /// The object was deleted at this resourceVersion.
    Deleted(Version),
}

/// A report of [`ObjectWatch::run`].
pub enum WatchReport {
    /// A watch was opened from this state.
    Opened(ObjectState),
    /// The object changed.
    Event(ObjectEvent),
    /// The watch ended, or failed to open. Changes are not seen until the next [`WatchReport::Opened`].
    Ended(WatchEnd),
}

/// The reason why a watch ended. It never quotes an object.
#[derive(Debug, thiserror::Error)]
pub enum WatchEnd {
    /// The server closed the watch in order.
    #[error("the server closed the watch")]
    Closed,
    /// Neither an event nor a bookmark arrived within this time.
    #[error("no event or bookmark for {} s", .0.as_secs())]
    Idle(Duration),
    /// The server sent an event of type ERROR.
    #[error("the server sent an error event with code {}: {}", .0.code, .0.message)]
    Error(Box<Status>),
    /// An event could not be decoded.
    #[error("an event cannot be decoded")]
    Malformed,
    /// The list or the watch request failed, or the connection broke.
    #[error(transparent)]
    Request(#[from] ClientError),
}

/// The events of one open watch.
#[derive(Debug)]
pub struct ObjectEvents {
    clock: Clock,
    lines: WatchStream,
    key: Key,
    idle_timeout: Duration,
}

impl ObjectWatch {
    /// Lists the object. The resourceVersion of the list is newer than that of the object, which the server may have
    /// compacted, and exists also if the object does not.
    pub async fn list(&self) -> Result<ObjectState, ClientError> {
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
        let (resource, key) = (&self.resource, &self.key);
        let query = ListQuery {
            field_selector: self.field_selector(),
            ..ListQuery::default()
        };
        let page = self.client.list(resource, &key.namespace, &query, self.view);
        let page = page.await?;
        let request_line = format!("GET {}", resource.collection(&key.namespace));
        let page: Page = response::decode(&page, &request_line)?;
        if page.metadata.version.is_none() {
            let reason = "a list without a resourceVersion".to_owned();
            return Err(ClientError::Decode { request_line, reason });
        }
        let items = page.items.unwrap_or_default().into_iter();
        let mut object = { items }.find(|item| is_named(item, key));
        // The items of a list have neither apiVersion nor kind.
        if let Some(Value::Object(object)) = &mut object {
            object.insert("apiVersion".to_owned(), resource.api_version().into());
            object.insert("kind".to_owned(), resource.kind.as_ref().into());
        }
        Ok(ObjectState {
            object,
            version: page.metadata.version,
        })
    }

    /// Lists the object, or reads it by a GET if the list is forbidden.
    pub async fn read(&self) -> Result<ObjectState, ClientError> {
        match self.list().await {
            Err(error) if error.code() == Some(403) => {
                let object: Value = self.client.get_as(&self.resource, &self.key, self.view).await?;
                Ok(ObjectState {
                    version: version(&object),
                    object: Some(object),
                })
            }
            listed => listed,
        }
    }

    /// Opens a watch of changes after `from`, which the server closes after a few minutes.
    pub async fn open(&self, from: &Version) -> Result<ObjectEvents, ClientError> {
        let timeout = self.env.rng.between(WATCH_TIMEOUT_MIN, WATCH_TIMEOUT_MAX);
        self.open_for(from, timeout).await
    }

    /// Opens a watch of changes after `from`, which the server closes after `timeout`, in whole seconds.
    pub async fn open_for(&self, from: &Version, timeout: Duration) -> Result<ObjectEvents, ClientError> {
        let mut query = WatchQuery {
            field_selector: self.field_selector(),
            resource_version: from.clone(),
            timeout_seconds: timeout.as_secs(),
            ..WatchQuery::default()
        };
        if revived!(C3) {
            query.resource_version = Version::none();
        }
        let namespace = &self.key.namespace;
        let lines = self.client.watch(&self.resource, namespace, &query, self.view);
        Ok(ObjectEvents {
            clock: self.env.clock.clone(),
            lines: lines.await?,
            key: self.key.clone(),
            idle_timeout: self.idle_timeout,
        })
    }

    /// Watches the object until the future is dropped, and reopens the watch whenever it ends. A closed receiver does not
    /// end it.
    pub async fn run(self, reports: mpsc::Sender<WatchReport>) -> Infallible {
        let Env { clock, rng, .. } = &self.env;
        let mut backoff = BACKOFF;
        let mut failed = false;
        loop {
            let since = clock.now();
            let end = self.run_once(&reports).await;
            let lasted = clock.now().saturating_duration_since(since) > HEALTHY;
            failed = self.log(&end, failed && !lasted);
            let _ = reports.send(WatchReport::Ended(end)).await;
            let delay = if lasted {
                backoff.reset();
                rng.between(REOPEN_DELAY / 2, REOPEN_DELAY)
            } else {
                backoff.next(clock.now(), rng)
            };
            clock.sleep(delay).await;
        }
    }

    /// Logs the end of a watch: the first failure of a series as a warning. Returns whether it is a failure.
    fn log(&self, end: &WatchEnd, failed: bool) -> bool {
        let object = self.resource.logged(&self.key);
        // A server closes every watch after some time, and an object may not change for long.
        let ordinary = match end {
            WatchEnd::Closed | WatchEnd::Idle(_) => true,
            WatchEnd::Request(error) => matches!(error, ClientError::Fenced { .. }),
            WatchEnd::Error(_) | WatchEnd::Malformed => false,
        };
        if ordinary || failed {
            tracing::debug!(%object, reason = %end, "Watch ended");
        } else {
            tracing::warn!(%object, reason = %end, "Watch ended");
        }
        failed || !ordinary
    }

    /// Reports one list and watch, until the watch ends.
    async fn run_once(&self, reports: &mpsc::Sender<WatchReport>) -> WatchEnd {
        let open = async {
            let state = self.read().await?;
            let events = self.open(&state.version).await?;
            Ok::<_, ClientError>((state, events))
        };
        let (state, mut events) = match self.env.clock.timeout(self.idle_timeout, open).await {
            None => return WatchEnd::Idle(self.idle_timeout),
            Some(Err(error)) => return error.into(),
            Some(Ok(opened)) => opened,
        };
        let _ = reports.send(WatchReport::Opened(state)).await;
        loop {
            match events.next().await {
                Ok(event) => drop(reports.send(WatchReport::Event(event)).await),
                Err(end) => return end,
            }
        }
    }

    fn field_selector(&self) -> String {
        format!("metadata.name={}", self.key.name)
    }
}

impl ObjectEvents {
    /// Waits for the next change of the object. After an error the watch is over.
    pub async fn next(&mut self) -> Result<ObjectEvent, WatchEnd> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "type")]
            kind: String,
            object: Value,
        }
        loop {
            let line = self.clock.timeout(self.idle_timeout, self.lines.next());
            let Some(line) = line.await else {
                return Err(WatchEnd::Idle(self.idle_timeout));
            };
            let line = line?.ok_or(WatchEnd::Closed)?;
            let event: Event = serde_json::from_slice(&line).map_err(|_| WatchEnd::Malformed)?;
            match event.kind.as_str() {
                "BOOKMARK" => {}
                "ERROR" => {
                    let status = serde_json::from_value(event.object).unwrap_or_default();
                    return Err(WatchEnd::Error(Box::new(status)));
                }
                "ADDED" | "MODIFIED" | "DELETED" if !is_named(&event.object, &self.key) => {}
                "ADDED" | "MODIFIED" => return Ok(ObjectEvent::Updated(event.object)),
                "DELETED" => return Ok(ObjectEvent::Deleted(version(&event.object))),
                _ => return Err(WatchEnd::Malformed),
            }
        }
    }
}

impl ObjectEvent {
    /// Returns the resourceVersion of the change.
    #[must_use]
    pub fn version(&self) -> Version {
        match self {
            Self::Updated(object) => version(object),
            Self::Deleted(version) => version.clone(),
        }
    }
}

impl ObjectState {
    /// Returns the resourceVersion of the object, if it exists.
    #[must_use]
    pub fn object_version(&self) -> Option<Version> {
        self.object.as_ref().map(version)
    }
}

/// Some servers ignore field selectors.
fn is_named(object: &Value, key: &Key) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name == Some(&*key.name)
}

/// Returns the resourceVersion of an object in JSON.
fn version(object: &Value) -> Version {
    let version = object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    Version::from(version.unwrap_or_default())
}
