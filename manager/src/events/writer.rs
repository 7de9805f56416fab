//! The task that writes events.

use std::time::Duration;

use prometheus::IntCounterVec;
use serde::de::IgnoredAny;
use tokio::sync::{mpsc, oneshot};

use super::event::Event;
use crate::client::{Client, ClientError};
use crate::env::{Clock, Rng};
use crate::object::Resource;

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
/// How often an event is sent at most.
const TRIES: u32 = 12;
/// How long between two tries; the first wait is a random part of it, so that a server that comes back is not met by all at
/// once.
const PAUSE: Duration = Duration::from_secs(10);

/// What waits in the queue.
#[derive(Debug)]
pub(super) enum Message {
    /// An event to write.
    Event(Event),
    /// Somebody waits until all before this is done.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Writer {
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

impl Writer {
    pub(super) async fn run(self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.recv().await {
            match message {
                Message::Event(event) => self.write(&event).await,
                // Whoever waited may have given up.
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    async fn write(&self, event: &Event) {
        let mut tries = 0;
        let (why, error) = loop {
            let body = event.body.clone();
            let answer = self.client.create(&EVENTS, &event.namespace, body).await;
            let Err(error) = answer.map(|IgnoredAny| ()) else {
                return;
            };
            tries += 1;
            match judge(&error) {
                Verdict::Written => return,
                Verdict::Drop(why) => break (why, error),
                Verdict::Retry if tries == TRIES => break ("unreachable", error),
                Verdict::Retry if tries == 1 => {
                    self.clock.sleep(self.rng.between(Duration::ZERO, PAUSE)).await;
                }
                Verdict::Retry => self.clock.sleep(PAUSE).await,
            }
        };
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
        ClientError::Fenced { .. } => Verdict::Drop("fenced"),
        ClientError::Status { .. } | ClientError::Unexplained { .. } | ClientError::Invalid { .. } => {
            Verdict::Drop("rejected")
        }
    }
}
