//! The eight series.

use super::*;

use crate::controller::ControllerError;

/// Its samples but for the buckets, without the name of the controller.
fn samples(bed: &Bed) -> Vec<String> {
    let text = TextEncoder::new()
        .encode_to_string(&bed.registry.gather())
        .expect("a text");
    text.lines()
        .filter(|line| line.starts_with("controller_runtime_") && !line.contains("_bucket"))
        .map(|line| {
            assert!(line.contains("controller=\"test-controller\""), "{line}");
            line.replace("controller=\"test-controller\"", "")
                .replace("controller_runtime_", "")
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn all_are_there_at_0_from_the_start_and_the_queue_s_too() {
    let bed = Bed::new();
    let options = Options {
        workers: 5,
        queue: Some("test".to_owned()),
        ..Options::default()
    };
    let _controller = bed.controller(options, |_, _| async { Ok(Action::Done) });
    assert_eq!(
        samples(&bed),
        [
            "active_workers{} 0",
            "max_concurrent_reconciles{} 5",
            "reconcile_errors_total{} 0",
            "reconcile_panics_total{} 0",
            "reconcile_time_seconds_sum{} 0",
            "reconcile_time_seconds_count{} 0",
            "reconcile_timeouts_total{} 0",
            "reconcile_total{,result=\"error\"} 0",
            "reconcile_total{,result=\"requeue\"} 0",
            "reconcile_total{,result=\"requeue_after\"} 0",
            "reconcile_total{,result=\"success\"} 0",
            "terminal_reconcile_errors_total{} 0",
        ]
    );
    assert_eq!(bed.value("workqueue_depth{name=\"test\"}"), "0");
    let families = bed.registry.gather();
    let time = families.iter().find(|f| f.name().ends_with("_time_seconds"));
    let time = time.expect("a histogram").get_metric()[0].get_histogram();
    assert_eq!(time.get_bucket().len(), 40);
    assert!(
        families
            .iter()
            .all(|f| f.help().starts_with("[ALPHA] ") || f.help().starts_with("[BETA] "))
    );
}

#[tokio::test(start_paused = true)]
async fn each_counts_what_its_name_says() {
    let bed = Bed::new();
    let options = Options {
        workers: 8,
        timeout: secs(10),
        ..Options::default()
    };
    let controller = bed.controller(options, |context, key| async move {
        context.env.clock.sleep(secs(1)).await;
        match &*key.name {
            "error" => Err(ReconcileError::retryable("for the test")),
            "terminal" => Err(ReconcileError::terminal("for the test")),
            "panic" => panic!("for the test"),
            "timeout" => std::future::pending().await,
            "requeue" => Ok(Action::RequeueAfter(Duration::ZERO)),
            "requeue_after" => Ok(Action::RequeueAfter(secs(3600))),
            _ => Ok(Action::Done),
        }
    });
    let running = bed.run(&controller);
    for name in [
        "error",
        "terminal",
        "panic",
        "timeout",
        "requeue",
        "requeue_after",
        "done",
    ] {
        bed.pods.add(name);
    }
    bed.sleep(ms(500)).await;
    assert_eq!(bed.value("active_workers"), "7");
    // Before any retry can come to its end.
    bed.sleep(ms(600)).await;
    running.stop.cancel();
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(
        samples(&bed),
        [
            "active_workers{} 0",
            "max_concurrent_reconciles{} 8",
            // The first runs of error, terminal, panic and timeout; and the second ones of error and panic.
            "reconcile_errors_total{} 6",
            "reconcile_panics_total{} 2",
            "reconcile_time_seconds_sum{} 19",
            "reconcile_time_seconds_count{} 10",
            "reconcile_timeouts_total{} 1",
            "reconcile_total{,result=\"error\"} 6",
            "reconcile_total{,result=\"requeue\"} 2",
            "reconcile_total{,result=\"requeue_after\"} 1",
            "reconcile_total{,result=\"success\"} 1",
            "terminal_reconcile_errors_total{} 1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_as_long_as_its_controller_lives() {
    let bed = Bed::new();
    let build = |name: &str, queue: &str| {
        let options = Options {
            queue: Some(queue.to_owned()),
            ..Options::default()
        };
        let reconcile = |_: Context, _: Key| async { Ok(Action::Done) };
        let client = bed.transport.client("test", None);
        Builder::new(name, options, By(reconcile)).build(&bed.env, client, &bed.registry)
    };
    let first = build("a", "a").expect("a controller");
    assert!(matches!(build("a", "b"), Err(ControllerError::Metrics { .. })));
    assert!(matches!(build("b", "a"), Err(ControllerError::Queue { .. })));
    let _second = build("b", "b").expect("a controller: what failed has left nothing behind");
    drop(first);
    build("a", "a").expect("a controller");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_could_do_nothing_is_refused() {
    let bed = Bed::new();
    let refused = |options| {
        let client = bed.transport.client("test", None);
        let builder = bed.builder(options, |_, _| async { Ok(Action::Done) });
        builder
            .build(&bed.env, client, &bed.registry)
            .expect_err("refused")
    };
    let no_workers = Options {
        workers: 0,
        ..Options::default()
    };
    assert!(matches!(refused(no_workers), ControllerError::NoWorkers { .. }));
    let no_time = Options {
        timeout: Duration::ZERO,
        ..Options::default()
    };
    assert!(matches!(refused(no_time), ControllerError::NoTime { .. }));
}
