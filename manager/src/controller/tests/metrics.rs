//! Metrics of a controller.

use super::*;

use crate::controller::ControllerError;

/// The samples without buckets and without the label of the controller.
fn samples(test: &Fixture) -> Vec<String> {
    let output = TextEncoder::new()
        .encode_to_string(&test.registry.gather())
        .expect("a text");
    output
        .lines()
        .filter(|line| line.starts_with("controller_runtime_") && !line.contains("_bucket"))
        .map(|line| {
            assert!(line.contains("controller=\"test-controller\""), "{line}");
            line.replace("controller=\"test-controller\"", "")
                .replace("controller_runtime_", "")
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn all_metrics_are_exported_as_0_from_the_start() {
    let test = Fixture::new();
    let options = Options {
        workers: 5,
        queue: Some("test".to_owned()),
        ..Options::default()
    };
    let _controller = test.controller(options, |_, _| async { Ok(Action::Done) });
    assert_eq!(
        samples(&test),
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
    assert_eq!(test.value("workqueue_depth{name=\"test\"}"), "0");
    let families = test.registry.gather();
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
async fn metrics_count_each_outcome() {
    let test = Fixture::new();
    let options = Options {
        workers: 8,
        timeout: secs(10),
        ..Options::default()
    };
    let controller = test.controller(options, |context, key| async move {
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
    let running = test.run(&controller);
    for name in [
        "error",
        "terminal",
        "panic",
        "timeout",
        "requeue",
        "requeue_after",
        "done",
    ] {
        test.pods.add(name);
    }
    test.sleep(ms(500)).await;
    assert_eq!(test.value("active_workers"), "7");
    // Before any retry can end.
    test.sleep(ms(600)).await;
    running.stop.cancel();
    running.end.await.expect("not aborted").expect("not fatal");
    assert_eq!(
        samples(&test),
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
async fn name_is_registered_as_long_as_its_controller_exists() {
    let test = Fixture::new();
    let build = |name: &str, queue: &str| {
        let options = Options {
            queue: Some(queue.to_owned()),
            ..Options::default()
        };
        let reconcile = |_: ReconcileContext, _: Key| async { Ok(Action::Done) };
        let client = test.transport.reader("test", None);
        Builder::new(name, options, ReconcileFn(reconcile)).build(&test.env, client, &test.registry)
    };
    let first = build("a", "a").expect("a controller");
    assert!(matches!(build("a", "b"), Err(ControllerError::Metrics { .. })));
    assert!(matches!(build("b", "a"), Err(ControllerError::Queue { .. })));
    let _second = build("b", "b").expect("a controller: the failed builds have unregistered their metrics");
    drop(first);
    build("a", "a").expect("a controller");
}

#[tokio::test(start_paused = true)]
async fn controller_without_workers_or_timeout_is_rejected() {
    let test = Fixture::new();
    let refused = |options| {
        let client = test.transport.reader("test", None);
        let builder = test.builder(options, |_, _| async { Ok(Action::Done) });
        builder
            .build(&test.env, client, &test.registry)
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
    assert!(matches!(refused(no_time), ControllerError::NoTimeout { .. }));
}
