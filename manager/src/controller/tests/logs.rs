//! Every line names its object.

use super::*;

use coxswain_tests::Log;
use tracing::level_filters::LevelFilter;

#[tokio::test(start_paused = true)]
async fn every_line_of_a_reconcile_names_its_object_whatever_the_level() {
    let log = Log::keep(LevelFilter::WARN);
    let bed = Bed::new();
    let options = Options {
        timeout: secs(1),
        ..Options::default()
    };
    let controller = bed.controller(options, |context, key| async move {
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
    let _running = bed.run(&controller);
    for name in ["a", "b", "c", "d"] {
        bed.sleep(secs(1)).await;
        bed.pods.add(name);
    }
    bed.sleep(secs(10)).await;
    let text = log.text();
    let span =
        |key: &str| format!("reconcile{{controller=test-controller key=ns/{key} cause=pods: added}}: ");
    let logged: Vec<&str> = text.lines().map(str::trim_start).collect();
    let own = |key: &str| format!("WARN {}Its own line", span(key));
    assert_eq!(
        logged,
        [
            own("a"),
            format!(
                "WARN {}Reconcile failed, and will be tried again error=for the test failures=1",
                span("a")
            ),
            own("b"),
            format!(
                "ERROR {}Reconcile failed, and is not tried again before the next event error=for the test",
                span("b")
            ),
            own("c"),
            format!(
                "ERROR {}Reconcile panicked panic=\"for the test\" failures=1",
                span("c")
            ),
            own("d"),
            format!(
                "ERROR {}Reconcile took too long and was dropped timeout_s=1.0 failures=1",
                span("d")
            ),
        ]
    );
}
