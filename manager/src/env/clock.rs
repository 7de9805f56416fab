//! The clock of a manager.
//!
//! It is based on the runtime's clock, so that it moves with a paused one. A [`Fault`] makes it misbehave, so that a
//! simulation can give two managers different clocks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::sync::watch;

/// Exceeds the lifetime of any process. Longer delays are cut to it, because an `Instant` has no maximum to saturate at.
const MAX_DELAY: Duration = Duration::from_hours(30 * 365 * 24);

/// Monotonic time, wall time and sleep. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    wall_at_start: Timestamp,
    start: Instant,
    /// None for the machine's clock.
    faults: Option<Arc<Faults>>,
}

/// A clock fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Stops monotonic time and all sleeps until [`Fault::Thaw`], as on a suspended machine. Wall time continues.
    Freeze,
    /// Resumes monotonic time where it stopped.
    Thaw,
    /// Offsets wall time from the true time. Monotonic time is not affected.
    Skew(SignedDuration),
    /// Sets the rate of all clocks of the machine, in percent of the true rate (at least 1).
    Rate(u32),
}

/// A point in time on all clocks.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    monotonic: Instant,
    /// Time since boot, including suspension.
    boot: Duration,
    wall: Timestamp,
}

#[derive(Debug)]
struct Faults {
    state: Mutex<State>,
    /// Wakes sleepers whose deadline has moved.
    changed: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The total time for which monotonic time was frozen.
    lost: Duration,
    /// The machine's time at which monotonic time was frozen.
    frozen: Option<Instant>,
    skew: SignedDuration,
    /// None at the true rate.
    rate: Option<Rate>,
}

/// The rate of the machine's clocks, with both clocks at its last change.
#[derive(Clone, Copy, Debug)]
struct Rate {
    runtime: Instant,
    machine: Instant,
    percent: u32,
}

impl Clock {
    /// Returns the machine's clock, which takes no faults.
    #[must_use]
    pub fn system() -> Self {
        Self {
            wall_at_start: Timestamp::now(),
            start: runtime_now(),
            faults: None,
        }
    }

