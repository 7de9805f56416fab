//! Slow connections: the fence may close between its check and the send.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::client::{Client, ClientError, Fence, Patch, Transport};
use steersman_manager::env::{Clock, Fault};
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_sandbox::Sandbox;
use steersman_sandbox::faults::{Faults, Matcher};

use super::MAPS;

const TEN: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    clock: Clock,
    truth: Clock,
    /// The requests that were sent over an established connection.
    sent: Faults,
    transport: Transport,
    client: Client,
}

/// Returns a client in a term of ten seconds.
fn fixture(connects: Duration, answers: Duration) -> Fixture {
    let (clock, truth) = (
        Clock::starting_at(Timestamp::UNIX_EPOCH),
        Clock::starting_at(Timestamp::UNIX_EPOCH),
    );
    // Faults are not affected by the clock under test.
    let (connection, sent) = (Faults::new(), Faults::new());
    connection.on(Matcher::any()).delay(connects);
    sent.on(Matcher::any()).delay_answer(answers);
    sent.on(Matcher::any()).reply(200, "{}");
    let sandbox = Sandbox::builder().start().expect("a sandbox");
    let far = connection.wrap(sent.wrap(sandbox.service()));
    let transport = Transport::from_service(far, "api.test", "test", &clock, &Registry::new("test"))
        .expect("fresh metrics");
    let fence = Fence::new(clock.clone());
    let term = fence.open(clock.mark(), TEN);
    let client = transport.reader("a", None).in_term(&fence, term);
    Fixture {
        clock,
        truth,
        sent,
        transport,
        client,
    }
}

async fn write(client: &Client) -> Result<Value, ClientError> {
    let patch = Patch::merge(&json!({}));
    client.patch(&MAPS, &Key::new("n", "a"), patch).await
}

#[tokio::test(start_paused = true)]
async fn connection_established_after_the_term_sends_nothing() {
    let f = fixture(2 * SECOND, SECOND);
    f.clock.sleep(9 * SECOND).await;
    let error = write(&f.client).await.expect_err("closed during the connect");
    assert!(error.is_unknown_outcome(), "{error}");
    f.truth.sleep(TEN).await;
    assert_eq!(f.sent.count(&Matcher::any()), 0);
}

#[tokio::test(start_paused = true)]
async fn resumed_machine_does_not_send_pending_writes() {
    let f = fixture(60 * SECOND, SECOND);
    let mut writing = std::pin::pin!(write(&f.client));
    assert!(f.truth.timeout(SECOND, &mut writing).await.is_none());
    // Suspended until the connection is established.
    f.clock.inject(Fault::Freeze);
    f.truth.sleep(60 * SECOND).await;
    f.clock.inject(Fault::Thaw);
    let error = writing.await.expect_err("the term is over");
    assert!(error.is_unknown_outcome(), "{error}");
    assert_eq!(f.sent.count(&Matcher::any()), 0);
}

#[tokio::test(start_paused = true)]
async fn write_sent_before_the_fence_closed_has_an_unknown_outcome() {
    let f = fixture(SECOND, 2 * SECOND);
    f.clock.sleep(8 * SECOND).await;
    let error = write(&f.client).await.expect_err("closed before the response");
    assert_eq!(f.sent.count(&Matcher::any()), 1);
    assert!(error.is_unknown_outcome(), "{error}");
    assert!(
        !f.transport.write_tracker().is_settled(),
        "it may still be executed"
    );
}
