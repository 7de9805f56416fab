//! Every line names its object.

use super::*;

use std::io::Write;

use tracing::level_filters::LevelFilter;

/// What was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_reconcile_names_its_object_whatever_the_level() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_max_level(LevelFilter::WARN)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // While there is only one, `tracing` asks the thread that first comes to a span whether anybody wants it: that may be the
    // one of another test, where nobody does.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
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
    let text = String::from_utf8(lock(&lines.0).clone()).expect("text");
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
