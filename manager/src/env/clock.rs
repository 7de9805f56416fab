//! A manager's clock.
//!
//! It stands on the runtime's clock, so that it moves with a paused one, and can be made to go wrong by a [`Fault`]: that
//! is how a simulation gives two managers clocks of their own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longer than any process lives. What lies beyond it counts as never, because instants have no end to saturate at.
const FAR: Duration = Duration::from_hours(30 * 365 * 24);

/// Monotonic time, wall time and sleep. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    wall_at_start: Timestamp,
    start: Instant,
    /// None on the machine's clock, whose readings then cost nothing extra.
    warp: Option<Arc<Warp>>,
}

/// A way for a clock to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Monotonic time stands still and no sleep ends, until [`Fault::Thaw`]: the machine is suspended. Wall time goes on,
    /// as it will have on waking up.
    Freeze,
    /// Monotonic time goes on from where it stood.
    Thaw,
    /// Wall time differs from the true one by this much; monotonic time does not notice.
    Skew(SignedDuration),
    /// From now on all clocks of the machine run at this rate, in percent of the true one (at least 1).
    Rate(u32),
}

/// A moment, on all clocks there are.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    monotonic: Instant,
    /// Since the machine was started, the time that it was suspended included.
    boot: Duration,
    wall: Timestamp,
}

/// The faults of one clock.
#[derive(Debug)]
struct Warp {
    state: Mutex<State>,
    /// Tells sleepers that their deadline has moved.
    changed: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// What monotonic time has lost by being frozen.
    lost: Duration,
    /// When the machine's clock showed this, monotonic time stopped.
    frozen: Option<Instant>,
    skew: SignedDuration,
    /// None while the machine's clocks run at the true rate.
    rate: Option<Rate>,
}

/// The rate of a machine's clocks since it was last changed.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The runtime's clock at that time.
    runtime: Instant,
    /// The machine's clock at that time.
    machine: Instant,
    percent: u32,
}

impl Clock {
    /// The machine's clock. It takes no faults.
    #[must_use]
    pub fn system() -> Self {
        Self {
            wall_at_start: Timestamp::now(),
            start: runtime_now(),
            warp: None,
        }
    }

    /// A clock that shows `wall` now, and takes faults.
    #[must_use]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            wall_at_start: wall,
            start: runtime_now(),
            warp: Some(Arc::new(Warp {
                state: Mutex::default(),
                changed: watch::Sender::new(()),
            })),
        }
    }

    /// Monotonic time: what durations and deadlines are measured in. Instants of two clocks do not compare.
    #[must_use]
    pub fn now(&self) -> Instant {
        let now = runtime_now();
        match &self.warp {
            None => now,
            Some(warp) => warp.state().monotonic(now),
        }
    }

    /// `delay` from now, or far beyond the life of the process if there is no such instant.
    #[must_use]
    pub fn after(&self, delay: Duration) -> Instant {
        later(self.now(), delay)
    }

    /// Wall time, for what others read. It may jump: never measure with it.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        let Some(warp) = &self.warp else {
            // Asked each time: it is set while the process runs, and goes on while the machine is suspended.
            return Timestamp::now();
        };
        let state = warp.state();
        let unskewed = self
            .wall_at_start
            .saturating_add(state.machine(runtime_now()).duration_since(self.start))
            .unwrap_or(Timestamp::MAX);
        unskewed.saturating_add(state.skew).unwrap_or(unskewed)
    }

    /// Now, on all clocks there are: what [`Clock::elapsed`] measures from.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            monotonic: self.now(),
            boot: self.boot(),
            wall: self.wall(),
        }
    }

    /// How long ago `mark` was, by the clock that says the most. A monotonic clock stops while the machine is suspended
    /// and the wall clock can be set back, but not both; so this never says too little. It says too much if the wall
    /// clock is set forward.
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

    /// The time since some moment, that in which the machine was suspended included.
    fn boot(&self) -> Duration {
        if let Some(warp) = &self.warp {
            // A run that can be repeated must not look at the machine's clock.
            return warp.state().machine(runtime_now()).duration_since(self.start);
        }
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(
            u64::try_from(boot.tv_sec).unwrap_or(0),
            u32::try_from(boot.tv_nsec).unwrap_or(0),
        )
    }

    /// Sleeps until [`Clock::now`] is at `deadline` or later: never early, late only by scheduling.
    pub async fn sleep_until(&self, deadline: Instant) {
        let Some(warp) = &self.warp else {
            return tokio::time::sleep_until(deadline).await;
        };
        let mut changed = warp.changed.subscribe();
        loop {
            let state = warp.state();
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

    /// Runs `future` for at most `limit`; none if it did not finish in time.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep(limit) => None,
        }
    }

    /// Makes the clock go wrong; false on the machine's clock, which does not.
    pub fn inject(&self, fault: Fault) -> bool {
        let Some(warp) = &self.warp else {
            return false;
        };
        {
            let mut state = warp.state.lock().unwrap_or_else(PoisonError::into_inner);
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
        warp.changed.send_replace(());
        true
    }
}

