//! A connection that takes its time: the fence may shut between the look at it and the send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coxswain_manager::client::{Client, ClientError, Fence, Patch, Transport};
use coxswain_manager::env::{Clock, Fault};
use coxswain_manager::object::Key;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use jiff::Timestamp;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};

use super::MAPS;

const TEN: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// A server that takes a while to be reached.
#[derive(Clone)]
struct Far {
    /// True time.
    clock: Clock,
    connects: Duration,
    answers: Duration,
    sent: Arc<AtomicUsize>,
}

impl tower_service::Service<Request<Body>> for Far {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let far = self.clone();
        Box::pin(async move {
            far.clock.sleep(far.connects).await;
            far.sent.fetch_add(1, Ordering::Relaxed);
            far.clock.sleep(far.answers).await;
            Ok(Response::new(Full::from("{}")))
        })
    }
}

struct World {
    clock: Clock,
    truth: Clock,
    far: Far,
    transport: Transport,
    client: Client,
}

/// A process in a term of ten seconds.
fn world(connects: Duration, answers: Duration) -> World {
    let (clock, truth) = (
        Clock::starting_at(Timestamp::UNIX_EPOCH),
        Clock::starting_at(Timestamp::UNIX_EPOCH),
    );
    let far = Far {
        clock: truth.clone(),
        connects,
        answers,
        sent: Arc::default(),
    };
    let transport =
        Transport::over(far.clone(), "api.test", "test", &clock, &Registry::new()).expect("fresh metrics");
    let fence = Fence::new(clock.clone());
    let term = fence.open(clock.mark(), TEN);
    let client = transport.client("a", None).in_term(&fence, term);
    World {
        clock,
        truth,
        far,
        transport,
        client,
    }
}

async fn write(client: &Client) -> Result<Value, ClientError> {
    let patch = Patch::merge(&json!({}));
    client.patch(&MAPS, &Key::new("n", "a"), patch).await
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_on_a_connection_that_is_there_too_late() {
    let world = world(2 * SECOND, SECOND);
    world.clock.sleep(9 * SECOND).await;
    let error = write(&world.client).await.expect_err("shut while it connected");
    assert!(error.is_unknown_outcome(), "{error}");
    world.truth.sleep(TEN).await;
    assert_eq!(world.far.sent.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_wakes_up_sends_nothing_that_it_was_about_to() {
    let world = world(60 * SECOND, SECOND);
    let mut writing = std::pin::pin!(write(&world.client));
    assert!(world.truth.timeout(SECOND, &mut writing).await.is_none());
    // Asleep until the connection is there.
    world.clock.inject(Fault::Freeze);
    world.truth.sleep(60 * SECOND).await;
    world.clock.inject(Fault::Thaw);
    let error = writing.await.expect_err("long over");
    assert!(error.is_unknown_outcome(), "{error}");
    assert_eq!(world.far.sent.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_sent_before_counts_as_under_way() {
    let world = world(SECOND, 2 * SECOND);
    world.clock.sleep(8 * SECOND).await;
    let error = write(&world.client).await.expect_err("shut before the answer");
    assert_eq!(world.far.sent.load(Ordering::Relaxed), 1);
    assert!(error.is_unknown_outcome(), "{error}");
    assert!(!world.transport.ledger().is_settled(), "it may still arrive");
}
