//! Health of a controller.

use super::*;

use crate::controller::progress::Progress;
use crate::queue::Queue;

fn progress(test: &Fixture) -> Arc<Progress> {
    let limits = HealthLimits {
        workers: 1,
        timeout: secs(60),
        grace: secs(30),
    };
    Arc::new(Progress::new(&test.env.clock, limits))
}

#[tokio::test(start_paused = true)]
async fn reconcile_beyond_its_timeout_is_reported_as_stuck() {
    let test = Fixture::new();
    let progress = progress(&test);
    let running = progress.begin(Key::new("ns", "a"));
    test.sleep(secs(90)).await;
    assert_eq!(progress.health(Duration::ZERO), Ok(()));
    test.sleep(secs(1)).await;
    let error = progress.health(Duration::ZERO).expect_err("unhealthy");
    assert_eq!(
        error.to_string(),
        "the reconcile of ns/a has run for 91 s, its timeout is 60 s"
    );
    running.touch();
    assert_eq!(progress.health(Duration::ZERO), Ok(()));
    drop(running);
    assert_eq!(progress.health(Duration::ZERO), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn waiting_key_with_a_free_worker_is_reported_as_stalled() {
    let test = Fixture::new();
    let progress = progress(&test);
    let queue = Queue::unnamed(&test.env, default_limiter());
    let health = || progress.health(queue.head_wait().unwrap_or_default());
    test.sleep(secs(3600)).await;
    assert_eq!(health(), Ok(()), "nothing to do");
    queue.add(Key::new("ns", "a"));
    test.sleep(secs(180)).await;
    assert_eq!(health(), Ok(()));
    test.sleep(secs(1)).await;
    assert_eq!(health(), Err(Unhealthy::Stalled { since: secs(181) }));
    let running = progress.begin(Key::new("ns", "b"));
    assert_eq!(health(), Ok(()), "the worker is not free");
    drop(running);
    assert_eq!(health(), Ok(()), "it has just become free");
}

#[tokio::test(start_paused = true)]
async fn busy_controller_with_a_long_queue_is_healthy() {
    let test = Fixture::new();
    for n in 0..100 {
        test.pods.add(&n.to_string());
    }
    let controller = test.controller(Options::default(), |context, _| async move {
        context.env.clock.sleep(secs(299)).await;
        Ok(Action::Done)
    });
    let _running = test.run(&controller);
    for _ in 0..1000 {
        test.sleep(secs(7)).await;
        assert_eq!(controller.health(), Ok(()));
    }
}
