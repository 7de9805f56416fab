//! The beginning and the end of terms.

use super::*;

use crate::client::Delete;
use crate::object::{Resource, Uid};

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// Journals the begin and the end of every reconcile; each takes 100 ms.
fn slow(
    journal: &Journal,
) -> impl Fn(Context, Key) -> BoxFuture<'static, Result<Action, ReconcileError>> + use<> {
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
async fn a_stop_finishes_what_has_begun_and_begins_nothing_more() {
    let bed = Bed::new();
    for name in ["a", "b", "c"] {
        bed.pods.add(name);
    }
    let journal = Journal::new();
    let controller = bed.controller(Options::default(), slow(&journal));
    let running = bed.run(&controller);
    bed.sleep(ms(50)).await;
    assert_eq!(bed.value("workqueue_depth{name=\"test-controller\"}"), "2");
    assert_eq!(bed.value("active_workers"), "1");
    running.stop.cancel();
    bed.sleep(ms(49)).await;
    assert!(!running.end.is_finished());
    assert_eq!(controller.running(), [Key::new("ns", "a")]);
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(journal.lines(), ["a begins", "a ends"]);
    bed.sleep(secs(3600)).await;
    assert_eq!(journal.lines().len(), 2);
    assert!(controller.running().is_empty());
    assert_eq!(bed.value("workqueue_depth{name=\"test-controller\"}"), "0");
    assert_eq!(bed.value("active_workers"), "0");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_ends_the_work_and_shuts_its_client() {
    let bed = Bed::new();
    bed.pods.add("a");
    bed.pods.add("b");
    let journal = Journal::new();
    let log = journal.clone();
    let controller = bed.controller(Options::default(), move |context, key| {
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
    let running = bed.run(&controller);
    bed.sleep(ms(50)).await;
    bed.fence.close();
    // The next term is on already when the old reconcile comes to its write.
    let next = bed.fence.open_forever();
    assert_ne!(next, running.term);
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(journal.times(), [100]);
    assert!(
        journal.lines()[0].ends_with("cancelled, this process is stopping or may no longer be the leader"),
        "{:?}",
        journal.lines()
    );
    assert_eq!(bed.api.0.load(Ordering::SeqCst), 0);
    assert_eq!(bed.value("reconcile_errors_total"), "0");
    for result in ["success", "error", "requeue", "requeue_after"] {
        assert_eq!(bed.value(&format!("reconcile_total{{result=\"{result}\"}}")), "0");
    }
    assert_eq!(
        bed.value("workqueue_retries_total{name=\"test-controller\"}"),
        "0"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_term_begins_with_the_present_state_and_nothing_of_the_old_one() {
    let bed = Bed::new();
    bed.pods.add("a");
    let journal = Journal::new();
    let log = journal.clone();
    let controller = bed.controller(Options::default(), move |context, key| {
        log.write(&context, format!("{} {}", key.name, context.cause));
        async { Err(ReconcileError::retryable("for the test")) }
    });
    let first = bed.run(&controller);
    bed.sleep(ms(1000)).await;
    let calls = journal.lines().len();
    assert_eq!(calls, 8);
    bed.fence.close();
    first.end.await.expect("not aborted").expect("not fatal");
    let adds = || bed.value("workqueue_adds_total{name=\"test-controller\"}");
    assert_eq!(adds(), "8");
    bed.pods.delete("a");
    bed.pods.add("b");
    bed.sleep(secs(3600)).await;
    assert_eq!(journal.lines().len(), calls);
    assert_eq!(adds(), "8", "the series are there between terms");

    let _second = bed.run(&controller);
    bed.sleep(ms(20)).await;
    assert_eq!(
        journal.lines()[calls..],
        ["b pods: initial", "b retry", "b retry"],
        "with the backoff from its beginning, and without a"
    );
    assert_eq!(adds(), "11");
}

#[tokio::test(start_paused = true)]
async fn workers_start_when_the_caches_have_synced() {
    let bed = Bed::new();
    bed.pods.add("a");
    bed.pods.0.synced.send_replace(false);
    let journal = Journal::new();
    let controller = bed.controller(Options::default(), slow(&journal));
    let running = bed.run(&controller);
    bed.sleep(secs(3600)).await;
    assert!(journal.lines().is_empty());
    assert_eq!(controller.unsynced(), ["pods"]);
    assert_eq!(controller.health(), Ok(()));
    bed.pods.0.synced.send_replace(true);
    bed.sleep(ms(1)).await;
    assert!(controller.unsynced().is_empty());
    assert_eq!(journal.lines(), ["a begins"]);
    assert!(!running.end.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_caches_can_be_stopped() {
    let bed = Bed::new();
    bed.pods.0.synced.send_replace(false);
    let controller = bed.controller(Options::default(), slow(&Journal::new()));
    let stopped = bed.run(&controller);
    bed.sleep(secs(1)).await;
    stopped.stop.cancel();
    stopped.end.await.expect("not aborted").expect("not fatal");
    let fenced = bed.run(&controller);
    bed.sleep(secs(1)).await;
    bed.fence.close();
    fenced.end.await.expect("not aborted").expect("not fatal");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_term_cuts_off_its_reconciles() {
    let bed = Bed::new();
    bed.pods.add("a");
    bed.pods.add("b");
    let journal = Journal::new();
    let controller = bed.controller(Options::default(), slow(&journal));
    let running = bed.run(&controller);
    bed.sleep(ms(50)).await;
    running.end.abort();
    assert!(running.end.await.is_err_and(|error| error.is_cancelled()));
    assert!(controller.running().is_empty());
    bed.sleep(secs(3600)).await;
    assert_eq!(journal.lines(), ["a begins"]);
    assert_eq!(
        controller.health(),
        Ok(()),
        "what was queued is nobody's any more"
    );
    assert_eq!(bed.value("active_workers"), "0");
    let _again = bed.run(&controller);
    bed.sleep(secs(10)).await;
    assert_eq!(
        journal.lines(),
        ["a begins", "a begins", "a ends", "b begins", "b ends"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_handler_ends_the_controller_by_name() {
    let bed = Bed::new();
    bed.pods.add("well");
    let journal = Journal::new();
    let handler = Handler::map(|pod: &MetaObject| {
        assert!(&*pod.metadata.name != "odd", "an odd pod");
        vec![pod.metadata.key()]
    });
    let source = Source::new(bed.pods.clone(), handler);
    let controller =
        bed.build(Builder::new("test-controller", Options::default(), By(slow(&journal))).watch(source));
    let running = bed.run(&controller);
    bed.sleep(ms(50)).await;
    bed.pods.add("odd");
    let fatal = running.end.await.expect("not aborted").expect_err("fatal");
    assert_eq!(
        fatal.to_string(),
        "controller test-controller: source pods panicked: an odd pod"
    );
    bed.sleep(secs(10)).await;
    assert_eq!(journal.lines(), ["well begins"], "it was cut off");
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_gone_ends_the_controller() {
    let bed = Bed::new();
    let running = bed.start(slow(&Journal::new()));
    bed.sleep(ms(1)).await;
    bed.pods.end();
    let fatal = running.end.await.expect("not aborted").expect_err("fatal");
    assert_eq!(
        fatal.to_string(),
        "controller test-controller: nothing more comes from its source pods"
    );
}
