//! Logs of a reconcile.

use super::*;

use steersman_harness::Log;
use tracing::level_filters::LevelFilter;

#[tokio::test(start_paused = true)]
async fn every_log_line_of_a_reconcile_has_its_span_at_any_level() {
    let log = Log::keep(LevelFilter::WARN);
    let test = Fixture::new();
    let options = Options {
        timeout: secs(1),
        ..Options::default()
    };
    let controller = test.controller(options, |context, key| async move {
        if matches!(context.cause, Cause::Retry) {
            return Ok(Action::Done);
        }
        tracing::warn!("Its own line");
        context.env.clock.sleep(ms(1)).await;
        match &*key.name {
            "a" => Err(ReconcileError::retryable("for the test")),
            "b" => Err(ReconcileError::terminal("for the test")),
            "c" => panic!("for the test"),
            _ => std::future::pending().await,
        }
    });
    let _running = test.run(&controller);
    for name in ["a", "b", "c", "d"] {
        test.sleep(secs(1)).await;
        test.pods.add(name);
    }
    test.sleep(secs(10)).await;
    let output = log.text();
    let span =
        |key: &str| format!("reconcile{{controller=test-controller object=/ns/{key} cause=pods: added}}: ");
    let logged: Vec<&str> = output.lines().map(str::trim_start).collect();
    let own = |key: &str| format!("WARN {}Its own line", span(key));
    assert_eq!(
        logged,
        [
            own("a"),
            format!(
                "WARN {}Reconcile failed, retrying error=for the test failures=1",
                span("a")
            ),
            own("b"),
            format!(
                "ERROR {}Reconcile failed, not retrying before the next event error=for the test",
                span("b")
            ),
            own("c"),
            format!(
                "ERROR {}Reconcile panicked panic=\"for the test\" failures=1",
                span("c")
            ),
            own("d"),
            format!(
                "ERROR {}Reconcile timed out timeoutSeconds=1.0 failures=1",
                span("d")
            ),
        ]
    );
}
