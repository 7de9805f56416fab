//! Deadlines and polling. The servers are real processes, so that the tests use the real clock.

use std::time::{Duration, Instant};

/// The limit of one answer on a busy machine.
pub const ANSWER: Duration = Duration::from_mins(1);

/// The interval of [`eventually`].
pub const POLL: Duration = Duration::from_millis(50);

/// Returns the output of `work`, or `None` after `limit`.
pub async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    tokio::time::timeout(limit, work).await.ok()
}

/// Returns the current time, for measurements.
pub fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    Instant::now()
}

/// Waits. Only for tests of deadlines and grace periods.
pub async fn pause(length: Duration) {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    tokio::time::sleep(length).await;
}

/// Prints the distribution of measured times. On a cluster they depend on the machine and are not asserted.
pub fn print_distribution(measured: &str, times: &[Duration]) {
    let mut times = times.to_vec();
    times.sort();
    if let [min, .., max] | [min @ max] = times[..] {
        let median = times[times.len() / 2];
        println!(
            "{measured}: min {min:.3?}, median {median:.3?}, max {max:.3?} of {}",
            times.len()
        );
    }
}

/// Polls until `ask` returns a value. Returns `None` after `limit`.
pub async fn eventually<T, F: AsyncFnMut() -> Option<T>>(limit: Duration, mut ask: F) -> Option<T> {
    within(limit, async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            pause(POLL).await;
        }
    })
    .await
}
