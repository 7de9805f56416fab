//! Errors, panics and timeouts.

use super::*;

use std::error::Error;
use std::fmt;

use crate::client::ClientError;
use crate::object::Resource;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// The times, in milliseconds, at which a reconciler with this result is called within `time` of an event.
async fn calls<F>(time: Duration, answer: F) -> Vec<u128>
where
    F: Fn() -> Result<Action, ReconcileError> + Send + Sync + Clone + 'static,
{
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, _| {
        log.write(&context, "");
        let answer = answer.clone();
        async move { answer() }
    });
    test.sleep(time).await;
    journal.times()
}

fn failed() -> ReconcileError {
    ReconcileError::retryable("for the test")
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles() {
    let times = calls(ms(700), || Err(failed())).await;
    assert_eq!(times, [0, 5, 15, 35, 75, 155, 315, 635]);
}

#[tokio::test(start_paused = true)]
async fn no_result_loops_hot() {
    let ten_minutes = Duration::from_mins(10);
    // 5 ms doubled 16 times is 5.5 minutes, and 17 times 10.9.
    assert_eq!(calls(ten_minutes, || Err(failed())).await.len(), 17);
    assert_eq!(calls(ten_minutes, || panic!("for the test")).await.len(), 17);
    assert_eq!(
        calls(ten_minutes, || Ok(Action::RequeueAfter(Duration::ZERO)))
            .await
            .len(),
        17
    );
    let postponed = || Ok(Action::Postpone(Duration::ZERO));
    assert_eq!(calls(ten_minutes, postponed).await.len(), 17);
    let terminal = || Err(ReconcileError::terminal("for the test"));
    assert_eq!(calls(ten_minutes, terminal).await.len(), 1);
    assert_eq!(
        calls(ten_minutes, || Ok(Action::RequeueAfter(secs(61))))
            .await
            .len(),
        10
    );
}

/// The times of the failures if each is followed by a reconcile with this result.
async fn failures_between(action: Action) -> Vec<u128> {
    let runs = Arc::new(AtomicUsize::new(0));
    let times = calls(secs(1), move || {
        let failing = runs.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        if failing { Err(failed()) } else { Ok(action) }
    });
    times.await.into_iter().step_by(2).collect()
}

#[tokio::test(start_paused = true)]
async fn postponed_reconcile_keeps_the_backoff_of_earlier_failures() {
    let times = failures_between(Action::Postpone(ms(1))).await;
    assert_eq!(times, [0, 6, 17, 38, 79, 160, 321, 642]);
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_a_success_and_ends_the_backoff() {
    let times = failures_between(Action::RequeueAfter(ms(1))).await;
    assert_eq!(times[..4], [0, 6, 12, 18]);
}

#[tokio::test(start_paused = true)]
async fn requested_wake_up_survives_an_error() {
    let again = |time| move || Err(failed().again_within(Some(time)));
    let times = calls(Duration::from_mins(10), again(secs(20))).await;
    let waits: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(
        waits[..13],
        [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_000]
    );
    // The backoff continues beside it: 17 reconciles in ten minutes, and 30 by request.
    assert!(waits[13..].iter().all(|it| *it <= 20_000), "{waits:?}");
    assert!((30..=17 + 30).contains(&waits.len()), "{}", waits.len());
    // A request for no time at all does not loop hot.
    for none in [Duration::ZERO, ms(1)] {
        let times = calls(secs(60), again(none)).await;
        assert!((55..75).contains(&times.len()), "{}", times.len());
    }
    let terminal = || Err(ReconcileError::terminal("for the test").again_within(Some(secs(1))));
    assert_eq!(calls(Duration::from_mins(10), terminal).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn requested_wake_up_honours_retry_after() {
    let busy = || {
        let error = ClientError::Unexplained {
            request_line: "PATCH /x".to_owned(),
            code: 429,
            retry_after: Some(secs(7)),
        };
        Err(ReconcileError::from(error).again_within(Some(secs(2))))
    };
    let times = calls(secs(30), busy).await;
    assert_eq!(times, [0, 7000, 14_000, 21_000, 28_000]);
}

#[tokio::test(start_paused = true)]
async fn success_ends_the_backoff() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let runs = AtomicUsize::new(0);
    let _running = test.start(move |context, _| {
        log.write(&context, "");
        let answer = match runs.fetch_add(1, Ordering::SeqCst) {
            0 | 1 | 2 | 4 => Err(failed()),
            _ => Ok(Action::Done),
        };
        async { answer }
    });
    test.sleep(ms(100)).await;
    test.pods.update("a");
    test.sleep(secs(10)).await;
    assert_eq!(journal.times(), [0, 5, 15, 35, 100, 105]);
}

#[tokio::test(start_paused = true)]
async fn retry_waits_for_retry_after_and_the_backoff() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, key| {
        let log = log.clone();
        async move {
            log.write(&context, "");
            context.client.get::<MetaObject>(&PODS, &key).await?;
            Ok(Action::Done)
        }
    });
    test.sleep(secs(25)).await;
    // The backoff is longer than two seconds from the tenth failure on: 2560 ms.
    let times = journal.times();
    let waits: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(
        waits,
        [2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 2560]
    );
}

#[tokio::test(start_paused = true)]
async fn event_does_not_shorten_retry_after() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, key| {
        let log = log.clone();
        async move {
            log.write(&context, "");
            context.client.get::<MetaObject>(&PODS, &key).await?;
            Ok(Action::Done)
        }
    });
    for _ in 0..50 {
        test.pods.update("a");
        test.sleep(ms(100)).await;
    }
    assert_eq!(journal.times(), [0, 2000, 4000]);
}