    /// Returns a clock that shows `wall` now and takes faults.
    #[must_use]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            wall_at_start: wall,
            start: runtime_now(),
            faults: Some(Arc::new(Faults {
                state: Mutex::default(),
                changed: watch::Sender::new(()),
            })),
        }
    }

    /// Returns monotonic time, for durations and deadlines. Instants of two clocks must not be compared.
    #[must_use]
    pub fn now(&self) -> Instant {
        let now = runtime_now();
        match &self.faults {
            None => now,
            Some(faults) => faults.state().monotonic(now),
        }
    }

    /// Returns the instant after `delay`; see [`later`].
    #[must_use]
    pub fn after(&self, delay: Duration) -> Instant {
        later(self.now(), delay)
    }

    /// Returns wall time, for output only: it may jump.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        let Some(faults) = &self.faults else {
            // Read each time: it can be set, and continues while the machine is suspended.
            return Timestamp::now();
        };
        let state = faults.state();
        let unskewed = self
            .wall_at_start
            .saturating_add(state.machine(runtime_now()).duration_since(self.start))
            .unwrap_or(Timestamp::MAX);
        unskewed.saturating_add(state.skew).unwrap_or(unskewed)
    }

    /// Returns the current time on all clocks, for [`Clock::elapsed`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            monotonic: self.now(),
            boot: self.boot(),
            wall: self.wall(),
        }
    }

    /// Returns the time since `mark` by the clock with the largest difference. Monotonic clocks stop while the machine is
    /// suspended and the wall clock can be set back, but not both, so the result is never too small. It is too large if the
    /// wall clock is set forward.
    #[must_use]
    pub fn elapsed(&self, mark: &Mark) -> Duration {
        let Mark {
            monotonic,
            boot,
            wall,
        } = mark;
        let by_wall = Duration::try_from(self.wall().duration_since(*wall)).unwrap_or_default();
        let by_boot = self.boot().saturating_sub(*boot);
        self.now()
            .saturating_duration_since(*monotonic)
            .max(by_wall)
            .max(by_boot)
    }

    /// Returns the time since boot, including suspension.
    fn boot(&self) -> Duration {
        if let Some(faults) = &self.faults {
            // A reproducible run must not read the machine's clock.
            return faults.state().machine(runtime_now()).duration_since(self.start);
        }
        // CLOCK_MONOTONIC of macOS includes suspension, CLOCK_MONOTONIC of Linux does not.
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let boot = rustix::time::clock_gettime(clock);
        Duration::new(
            u64::try_from(boot.tv_sec).unwrap_or(0),
            u32::try_from(boot.tv_nsec).unwrap_or(0),
        )
    }

    /// Sleeps until [`Clock::now`] reaches `deadline`. Never wakes early.
    pub async fn sleep_until(&self, deadline: Instant) {
        let Some(faults) = &self.faults else {
            return tokio::time::sleep_until(deadline).await;
        };
        let mut changed = faults.changed.subscribe();
        loop {
            let state = faults.state();
            let ready = async {
                match state.frozen {
                    None => tokio::time::sleep_until(state.runtime(deadline)).await,
                    Some(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = ready => return,
            }
        }
    }

    /// Sleeps for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.after(duration)).await;
    }

    /// Runs `future` for at most `limit`; none on timeout.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep(limit) => None,
        }
    }

    /// Injects a fault. Returns false on the machine's clock, which takes none.
    pub fn inject(&self, fault: Fault) -> bool {
        let Some(faults) = &self.faults else {
            return false;
        };
        {
            let mut state = faults.state.lock().unwrap_or_else(PoisonError::into_inner);
            match fault {
                Fault::Freeze => {
                    let machine = state.machine(runtime_now());
                    state.frozen = state.frozen.or(Some(machine));
                }
                Fault::Thaw => {
                    if let Some(since) = state.frozen.take() {
                        let machine = state.machine(runtime_now());
                        state.lost += machine.duration_since(since);
                    }
                }
                Fault::Skew(skew) => state.skew = skew,
                Fault::Rate(percent) => {
                    let runtime = runtime_now();
                    state.rate = Some(Rate {
                        runtime,
                        machine: state.machine(runtime),
                        percent: percent.max(1),
                    });
                }
            }
        }
        faults.changed.send_replace(());
        true
    }
}

impl Faults {
    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn monotonic(&self, runtime: Instant) -> Instant {
        let shown = self.frozen.unwrap_or_else(|| self.machine(runtime));
        shown.checked_sub(self.lost).unwrap_or(shown)
    }

    /// Returns the time of the machine's clock, which does not stop during suspension.
    fn machine(&self, runtime: Instant) -> Instant {
        match self.rate {
            None => runtime,
            Some(rate) => later(
                rate.machine,
                scale(runtime.duration_since(rate.runtime), rate.percent, 100),
            ),
        }
    }

    /// Returns the runtime's time at which monotonic time reaches `deadline`. Never early.
    fn runtime(&self, deadline: Instant) -> Instant {
        let machine = deadline.checked_add(self.lost).unwrap_or(deadline);
        match self.rate {
            None => machine,
            Some(rate) => later(
                rate.runtime,
                scale(machine.saturating_duration_since(rate.machine), 100, rate.percent),
            ),
        }
    }
}

/// Returns `duration * times / by`, rounded up and saturating.
fn scale(duration: Duration, times: u32, by: u32) -> Duration {
    let nanos = (duration.as_nanos() * u128::from(times)).div_ceil(u128::from(by));
    u64::try_from(nanos).map_or(MAX_DELAY, Duration::from_nanos)
}

