//! The task that writes events.

use std::time::Duration;

use prometheus::IntCounterVec;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::event::Event;
use super::known::Known;
use super::limit::Limit;
use super::similar::Similar;
use crate::client::{Client, ClientError, Patch};
use crate::env::{Clock, Rng};
use crate::object::{Key, Resource};

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
/// How often an event is sent at most.
const TRIES: u32 = 12;
/// How long between two tries; the first wait is a random part of it, so that a server that comes back is not met by all at
/// once.
const PAUSE: Duration = Duration::from_secs(10);

/// The server does not take it.
const REJECTED: &str = "rejected";

/// What waits in the queue.
#[derive(Debug)]
pub(super) enum Message {
    /// An event to write.
    Event(Event),
    /// Somebody waits until all before this is done.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Writer {
    pub(super) similar: Similar,
    pub(super) known: Known,
    pub(super) limit: Limit,
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    pub(super) dropped: IntCounterVec,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Written,
    /// It will not be taken, however often it is sent.
    Drop(&'static str),
    /// The server was not reached, or did not look at it.
    Retry,
}

/// Why something was given up.
struct Dropped {
    why: &'static str,
    error: ClientError,
    tries: u32,
}

impl Writer {
    pub(super) async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Event(event) => self.write(event).await,
                // Whoever waited may have given up.
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    async fn write(&mut self, mut event: Event) {
        let now = self.clock.now();
        if self.similar.shares(&event.like, &event.message, now) {
            event.combine();
        }
        // What is not written counts: the next one that is says so.
        let again = self.known.again(&event.same);
        if !self.limit.allow(&event.about, now) {
            self.dropped.with_label_values(&["limited"]).inc();
            return;
        }
        if let Some((name, count)) = again {
            match self.deliver(&event, Some((&name, count))).await {
                Ok(()) => return,
                // Events do not live for long. It is said anew.
                Err(Dropped { why: REJECTED, .. }) => self.known.forget(&event.same),
                Err(dropped) => return self.drop(&event, &dropped),
            }
        }
        match self.deliver(&event, None).await {
            Ok(()) => self.known.first(event.same, event.name),
            Err(dropped) => self.drop(&event, &dropped),
        }
    }

    /// A new event, or so many of the one with this name.
    async fn send(&self, event: &Event, again: Option<(&str, u64)>) -> Result<IgnoredAny, ClientError> {
        let Some((name, count)) = again else {
            let body = event.body.to_string().into();
            return self.client.create(&EVENTS, &event.namespace, body).await;
        };
        let key = Key::new(event.namespace.clone(), name);
        let patch =
            Patch::merge(&json!({"count": count, "lastTimestamp": event.at, "message": event.message}));
        self.client.patch(&EVENTS, &key, patch).await
    }

    /// Sends until it is known what became of it.
    async fn deliver(&self, event: &Event, again: Option<(&str, u64)>) -> Result<(), Dropped> {
        let mut tries = 0;
        loop {
            let Err(error) = self.send(event, again).await else {
                return Ok(());
            };
            tries += 1;
            let why = match judge(&error) {
                Verdict::Written => return Ok(()),
                Verdict::Drop(why) => why,
                Verdict::Retry if tries == TRIES => "unreachable",
                Verdict::Retry if tries == 1 => {
                    self.clock.sleep(self.rng.between(Duration::ZERO, PAUSE)).await;
                    continue;
                }
                Verdict::Retry => {
                    self.clock.sleep(PAUSE).await;
                    continue;
                }
            };
            return Err(Dropped { why, error, tries });
        }
    }

    fn drop(&self, event: &Event, Dropped { why, error, tries }: &Dropped) {
        self.dropped.with_label_values(&[why]).inc();
        tracing::debug!(
            event = event.name,
            code = error.code(),
            reason = error.reason(),
            tries,
            "Dropped an event"
        );
    }
}

fn judge(error: &ClientError) -> Verdict {
    match error {
        ClientError::Timeout { .. } | ClientError::Connection { .. } => Verdict::Retry,
        // Done, though the answer was not understood; or done by a try whose answer was lost.
        ClientError::Decode { .. } | ClientError::TooLarge { .. } => Verdict::Written,
        _ if error.is_already_exists() => Verdict::Written,
        // Busy, or a proxy without a server behind it: neither has looked at the event.
        _ if error.code() == Some(429) => Verdict::Retry,
        ClientError::Unexplained { code: 500.., .. } => Verdict::Retry,
        ClientError::Fenced { .. } | ClientError::ReadOnly { .. } => Verdict::Drop("fenced"),
        ClientError::Status { .. } | ClientError::Unexplained { .. } | ClientError::Invalid { .. } => {
            Verdict::Drop(REJECTED)
        }
    }
}
