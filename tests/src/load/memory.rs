//! The heap bytes of the product, from the allocator's counters of this thread, and its CPU time.
//!
//! One thread runs the product, the API and the case. Work of the last two is [`outside`]: the bytes that it allocates and frees are
//! not those of the product. Data that crosses the border is copied, so that each side frees its own.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

thread_local! {
    /// The bytes that this thread has ever allocated and freed. None if another allocator is installed.
    static COUNTERS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
        allocatedp::read().ok().zip(deallocatedp::read().ok());
    /// The bytes that work outside of the product has allocated and not freed.
    static OUTSIDE: Cell<i64> = const { Cell::new(0) };
    /// The bytes that work outside of the product has ever allocated.
    static OUTSIDE_TOTAL: Cell<u64> = const { Cell::new(0) };
    /// The CPU time of work outside of the product.
    static OUTSIDE_CPU: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static IS_OUTSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The allocated bytes of this thread.
fn allocated() -> i64 {
    let (allocated, freed) =
        COUNTERS.with(|it| it.map_or((0, 0), |(allocated, freed)| (allocated.get(), freed.get())));
    allocated.wrapping_sub(freed).cast_signed()
}

/// Returns the bytes of the product.
pub(super) fn product() -> i64 {
    allocated() - OUTSIDE.get()
}

/// The bytes that this thread has ever allocated.
fn allocated_total() -> u64 {
    COUNTERS.with(|it| it.map_or(0, |(allocated, _)| allocated.get()))
}

/// The CPU time of this thread.
pub(super) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

/// The work of the product so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// The CPU time. Other threads do not count, so that a busy machine does not change it much.
    pub(super) cpu: Duration,
    /// The bytes that were allocated, whether or not they were freed.
    pub(super) allocated: u64,
}

/// Returns the work of the product so far.
pub(super) fn work() -> Work {
    Work {
        cpu: thread_cpu().saturating_sub(OUTSIDE_CPU.get()),
        allocated: allocated_total() - OUTSIDE_TOTAL.get(),
    }
}

impl Work {
    /// Returns the work since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            allocated: self.allocated.saturating_sub(before.allocated),
        }
    }
}

/// Starts a new measurement of the peak.
pub(super) fn reset_peak() {
    PEAK.set(product());
}

/// Returns the most bytes of the product at one of the calls of [`outside`] since [`reset_peak`].
pub(super) fn peak() -> i64 {
    PEAK.get().max(product())
}

/// Runs work that is not the product's. Every request and every event of a watch passes here, so it samples the peak too.
pub(super) fn outside<T>(work: impl FnOnce() -> T) -> T {
    if IS_OUTSIDE.get() {
        return work();
    }
    let (before, total, cpu) = (allocated(), allocated_total(), thread_cpu());
    PEAK.set(PEAK.get().max(before - OUTSIDE.get()));
    IS_OUTSIDE.set(true);
    let done = work();
    IS_OUTSIDE.set(false);
    OUTSIDE.set(OUTSIDE.get() + allocated() - before);
    OUTSIDE_TOTAL.set(OUTSIDE_TOTAL.get() + allocated_total() - total);
    OUTSIDE_CPU.set(OUTSIDE_CPU.get() + thread_cpu().saturating_sub(cpu));
    done
}

/// A future that runs [`outside`].
pub(super) struct Outside<F>(Option<Pin<Box<F>>>);

impl<F: Future> Outside<F> {
    pub(super) fn new(make: impl FnOnce() -> F) -> Self {
        Self(Some(outside(|| Box::pin(make()))))
    }
}

impl<F: Future> Future for Outside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match &mut self.0 {
            Some(future) => outside(|| future.as_mut().poll(context)),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Outside<F> {
    fn drop(&mut self) {
        outside(|| drop(self.0.take()));
    }
}