/// An error of a reconciler that wraps one of the client.
#[derive(Debug)]
struct Wrapped(ClientError);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot do it")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn wrapped_client_error_is_recognized() {
    let what = || "PATCH /x".to_owned();
    let fenced = || ClientError::Fenced { request_line: what() };
    let busy = || ClientError::Unexplained {
        request_line: what(),
        code: 429,
        retry_after: Some(secs(7)),
    };
    assert!(ReconcileError::from(fenced()).is_fenced());
    assert!(ReconcileError::retryable(Wrapped(fenced())).is_fenced());
    assert!(ReconcileError::terminal(Wrapped(fenced())).is_fenced());
    assert!(!ReconcileError::retryable("fenced").is_fenced());
    assert_eq!(
        ReconcileError::retryable(Wrapped(busy())).retry_after(),
        Some(secs(7))
    );
    assert!(!ReconcileError::from(busy()).is_terminal());
    assert_eq!(
        ReconcileError::from(busy()).to_string(),
        "PATCH /x: the server returned 429 without a Status"
    );
}

#[tokio::test(start_paused = true)]
async fn terminal_error_waits_for_the_next_event() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let _running = test.start(move |context, _| {
        log.write(&context, "");
        async { Err(ReconcileError::terminal("for the test")) }
    });
    test.sleep(secs(3600)).await;
    assert_eq!(journal.times(), [0]);
    test.pods.update("a");
    test.sleep(secs(3600)).await;
    assert_eq!(journal.times(), [0, 3_600_000]);
    assert_eq!(test.value("terminal_reconcile_errors_total"), "2");
    assert_eq!(test.value("reconcile_errors_total"), "2");
    assert_eq!(
        test.value("workqueue_retries_total{name=\"test-controller\"}"),
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn panic_loses_neither_the_worker_nor_the_key() {
    let test = Fixture::new();
    for name in ["before", "after", "well"] {
        test.pods.add(name);
    }
    let journal = Journal::new();
    let log = journal.clone();
    let running = test.start(move |context, key| {
        log.write(&context, key.name.to_string());
        let first = log.lines().iter().filter(|name| **name == *key.name).count() == 1;
        assert!(&*key.name != "before" || !first, "before any await");
        async move {
            context.env.clock.sleep(ms(1)).await;
            assert!(&*key.name != "after" || !first, "after an await");
            Ok(Action::Done)
        }
    });
    test.sleep(secs(10)).await;
    let mut lines = journal.lines();
    lines.sort();
    assert_eq!(lines, ["after", "after", "before", "before", "well"]);
    assert_eq!(test.value("reconcile_panics_total"), "2");
    assert_eq!(test.value("reconcile_errors_total"), "2");
    assert_eq!(test.value("reconcile_total{result=\"success\"}"), "3");
    assert_eq!(test.value("active_workers"), "0");
    assert!(!running.end.is_finished());
}

/// Counts its drops.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn reconcile_beyond_its_timeout_is_dropped_and_retried() {
    let test = Fixture::new();
    test.pods.add("slow");
    test.pods.add("well");
    let journal = Journal::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let options = Options {
        timeout: secs(2),
        ..Options::default()
    };
    let controller = test.controller(options, {
        let (journal, dropped) = (journal.clone(), dropped.clone());
        move |context, key| {
            let (journal, dropped) = (journal.clone(), Dropped(dropped.clone()));
            async move {
                journal.write(&context, key.name.to_string());
                if &*key.name == "slow" {
                    std::future::pending::<()>().await;
                }
                drop(dropped);
                Ok(Action::Done)
            }
        }
    });
    let _running = test.run(&controller);
    test.sleep(ms(1999)).await;
    assert_eq!(controller.running(), [Key::new("ns", "slow")]);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    test.sleep(ms(4)).await;
    assert_eq!(journal.lines(), ["slow", "well"]);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    assert_eq!(test.value("reconcile_timeouts_total"), "1");
    assert_eq!(test.value("reconcile_errors_total"), "1");
    test.sleep(ms(10)).await;
    assert_eq!(journal.lines(), ["slow", "well", "slow"]);
    assert_eq!(journal.times(), [0, 2000, 2005]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_bounded() {
    let answer = || {
        let asked = Duration::from_secs(u32::MAX.into());
        Err(ReconcileError::from(ClientError::Unexplained {
            request_line: "PATCH /x".to_owned(),
            code: 429,
            retry_after: Some(asked),
        }))
    };
    assert_eq!(calls(Duration::from_mins(16), answer).await.len(), 4);
}