/// Returns `now + delay`; a delay that overflows is cut to decades.
#[must_use]
pub fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or(now + MAX_DELAY)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only place that reads the runtime's clock"
)]
fn runtime_now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn clock() -> Clock {
        Clock::starting_at(Timestamp::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn wall_and_monotonic_time_move_with_the_paused_clock() {
        let clock = clock();
        let before = clock.now();
        clock.sleep(HOUR).await;
        assert_eq!(clock.now() - before, HOUR);
        assert_eq!(clock.wall().to_string(), "1970-01-01T01:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn skew_affects_only_the_wall_time_of_its_clock() {
        let (a, b) = (clock(), clock());
        let before = a.now();
        assert!(a.inject(Fault::Skew(SignedDuration::from_secs(-20))));
        assert_eq!(a.wall().as_second(), -20);
        assert_eq!(b.wall().as_second(), 0);
        assert_eq!(a.now(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn frozen_clock_ends_no_sleep_and_loses_time() {
        let (frozen, other) = (clock(), clock());
        let before = frozen.now();
        let mut sleep = std::pin::pin!(frozen.sleep(HOUR));
        assert_eq!(other.timeout(HOUR / 2, &mut sleep).await, None);
        frozen.inject(Fault::Freeze);
        assert_eq!(other.timeout(10 * HOUR, &mut sleep).await, None);
        assert_eq!(frozen.now() - before, HOUR / 2);
        assert_eq!(frozen.wall().as_second(), 37_800, "wall time continues");
        frozen.inject(Fault::Thaw);
        assert_eq!(other.timeout(Duration::from_secs(1799), &mut sleep).await, None);
        assert_eq!(other.timeout(Duration::from_secs(1), &mut sleep).await, Some(()));
        assert_eq!(frozen.now() - before, HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_affects_all_times_of_its_clock_only() {
        let (slow, other) = (clock(), clock());
        slow.sleep(HOUR).await;
        let (mark, begun) = (slow.mark(), other.now());
        slow.inject(Fault::Rate(50));
        slow.sleep(HOUR).await;
        assert_eq!((slow.elapsed(&mark), other.now() - begun), (HOUR, 2 * HOUR));
        assert_eq!(slow.wall().as_second(), 2 * 3600);
        assert_eq!(other.wall().as_second(), 3 * 3600);
        let mut sleep = std::pin::pin!(slow.sleep(HOUR));
        slow.inject(Fault::Rate(200));
        assert_eq!(other.timeout(Duration::from_secs(1799), &mut sleep).await, None);
        assert_eq!(other.timeout(Duration::from_secs(1), &mut sleep).await, Some(()));
        assert_eq!(slow.elapsed(&mark), 2 * HOUR);
        slow.inject(Fault::Freeze);
        other.sleep(HOUR).await;
        slow.inject(Fault::Thaw);
        assert_eq!(slow.now() - mark.monotonic, 2 * HOUR);
        assert_eq!(slow.timeout(HOUR, slow.sleep(Duration::MAX)).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn longest_duration_does_not_overflow() {
        let clock = clock();
        assert!(clock.after(Duration::MAX) > clock.after(HOUR));
        assert_eq!(clock.timeout(HOUR, clock.sleep(Duration::MAX)).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn elapsed_uses_the_clock_with_the_largest_difference() {
        let (frozen, other) = (clock(), clock());
        let mark = frozen.mark();
        frozen.inject(Fault::Freeze);
        other.sleep(HOUR).await;
        assert_eq!(frozen.elapsed(&mark), HOUR, "by the wall clock");
        frozen.inject(Fault::Thaw);
        frozen.inject(Fault::Skew(SignedDuration::from_hours(-24)));
        frozen.sleep(HOUR).await;
        assert_eq!(
            frozen.elapsed(&mark),
            2 * HOUR,
            "by the boot clock, which does not stop"
        );
        frozen.inject(Fault::Skew(SignedDuration::from_hours(24)));
        assert_eq!(
            frozen.elapsed(&mark),
            26 * HOUR,
            "by the wall clock, which was set forward"
        );
    }

    #[test]
    fn system_wall_clock_is_read_each_time() {
        // As if the wall clock had been set forward, or the machine had been suspended.
        let clock = Clock {
            wall_at_start: Timestamp::UNIX_EPOCH,
            ..Clock::system()
        };
        assert!(clock.wall() > Timestamp::UNIX_EPOCH.saturating_add(HOUR).expect("a time"));
        let mark = Mark {
            wall: Timestamp::UNIX_EPOCH,
            ..clock.mark()
        };
        assert!(clock.elapsed(&mark) > HOUR);
    }

    #[test]
    fn system_clock_takes_no_faults() {
        assert!(!Clock::system().inject(Fault::Freeze));
    }
}
