//! Health of a controller.

use super::*;

use crate::controller::progress::Progress;
use crate::queue::Queue;

fn progress(test: &Fixture) -> Arc<Progress> {
    let limits = HealthLimits {
        workers: 1,
        timeout: secs(60),
        grace: secs(30),
        wait: secs(600),
    };
    let outcomes = Arc::new(Outcomes::new(&test.env.clock));
    Arc::new(Progress::new(&test.env.clock, limits, outcomes))
}

fn waiting(age: Duration) -> Waiting {
    let item = Key::new("ns", "a");
    Waiting { item, age }
}

#[tokio::test(start_paused = true)]
async fn reconcile_beyond_its_timeout_is_reported_as_stuck() {
    let test = Fixture::new();
    let progress = progress(&test);
    let running = progress.begin(Key::new("ns", "a"));
    test.sleep(secs(90)).await;
    assert_eq!(progress.health(None), Ok(()));
    test.sleep(secs(1)).await;
    let error = progress.health(None).expect_err("unhealthy");
    assert_eq!(
        error.to_string(),
        "the reconcile of ns/a has run for 91 s, its timeout is 60 s"
    );
    running.touch();
    assert_eq!(progress.health(None), Ok(()));
    drop(running);
    assert_eq!(progress.health(None), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn waiting_key_with_a_free_worker_is_reported_as_stalled() {
    let test = Fixture::new();
    let progress = progress(&test);
    let queue = Queue::unnamed(&test.env, default_limiter());
    let health = || progress.health(queue.oldest().map(|(item, age)| Waiting { item, age }));
    test.sleep(secs(3600)).await;
    assert_eq!(health(), Ok(()), "nothing to do");
    queue.add_after(Key::new("ns", "later"), secs(3600));
    test.sleep(secs(1000)).await;
    assert_eq!(health(), Ok(()), "a delayed key does not wait for a worker");
    queue.add(Key::new("ns", "a"));
    test.sleep(secs(180)).await;
    assert_eq!(health(), Ok(()));
    test.sleep(secs(1)).await;
    let stalled = health().expect_err("unhealthy");
    assert_eq!(
        stalled.to_string(),
        "ns/a has waited in the queue for 181 s although workers are free"
    );
    assert!(stalled.is_fixed_by_restart());
    let running = progress.begin(Key::new("ns", "b"));
    assert_eq!(health(), Ok(()), "the worker is not free");
    drop(running);
    assert_eq!(health(), Ok(()), "it has just become free");
}

#[tokio::test(start_paused = true)]
async fn key_that_waits_longer_than_the_limit_for_a_busy_worker_is_overdue() {
    let test = Fixture::new();
    let progress = progress(&test);
    let _running = progress.begin(Key::new("ns", "b"));
    assert_eq!(progress.health(Some(waiting(secs(600)))), Ok(()));
    let overdue = progress.health(Some(waiting(secs(601)))).expect_err("unhealthy");
    assert_eq!(
        overdue.to_string(),
        "ns/a has waited in the queue for 601 s, the limit is 600 s"
    );
    assert!(
        !overdue.is_fixed_by_restart(),
        "other processes have the same load"
    );
    test.sleep(secs(91)).await;
    let stuck = progress.health(Some(waiting(secs(601)))).expect_err("unhealthy");
    assert!(stuck.is_fixed_by_restart(), "a restart is due for {stuck}");
}

#[tokio::test(start_paused = true)]
async fn busy_controller_is_healthy_until_a_key_waits_for_30_minutes() {
    let test = Fixture::new();
    for n in 0..8 {
        test.pods.add(&n.to_string());
    }
    let controller = test.controller(Options::default(), |context, _| async move {
        context.env.clock.sleep(secs(299)).await;
        Ok(Action::Done)
    });
    let _running = test.run(&controller);
    test.sleep(secs(1800)).await;
    assert_eq!(controller.health(), Ok(()));
    let activity = controller.activity();
    assert_eq!(
        (activity.queued, activity.processing, activity.processed),
        (1, 1, 6)
    );
    test.sleep(secs(1)).await;
    assert!(matches!(controller.health(), Err(Unhealthy::Overdue { .. })));
    test.sleep(secs(299)).await;
    assert_eq!(controller.health(), Ok(()), "the last key is processed");
}

#[tokio::test(start_paused = true)]
async fn source_without_contact_for_10_minutes_is_a_stale_watch() {
    let test = Fixture::new();
    let controller = test.controller(Options::default(), |_, _| async { Ok(Action::Done) });
    assert_eq!(controller.health(), Ok(()), "a new standby");
    let silent = |seconds| test.pods.set_silence(secs(seconds));
    silent(600);
    assert_eq!(controller.health(), Ok(()));
    silent(601);
    let stale = controller.health().expect_err("unhealthy");
    assert_eq!(
        stale.to_string(),
        "the watch of pods has had no event, bookmark or reconnect for 601 s (retrying: down)"
    );
    assert!(!stale.is_fixed_by_restart());
}
