//! The task that writes events.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::aggregator::Aggregator;
use super::event::Event;
use super::event_cache::EventCache;
use super::spam_filter::SpamFilter;
use super::{DropReason, DroppedEvents};
use crate::client::{Client, ClientError, Patch};
use crate::env::{Clock, Rng};
use crate::object::{Key, LoggedObject, Resource};

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
/// The number of attempts per event.
const MAX_ATTEMPTS: u32 = 12;
/// The delay between attempts. The first one is a random part of it, so that clients do not retry in lockstep.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The longest Retry-After that is honoured: other events wait meanwhile.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) enum Message {
    Event(Event),
    /// Signals that all messages before this one are handled.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Writer {
    pub(super) aggregator: Aggregator,
    pub(super) cache: EventCache,
    pub(super) spam_filter: SpamFilter,
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) dropped: DroppedEvents,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Written,
    /// Permanent failure.
    Drop(DropReason),
    /// The API server was not reached or has not handled the request.
    Retry,
}

/// An event that is given up.
struct Dropped {
    why: DropReason,
    error: ClientError,
    attempts: u32,
}

impl Writer {
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Event(event) => self.write(event).await,
                // The receiver may have timed out.
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    async fn write(&mut self, mut event: Event) {
        let now = self.clock.now();
        if self.aggregator.observe(&event.group_key, &event.message, now) {
            event.aggregate();
        }
        // Filtered events are counted too: the next patch includes them.
        let existing = self.cache.increment(&event.key);
        if !self.spam_filter.allow(&event.spam_key, now) {
            self.dropped.count(DropReason::Limited);
            return;
        }
        if let Some((name, count)) = existing {
            match self.deliver(&event, Some((&name, count))).await {
                Ok(()) => return,
                // The existing event has expired. A new one is created.
                Err(Dropped {
                    why: DropReason::Rejected,
                    ..
                }) => self.cache.forget(&event.key),
                Err(dropped) => return self.drop(&event, &dropped),
            }
        }
        match self.deliver(&event, None).await {
            Ok(()) => self.cache.insert(event.key, event.name),
            Err(dropped) => self.drop(&event, &dropped),
        }
    }

    /// Creates the event, or patches the count of an existing one.
    async fn send(&self, event: &Event, existing: Option<(&str, u64)>) -> Result<IgnoredAny, ClientError> {
        let Some((name, count)) = existing else {
            let body = event.body.to_string().into();
            return self.client.create(&EVENTS, &event.namespace, body).await;
        };
        let key = Key::new(event.namespace.clone(), name);
        let patch =
            Patch::merge(&json!({"count": count, "lastTimestamp": event.at, "message": event.message}));
        // A lower count that arrives late is harmless.
        self.client.patch(&EVENTS, &key, patch.may_be_late()).await
    }

    /// Sends with retries until the outcome is known.
    async fn deliver(&self, event: &Event, existing: Option<(&str, u64)>) -> Result<(), Dropped> {
        let mut attempts = 0;
        loop {
            let Err(error) = self.send(event, existing).await else {
                return Ok(());
            };
            attempts += 1;
            let why = match classify(&error) {
                Outcome::Written => return Ok(()),
                Outcome::Drop(why) => why,
                Outcome::Retry if attempts == MAX_ATTEMPTS => DropReason::Unreachable,
                Outcome::Retry => {
                    let delay = match attempts {
                        1 => self.rng.between(Duration::ZERO, RETRY_DELAY),
                        _ => RETRY_DELAY,
                    };
                    let least = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
                    self.clock.sleep(delay.max(least)).await;
                    continue;
                }
            };
            return Err(Dropped { why, error, attempts });
        }
    }

    fn drop(&self, event: &Event, Dropped { why, error, attempts }: &Dropped) {
        self.dropped.count(*why);
        tracing::debug!(
            object = %LoggedObject::new("Event", &event.namespace, &event.name),
            code = error.code(),
            reason = error.reason(),
            tries = attempts,
            "Dropped event"
        );
    }
}

fn classify(error: &ClientError) -> Outcome {
    match error {
        ClientError::Timeout { .. }
        | ClientError::Connection { .. }
        | ClientError::Unauthenticated { .. } => Outcome::Retry,
        // Written, though the response is unreadable; or written by an attempt whose response was lost.
        ClientError::Decode { .. } | ClientError::TooLarge { .. } => Outcome::Written,
        _ if error.is_already_exists() => Outcome::Written,
        // Overloaded, or a proxy without a backend: the request was not handled.
        _ if error.is_throttled() => Outcome::Retry,
        // The token of the service account has expired or its key was rotated: the next attempt has another one.
        _ if error.code() == Some(401) => Outcome::Retry,
        ClientError::Unexplained { code: 500.., .. } => Outcome::Retry,
        ClientError::Fenced { .. } => Outcome::Drop(DropReason::Fenced),
        ClientError::Status { .. } | ClientError::Unexplained { .. } | ClientError::Invalid { .. } => {
            Outcome::Drop(DropReason::Rejected)
        }
    }
}
