//! Metrics of the Tokio runtimes.

use prometheus::PullingGauge;

use steersman_manager::metrics::Registry;
use tokio::runtime::{Handle, RuntimeMetrics};

/// Registers the metrics of all runtimes together.
pub(crate) fn register<'a>(
    registry: &Registry,
    runtimes: impl IntoIterator<Item = &'a Handle>,
) -> prometheus::Result<()> {
    let runtimes: Vec<_> = runtimes.into_iter().map(Handle::metrics).collect();
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let alive = move || {
        runtimes
            .iter()
            .map(RuntimeMetrics::num_alive_tasks)
            .sum::<usize>() as f64
    };
    registry.register(Box::new(PullingGauge::new(
        "steersman_tokio_alive_tasks",
        "[ALPHA] Number of alive tasks of the Tokio runtimes.",
        Box::new(alive),
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use steersman_manager::manager::ControlRuntime;

    #[tokio::test]
    async fn alive_tasks_are_counted_when_scraped() {
        let registry = Registry::new("steersman");
        let control = ControlRuntime::start().expect("threads");
        let ([election, webhooks], current) = (control.handles(), Handle::current());
        let runtimes = [&current, election, webhooks];
        register(&registry, runtimes).expect("registered");
        let tasks = || registry.gather()[0].get_metric()[0].get_gauge().get_value();
        let before = tasks();
        for runtime in runtimes {
            let task = runtime.spawn(std::future::pending::<()>());
            assert!((tasks() - before - 1.0).abs() < f64::EPSILON);
            task.abort();
            assert!(task.await.expect_err("aborted").is_cancelled());
            // A task of another thread is removed shortly after its end was reported.
            while tasks() > before {
                tokio::task::yield_now().await;
            }
        }
    }
}
