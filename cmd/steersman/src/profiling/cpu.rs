//! CPU profiles: a signal samples the stacks of running threads 100 times per second of CPU time.
//!
//! One profile runs at a time. It ends when the client disconnects.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use pprof::protos::Message as _;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use steersman_manager::env::Clock;
use steersman_manager::serve::HttpResponse;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{download, failed, text};

/// As in Go.
const SAMPLES_PER_SECOND: i32 = 100;
const DEFAULT_SECONDS: u64 = 30;
const MAX_SECONDS: u64 = 120;
/// A thread that is interrupted in these libraries may hold a lock that the unwinder needs: it is not sampled.
const NOT_SAMPLED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];
/// The function that takes a sample, as a regular expression. The compiler may inline it into the signal handler, which is
/// not in the profile.
const SAMPLER: &str = ".*pprof::backtrace::.*";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Profiler {
    clock: Clock,
    stop: CancellationToken,
    /// One permit: the process has one timer.
    running: Arc<Semaphore>,
}

/// Samples until dropped.
struct Sampling {
    guard: ProfilerGuard<'static>,
    /// Released after the guard.
    _running: OwnedSemaphorePermit,
}

impl Profiler {
    pub(super) fn new(clock: Clock, stop: CancellationToken) -> Self {
        Self {
            clock,
            stop,
            running: Arc::new(Semaphore::new(1)),
        }
    }

    pub(super) async fn profile(&self, query: &str) -> HttpResponse {
        let Some(seconds) = seconds(query) else {
            let message = format!("seconds must be a number between 1 and {MAX_SECONDS}\n");
            return text(StatusCode::BAD_REQUEST, message);
        };
        let Ok(running) = self.running.clone().try_acquire_owned() else {
            return text(
                StatusCode::TOO_MANY_REQUESTS,
                "another CPU profile is running, try again later\n",
            );
        };
        // Starting and symbolizing read the debug information of the binary.
        let sampling = match blocking(move || start(running)).await {
            Ok(sampling) => sampling,
            Err(error) => return failed("CPU", &error),
        };
        tracing::info!(seconds, "Started CPU profile");
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.clock.sleep(Duration::from_secs(seconds)) => {}
        }
        match blocking(move || encode(&sampling)).await {
            Ok(profile) => download("profile", profile),
            Err(error) => failed("CPU", &error),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BoxError> + Send + 'static,
) -> Result<T, BoxError> {
    tokio::task::spawn_blocking(work).await?
}

fn start(running: OwnedSemaphorePermit) -> Result<Sampling, BoxError> {
    let builder = ProfilerGuardBuilder::default()
        .frequency(SAMPLES_PER_SECOND)
        .blocklist(&NOT_SAMPLED);
    Ok(Sampling {
        guard: builder.build()?,
        _running: running,
    })
}

fn encode(sampling: &Sampling) -> Result<Vec<u8>, BoxError> {
    let mut profile = sampling.guard.report().build()?.pprof()?;
    // A reader drops the frames of this function and of its callees.
    profile.drop_frames = i64::try_from(profile.string_table.len())?;
    profile.string_table.push(SAMPLER.to_owned());
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(&profile.encode_to_vec())?;
    Ok(compressed.finish()?)
}

/// Returns the duration that the query requests; none if it is invalid.
fn seconds(query: &str) -> Option<u64> {
    let requested = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    let seconds = requested.map_or(Some(DEFAULT_SECONDS), |it| it.parse().ok())?;
    (1..=MAX_SECONDS).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::io::Read as _;

    use rustix::time::{ClockId, clock_gettime};
    use steersman_harness::time;

    use super::*;

    /// Uses more than a second of CPU time.
    #[inline(never)]
    fn use_cpu_time() {
        let used = || clock_gettime(ClockId::ThreadCPUTime).tv_sec;
        let end = used() + 2;
        while used() < end {
            black_box((0..1_000_000_u64).fold(1, |product, it| black_box(it ^ product)));
        }
    }

    /// One test, because a process has one profiler.
    #[tokio::test]
    async fn profile_contains_the_samples_until_the_process_stops() {
        let stop = CancellationToken::new();
        let profiler = Profiler::new(Clock::system(), stop.clone());
        let running = profiler.running.clone().try_acquire_owned();
        let sampling = start(running.expect("no other profile")).expect("a profile");
        use_cpu_time();
        let compressed = encode(&sampling).expect("a profile");
        let mut profile = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&*compressed);
        decoder.read_to_end(&mut profile).expect("a gzip file");
        let profile = String::from_utf8_lossy(&profile);
        for name in ["samples", "cpu", "nanoseconds", "use_cpu_time"] {
            assert!(profile.contains(name), "{name}: {profile}");
        }

        drop(sampling);
        stop.cancel();
        let stopped = time::within(time::ANSWER, profiler.profile("seconds=120"));
        assert_eq!(stopped.await.expect("a response").status(), StatusCode::OK);
    }

    #[test]
    fn duration_is_between_one_second_and_two_minutes() {
        for (query, expected) in [
            ("", Some(30)),
            ("debug=0", Some(30)),
            ("debug=0&seconds=1", Some(1)),
            ("seconds=120", Some(120)),
            ("seconds=0", None),
            ("seconds=121", None),
            ("seconds=-1", None),
            ("seconds=", None),
            ("seconds=1.5", None),
            ("seconds=18446744073709551616", None),
        ] {
            assert_eq!(seconds(query), expected, "{query}");
        }
    }
}
