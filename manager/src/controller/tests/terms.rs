//! Start and end of terms.

use super::*;

use crate::client::Delete;
use crate::object::{Resource, Uid};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// Records the start and the end of every reconcile; each takes 100 ms.
fn slow(
    journal: &Journal,
) -> impl Fn(ReconcileContext, Key) -> BoxFuture<'static, Result<Action, ReconcileError>> + use<> {
    let journal = journal.clone();
    move |context, key| {
        let journal = journal.clone();
        Box::pin(async move {
            journal.write(&context, format!("{} begins", key.name));
            context.env.clock.sleep(ms(100)).await;
            journal.write(&context, format!("{} ends", key.name));
            Ok(Action::Done)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn stop_finishes_running_reconciles_and_starts_no_others() {
    let test = Fixture::new();
    for name in ["a", "b", "c"] {
        test.pods.add(name);
    }
    let journal = Journal::new();
    let controller = test.controller(Options::default(), slow(&journal));
    let running = test.run(&controller);
    test.sleep(ms(50)).await;
    assert_eq!(test.value("workqueue_depth{name=\"test-controller\"}"), "2");
    assert_eq!(test.value("active_workers"), "1");
    running.stop.cancel();
    test.sleep(ms(49)).await;
    assert!(!running.end.is_finished());
    assert_eq!(controller.running(), [Key::new("ns", "a")]);
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(journal.lines(), ["a begins", "a ends"]);
    test.sleep(secs(3600)).await;
    assert_eq!(journal.lines().len(), 2);
    assert!(controller.running().is_empty());
    assert_eq!(test.value("workqueue_depth{name=\"test-controller\"}"), "0");
    assert_eq!(test.value("active_workers"), "0");
}

#[tokio::test(start_paused = true)]
async fn end_of_a_term_stops_the_workers_and_fences_the_client() {
    let test = Fixture::new();
    test.pods.add("a");
    test.pods.add("b");
    let journal = Journal::new();
    let log = journal.clone();
    let controller = test.controller(Options::default(), move |context, key| {
        let log = log.clone();
        async move {
            context.env.clock.sleep(ms(100)).await;
            let deleted = context
                .client
                .delete(&PODS, &key, &Delete::of(Uid::from("x")))
                .await;
            log.write(
                &context,
                deleted
                    .as_ref()
                    .map_or_else(ToString::to_string, |_| String::new()),
            );
            deleted?;
            Ok(Action::Done)
        }
    });
    let running = test.run(&controller);
    test.sleep(ms(50)).await;
    test.fence.close();
    // The next term has started when the old reconcile sends its write.
    let next = test.fence.open_forever();
    assert_ne!(next, running.term);
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(journal.times(), [100]);
    assert!(
        journal.lines()[0].ends_with("cancelled, this process is stopping or may no longer be the leader"),
        "{:?}",
        journal.lines()
    );
    assert_eq!(test.api.count(&Matcher::any()), 0);
    assert_eq!(test.value("reconcile_errors_total"), "0");
    for result in ["success", "error", "requeue", "requeue_after"] {
        assert_eq!(
            test.value(&format!("reconcile_total{{result=\"{result}\"}}")),
            "0"
        );
    }
    assert_eq!(
        test.value("workqueue_retries_total{name=\"test-controller\"}"),
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn new_term_starts_from_the_current_state_only() {
    let test = Fixture::new();
    test.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let controller = test.controller(Options::default(), move |context, key| {
        log.write(&context, format!("{} {}", key.name, context.cause));
        async { Err(ReconcileError::retryable("for the test")) }
    });
    let first = test.run(&controller);
    test.sleep(ms(1000)).await;
    let calls = journal.lines().len();
    assert_eq!(calls, 8);
    test.fence.close();
    first.end.await.expect("not aborted").expect("not fatal");
    let adds = || test.value("workqueue_adds_total{name=\"test-controller\"}");
    assert_eq!(adds(), "8");
    test.pods.delete("a");
    test.pods.add("b");
    test.sleep(secs(3600)).await;
    assert_eq!(journal.lines().len(), calls);
    assert_eq!(adds(), "8", "metrics are exported between terms");

    let _second = test.run(&controller);
    test.sleep(ms(20)).await;
    assert_eq!(
        journal.lines()[calls..],
        ["b pods: initial", "b retry", "b retry"],
        "with a new backoff, and without a"
    );
    assert_eq!(adds(), "11");
}

#[tokio::test(start_paused = true)]
async fn workers_start_when_the_caches_have_synced() {
    let test = Fixture::new();
    test.pods.add("a");
    test.pods.0.synced.send_replace(false);
    let journal = Journal::new();
    let controller = test.controller(Options::default(), slow(&journal));
    let running = test.run(&controller);
    test.sleep(secs(3600)).await;
    assert!(journal.lines().is_empty());
    assert_eq!(controller.unsynced(), ["pods"]);
    assert_eq!(controller.health(), Ok(()));
    test.pods.0.synced.send_replace(true);
    test.sleep(ms(1)).await;
    assert!(controller.unsynced().is_empty());
    assert_eq!(journal.lines(), ["a begins"]);
    assert!(!running.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn wait_for_caches_can_be_stopped() {
    let test = Fixture::new();
    test.pods.0.synced.send_replace(false);
    let controller = test.controller(Options::default(), slow(&Journal::new()));
    let stopped = test.run(&controller);
    test.sleep(secs(1)).await;
    stopped.stop.cancel();
    stopped.end.await.expect("not aborted").expect("not fatal");
    let fenced = test.run(&controller);
    test.sleep(secs(1)).await;
    test.fence.close();
    fenced.end.await.expect("not aborted").expect("not fatal");
}

#[tokio::test(start_paused = true)]
async fn dropped_term_cancels_its_reconciles() {
    let test = Fixture::new();
    test.pods.add("a");
    test.pods.add("b");
    let journal = Journal::new();
    let controller = test.controller(Options::default(), slow(&journal));
    let running = test.run(&controller);
    test.sleep(ms(50)).await;
    running.end.abort();
    assert!(running.end.await.is_err_and(|error| error.is_cancelled()));
    assert!(controller.running().is_empty());
    test.sleep(secs(3600)).await;
    assert_eq!(journal.lines(), ["a begins"]);
    assert_eq!(controller.health(), Ok(()), "the queue of the term is dropped");
    assert_eq!(test.value("active_workers"), "0");
    let _again = test.run(&controller);
    test.sleep(secs(10)).await;
    assert_eq!(
        journal.lines(),
        ["a begins", "a begins", "a ends", "b begins", "b ends"]
    );
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_handler_ends_the_controller() {
    let test = Fixture::new();
    test.pods.add("well");
    let journal = Journal::new();
    let handler = Handler::map(|pod: &MetaObject| {
        assert!(&*pod.metadata.name != "odd", "an odd pod");
        vec![pod.metadata.key()]
    });
    let source = Source::new(test.pods.clone(), handler);
    let controller = test.build(
        Builder::new("test-controller", Options::default(), ReconcileFn(slow(&journal))).watch(source),
    );
    let running = test.run(&controller);
    test.sleep(ms(50)).await;
    test.pods.add("odd");
    let fatal = running.end.await.expect("not aborted").expect_err("fatal");
    assert_eq!(
        fatal.to_string(),
        "controller test-controller: source pods panicked: an odd pod"
    );
    test.sleep(secs(10)).await;
    assert_eq!(journal.lines(), ["well begins"], "it was cancelled");
}

#[tokio::test(start_paused = true)]
async fn dropped_cache_ends_the_controller() {
    let test = Fixture::new();
    let running = test.start(slow(&Journal::new()));
    test.sleep(ms(1)).await;
    test.pods.end();
    let fatal = running.end.await.expect("not aborted").expect_err("fatal");
    assert_eq!(fatal.to_string(), "controller test-controller: source pods ended");
}