impl Warp {
    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn monotonic(&self, runtime: Instant) -> Instant {
        let shown = self.frozen.unwrap_or_else(|| self.machine(runtime));
        shown.checked_sub(self.lost).unwrap_or(shown)
    }

    /// Returns the time of the machine's clock, which does not stop while it is suspended.
    fn machine(&self, runtime: Instant) -> Instant {
        match self.rate {
            None => runtime,
            Some(rate) => later(
                rate.machine,
                scale(runtime.duration_since(rate.runtime), rate.percent, 100),
            ),
        }
    }

    /// Returns when the runtime's clock will have reached `deadline` of monotonic time. Never early.
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

/// Returns `duration * times / by`, rounded up; a duration beyond all bounds stays the longest one.
fn scale(duration: Duration, times: u32, by: u32) -> Duration {
    let nanos = (duration.as_nanos() * u128::from(times)).div_ceil(u128::from(by));
    u64::try_from(nanos).map_or(FAR, Duration::from_nanos)
}

/// `delay` after `now`, or far beyond the life of the process if there is no such instant.
#[must_use]
pub fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or(now + FAR)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runtime's clock, which a test may have paused: all others ask this one"
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
    async fn a_skewed_wall_leaves_the_other_clock_and_monotonic_time_alone() {
        let (a, b) = (clock(), clock());
        let before = a.now();
        assert!(a.inject(Fault::Skew(SignedDuration::from_secs(-20))));
        assert_eq!(a.wall().as_second(), -20);
        assert_eq!(b.wall().as_second(), 0);
        assert_eq!(a.now(), before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_clock_ends_no_sleep_and_loses_the_time() {
        let (frozen, other) = (clock(), clock());
        let before = frozen.now();
        let mut sleep = std::pin::pin!(frozen.sleep(HOUR));
        assert_eq!(other.timeout(HOUR / 2, &mut sleep).await, None);
        frozen.inject(Fault::Freeze);
        assert_eq!(other.timeout(10 * HOUR, &mut sleep).await, None);
        assert_eq!(frozen.now() - before, HOUR / 2);
        assert_eq!(frozen.wall().as_second(), 37_800, "the wall went on");
        frozen.inject(Fault::Thaw);
        assert_eq!(other.timeout(Duration::from_secs(1799), &mut sleep).await, None);
        assert_eq!(other.timeout(Duration::from_secs(1), &mut sleep).await, Some(()));
        assert_eq!(frozen.now() - before, HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn clock_with_another_rate_changes_all_its_clocks_and_no_other() {
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
    async fn no_duration_is_too_long() {
        let clock = clock();
        assert!(clock.after(Duration::MAX) > clock.after(HOUR));
        assert_eq!(clock.timeout(HOUR, clock.sleep(Duration::MAX)).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_by_whichever_clock_says_so() {
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
    fn the_machine_s_wall_clock_is_asked_each_time() {
        // As if the wall clock had been set forward since, or the machine had slept.
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
    fn the_machine_s_clock_takes_no_faults() {
        assert!(!Clock::system().inject(Fault::Freeze));
    }
}
