//! The heap bytes of the product, from the allocator's counters of this thread.
//!
//! One thread runs the product, the API and the case. Work of the last two is [`outside`]: the bytes that it allocates and frees are
//! not those of the product. Data that crosses the border is copied, so that each side frees its own.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};

thread_local! {
    /// The bytes that this thread has ever allocated and freed. None if another allocator is installed.
    static COUNTERS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
        allocatedp::read().ok().zip(deallocatedp::read().ok());
    /// The bytes that work outside of the product has allocated and not freed.
    static OUTSIDE: Cell<i64> = const { Cell::new(0) };
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
    let before = allocated();
    PEAK.set(PEAK.get().max(before - OUTSIDE.get()));
    IS_OUTSIDE.set(true);
    let done = work();
    IS_OUTSIDE.set(false);
    OUTSIDE.set(OUTSIDE.get() + allocated() - before);
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
