//! The look at the one Lease: a read, and a watch from there, again and again.
//!
//! Each read is a list of one name, because a list has a version to watch from, also when there is nothing in it: no change
//! is missed in between. It needs `list` and `watch` of that one Lease. A read is sent when a watch has ended or fallen
//! silent, and when the holder is due to be gone.

use std::convert::Infallible;
use std::time::Duration;

use coxswain_manager::client::{Client, ClientError, Lines, ListQuery, View as Form, WatchQuery};
use coxswain_manager::env::Env;
use coxswain_manager::object::{Key, Resource, Version};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::State;
use super::board::Writer;
use super::view::{Lease, View};

const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");

/// How long a read may take, and a watch to open.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a watch may be silent. Bookmarks come every minute or so.
const SILENCE: Duration = Duration::from_secs(90);
/// After how long the server is asked to end a watch.
const SHORTEST: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_mins(10);
/// A watch that ended sooner has not worked.
const QUICK: Duration = Duration::from_secs(5);
/// How long to wait after something went wrong, the first time and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(30);

/// Who looks, and whom it tells.
pub(super) struct Observer {
    env: Env,
    client: Client,
    lease: Key,
    view: View,
    /// Whether an absent Lease means that its holder does not run.
    assume_absent: bool,
    board: Writer,
    /// When the present watch was opened.
    opened: Option<Instant>,
}

/// Why a watch is not listened to any more.
#[derive(PartialEq, Eq)]
enum Ended {
    /// It is over, or silent.
    Over,
    /// It is time to see whether the holder is gone.
    Due,
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    resource_version: Version,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Observer {
    pub(super) fn new(env: &Env, client: Client, lease: Key, assume_absent: bool, board: Writer) -> Self {
        Self {
            env: env.clone(),
            client,
            lease,
            view: View::new(env.clock.now()),
            assume_absent,
            board,
            opened: None,
        }
    }

    /// Looks for ever.
    pub(super) async fn run(mut self) -> Infallible {
        let clock = self.env.clock.clone();
        let mut wait = None;
        loop {
            let ended = self.once().await;
            let opened = self.opened.take();
            let lasted = opened.is_some_and(|at| clock.now().saturating_duration_since(at) >= QUICK);
            if lasted {
                wait = None;
            }
            let (why, asked) = match ended {
                Ok(Ended::Due) => continue,
                Ok(Ended::Over) if lasted => continue,
                Ok(Ended::Over) => ("its watch ends at once".to_owned(), None),
                Err(error) => {
                    if wait.is_none() {
                        tracing::warn!(%error, lease = %self.lease, "Cannot watch the lease");
                    }
                    (reason(&error), error.retry_after())
                }
            };
            self.view.lost(clock.now(), why);
            self.tell();
            let longest = wait.map_or(FIRST_WAIT, |last: Duration| LAST_WAIT.min(2 * last));
            wait = Some(longest);
            let pause = self.env.rng.between(longest / 2, longest);
            let pause = pause.max(asked.unwrap_or_default().min(LAST_WAIT));
            let sleep = clock.sleep(pause);
            self.meanwhile(sleep).await;
        }
    }

    /// One read, and one watch until it ends, falls silent or the holder is due.
    async fn once(&mut self) -> Result<Ended, ClientError> {
        let clock = self.env.clock.clone();
        let sent = clock.now();
        let (lease, version) = self.read().await?;
        self.view.read(sent, clock.now(), lease);
        self.tell();
        let mut lines = self.watch(version).await?;
        self.opened = Some(clock.now());
        self.view.watched();
        self.tell();
        loop {
            let due = self.view.due().unwrap_or(clock.after(Duration::MAX));
            let line = tokio::select! {
                biased;
                line = clock.timeout(SILENCE, lines.next()) => line,
                () = clock.sleep_until(due) => return Ok(Ended::Due),
            };
            let Some(Some(line)) = line.transpose()? else {
                return Ok(Ended::Over);
            };
            let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                return Ok(Ended::Over);
            };
            match event.kind.as_str() {
                "BOOKMARK" => continue,
                "ADDED" | "MODIFIED" | "DELETED" if !self.is_it(&event.object) => continue,
                "ADDED" | "MODIFIED" => self.view.see(clock.now(), Some(Lease::new(&event.object))),
                "DELETED" => self.view.see(clock.now(), None),
                _ => return Ok(Ended::Over),
            }
            self.tell();
        }
    }

    async fn read(&mut self) -> Result<(Option<Lease>, Version), ClientError> {
        let (client, namespace) = (self.client.clone(), self.lease.namespace.clone());
        let query = ListQuery {
            field_selector: self.selector(),
            ..ListQuery::default()
        };
        let list = async move { client.list(&LEASES, &namespace, &query, Form::Full).await };
        let page = self.in_time(Box::pin(list)).await?;
        let page: Page = serde_json::from_slice(&page).map_err(|error| ClientError::Decode {
            what: self.what(),
            reason: format!("{:?} at column {}", error.classify(), error.column()),
        })?;
        let found = page.items.iter().find(|object| self.is_it(object));
        Ok((found.map(Lease::new), page.metadata.resource_version))
    }

    async fn watch(&mut self, version: Version) -> Result<Lines, ClientError> {
        let (client, namespace) = (self.client.clone(), self.lease.namespace.clone());
        let query = WatchQuery {
            field_selector: self.selector(),
            resource_version: version,
            timeout_seconds: self.env.rng.between(SHORTEST, LONGEST).as_secs(),
            ..WatchQuery::default()
        };
        let open = async move { client.watch(&LEASES, &namespace, &query, Form::Full).await };
        self.in_time(Box::pin(open)).await
    }

    fn selector(&self) -> String {
        format!("metadata.name={}", self.lease.name)
    }

    /// Whether the selector was understood.
    fn is_it(&self, object: &Value) -> bool {
        object["metadata"]["name"].as_str() == Some(&self.lease.name)
    }

    fn what(&self) -> String {
        format!("lease {}", self.lease)
    }

    async fn in_time<T>(
        &mut self,
        request: BoxFuture<'static, Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let clock = self.env.clock.clone();
        let answer = self
            .meanwhile(async move { clock.timeout(PATIENCE, request).await })
            .await;
        answer.unwrap_or_else(|| {
            Err(ClientError::Timeout {
                what: self.what(),
                deadline: PATIENCE,
            })
        })
    }

    /// Waits for something, while what is known grows too old.
    async fn meanwhile<T>(&mut self, future: impl Future<Output = T>) -> T {
        let clock = self.env.clock.clone();
        let mut future = std::pin::pin!(future);
        let now = clock.now();
        if let Some(stale_at) = self.view.stale_at().filter(|at| *at > now) {
            tokio::select! {
                biased;
                done = &mut future => return done,
                () = clock.sleep_until(stale_at) => self.tell(),
            }
        }
        future.await
    }

    fn tell(&self) {
        let state = match self.view.state(self.env.clock.now()) {
            State::Absent if self.assume_absent => State::Assumed,
            state => state,
        };
        self.board.write(state);
    }
}

/// Why the Lease is not to be had. Everybody may read this, so it does not quote the server.
fn reason(error: &ClientError) -> String {
    match error.code() {
        Some(code) => format!("the API server answers {code}"),
        None => "the API server does not answer".to_owned(),
    }
}
