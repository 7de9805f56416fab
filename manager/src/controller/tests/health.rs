//! Whether a controller makes progress.

use super::*;

use crate::controller::floor::{Floor, Work};
use crate::controller::inbox::Inbox;
use crate::controller::metrics::Metrics;
use crate::queue::Queue;

/// A floor with one worker's place, on which nobody works.
fn floor(bed: &Bed) -> Floor<()> {
    let queue = Queue::unnamed(&bed.env, default_limiter());
    Floor {
        controller: "test-controller".into(),
        reconciler: Arc::new(()),
        client: bed.transport.client("test", None),
        env: bed.env.clone(),
        term: bed.fence.open_forever(),
        workers: 1,
        timeout: secs(60),
        metrics: Arc::new(Metrics::register("test-controller", 1, &bed.registry).expect("metrics")),
        inbox: Arc::new(Inbox::new(queue)),
        work: Mutex::new(Work::none(bed.env.clock.now())),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_not_even_its_timeout_ends_is_named() {
    let bed = Bed::new();
    let floor = floor(&bed);
    let key = Key::new("ns", "a");
    let running = floor.begin(&key);
    bed.sleep(secs(90)).await;
    assert_eq!(floor.health(), Ok(()));
    bed.sleep(secs(1)).await;
    let error = floor.health().expect_err("unhealthy");
    assert_eq!(
        error.to_string(),
        "the reconcile of ns/a has run for 91 s, its timeout is 60 s"
    );
    drop(running);
    assert_eq!(floor.health(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn work_that_lies_in_front_of_a_free_worker_is_noticed() {
    let bed = Bed::new();
    let floor = floor(&bed);
    bed.sleep(secs(3600)).await;
    assert_eq!(floor.health(), Ok(()), "nothing to do");
    floor.inbox.queue.add(Key::new("ns", "a"));
    bed.sleep(secs(180)).await;
    assert_eq!(floor.health(), Ok(()));
    bed.sleep(secs(1)).await;
    assert_eq!(floor.health(), Err(Unhealthy::Stalled { since: secs(181) }));
    let key = Key::new("ns", "b");
    let running = floor.begin(&key);
    assert_eq!(floor.health(), Ok(()), "the worker is not free");
    drop(running);
    assert_eq!(floor.health(), Ok(()), "it has just become free");
}

#[tokio::test(start_paused = true)]
async fn a_busy_controller_with_a_long_queue_is_healthy() {
    let bed = Bed::new();
    for n in 0..100 {
        bed.pods.add(&n.to_string());
    }
    let controller = bed.controller(Options::default(), |context, _| async move {
        context.env.clock.sleep(secs(299)).await;
        Ok(Action::Done)
    });
    let _running = bed.run(&controller);
    for _ in 0..1000 {
        bed.sleep(secs(7)).await;
        assert_eq!(controller.health(), Ok(()));
    }
}
