//! Metrics of the Tokio runtime.

use prometheus::PullingGauge;

use coxswain_manager::metrics::Registry;
use tokio::runtime::Handle;

/// Registers the metrics of the current runtime.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn register(registry: &Registry) -> prometheus::Result<()> {
    let runtime = Handle::current().metrics();
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let alive = move || runtime.num_alive_tasks() as f64;
    registry.register(Box::new(PullingGauge::new(
        "coxswain_tokio_alive_tasks",
        "[ALPHA] Number of alive tasks of the Tokio runtime.",
        Box::new(alive),
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use coxswain_manager::env::TaskSet;

    #[tokio::test]
    async fn alive_tasks_are_counted_when_scraped() {
        let registry = Registry::new("coxswain");
        register(&registry).expect("registered");
        let tasks = || registry.gather()[0].get_metric()[0].get_gauge().get_value();
        let before = tasks();
        let set = TaskSet::new();
        let task = set.handle().spawn(std::future::pending::<()>());
        assert!((tasks() - before - 1.0).abs() < f64::EPSILON);
        task.abort();
        assert!(task.await.expect_err("aborted").is_cancelled());
        assert!((tasks() - before).abs() < f64::EPSILON);
    }
}
