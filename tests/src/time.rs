//! The harness's only use of the clock: deadlines around everything that could hang, and polling for what has no event.
//!
//! The product takes its time from an injected clock; here the servers are real processes and so is the time.

use std::time::{Duration, Instant};

/// Long enough for any single answer on a busy machine, short enough that a hanging server fails one test, not the run.
pub const ANSWER: Duration = Duration::from_mins(1);

/// How often [`eventually`] looks again.
pub const POLL: Duration = Duration::from_millis(50);

/// The output of `work`, or `None` when it takes longer than `limit`.
pub async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    tokio::time::timeout(limit, work).await.ok()
}

/// The time, to measure how long something takes.
pub fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    Instant::now()
}

/// Waits; only for tests whose subject is that time passes (a deadline, a grace period).
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

/// Asks again and again until there is an answer, or `None` when there is none within `limit`.
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
