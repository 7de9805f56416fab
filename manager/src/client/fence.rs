//! The fence: no write is sent by a process that may have lost its lease.
//!
//! The election opens the fence for a [`Term`] and extends its deadline with every renewal. When the deadline passes, or
//! the election closes the fence, the term is over: after a re-election there is a new term, and tasks of the old one can
//! no longer write. The deadline counts from the time at which the renewal was *sent*, by the monotonic and the wall clock
//! ([`Clock::elapsed`]).
//!
//! Before the manager releases the lease, it drains the term ([`Fence::drain`]): writes in flight complete, while reads
//! and waits for the rate limiter end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::env::{Clock, Mark};
use crate::sync::watch;

/// A term of leadership, unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

/// Decides whether this process may write. Clones share their state.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    state: Mutex<State>,
    /// The open term, to wait for changes. It changes after a deadline only once the fence is read: see [`Fence::closed`].
    term: watch::Sender<Option<Term>>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of terms so far.
    terms: u64,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    term: Term,
    /// None without leader election.
    until: Option<(Mark, Duration)>,
    draining: bool,
}

/// The fence was closed before the request was sent.
#[derive(Debug, thiserror::Error)]
#[error("the fence is closed")]
pub(super) struct FenceClosed;

/// The fence was closed while the request was in flight.
#[derive(Debug, thiserror::Error)]
#[error("cancelled without a response, this process may no longer be the leader")]
pub(super) struct FenceClosedInFlight;

impl Fence {
    /// Returns a closed fence.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            clock,
            state: Mutex::default(),
            term: watch::Sender::new(None),
        }))
    }

    /// Opens the fence for a new term without a deadline, for a process without leader election.
    #[must_use]
    pub fn open_forever(&self) -> Term {
        self.open_until(None)
    }

    /// Opens the fence for a new term of `length` from `sent`, the time at which the write that acquired the lease was sent.
    #[must_use]
    pub fn open(&self, sent: Mark, length: Duration) -> Term {
        self.open_until(Some((sent, length)))
    }

    fn open_until(&self, until: Option<(Mark, Duration)>) -> Term {
        let term = self.state(|state| {
            state.terms += 1;
            let term = Term(state.terms);
            state.open = Some(Open {
                term,
                until,
                draining: false,
            });
            term
        });
        self.0.term.send_replace(Some(term));
        term
    }

    /// Extends the term to `length` from `sent`, the time at which the renewal was sent. Returns false if the term is over:
    /// a term whose deadline has passed cannot be extended.
    #[must_use]
    pub fn extend(&self, term: Term, sent: Mark, length: Duration) -> bool {
        self.allows(term)
            && self.state(|state| match &mut state.open {
                Some(open) if open.term == term => {
                    open.until = Some((sent, length));
                    true
                }
                _ => false,
            })
    }

    /// Ends the reads of `term` and its waits for the rate limiter. Writes are allowed until the term is over.
    pub fn drain(&self, term: Term) {
        self.state(|state| {
            if let Some(open) = state.open.as_mut().filter(|open| open.term == term) {
                open.draining = true;
            }
        });
        // Wakes all waiting tasks; the term stays the same.
        self.0.term.send_modify(|_| {});
    }

    /// Closes the fence.
    pub fn close(&self) {
        self.state(|state| state.open = None);
        self.0.term.send_replace(None);
    }

    /// Returns the open term, if any. Capture it before the work that will write.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        self.open_term().map(|open| open.term)
    }

    /// Returns true if a write of `term` may be sent now.
    #[must_use]
    pub fn allows(&self, term: Term) -> bool {
        self.term() == Some(term)
    }

    /// Waits until `term` is over.
    pub async fn closed(&self, term: Term) {
        self.ended(term, |_| false).await;
    }

    /// Waits until `term` is draining or over.
    pub(super) async fn ending(&self, term: Term) {
        self.ended(term, |open| open.draining).await;
    }

    async fn ended(&self, term: Term, or: impl Fn(&Open) -> bool) {
        let mut changed = self.0.term.subscribe();
        loop {
            changed.mark_unchanged();
            let Some(open) = self.open_term().filter(|open| open.term == term && !or(open)) else {
                return;
            };
            let deadline = async {
                match open.until {
                    None => std::future::pending().await,
                    Some((sent, length)) => {
                        let left = length.saturating_sub(self.0.clock.elapsed(&sent));
                        self.0.clock.sleep(left).await;
                    }
                }
            };
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                () = deadline => {}
            }
        }
    }

    /// Returns the open term. A term whose deadline has passed is over, even if the wall clock is set back later: its tasks have
    /// dropped their work.
    fn open_term(&self) -> Option<Open> {
        let has_passed = |open: &mut Open| {
            let until = open.until;
            until.is_some_and(|(sent, length)| self.0.clock.elapsed(&sent) >= length)
        };
        let (open, is_over) = self.state(|state| {
            let is_over = state.open.take_if(has_passed).is_some();
            (state.open, is_over)
        });
        if is_over {
            self.0.term.send_replace(None);
        }
        open
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use jiff::{SignedDuration, Timestamp};

    use crate::env::Fault;

    const MILLI: Duration = Duration::from_millis(1);
    const TEN: Duration = Duration::from_secs(10);

    fn fence() -> (Fence, Clock) {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        (Fence::new(clock.clone()), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn term_ends_at_its_deadline_from_the_send() {
        let (fence, clock) = fence();
        let sent = clock.mark();
        clock.sleep(TEN / 2).await;
        let term = fence.open(sent, TEN);
        assert!(fence.allows(term));
        assert_eq!(
            clock
                .timeout((TEN / 2).saturating_sub(MILLI), fence.closed(term))
                .await,
            None
        );
        assert!(fence.allows(term));
        assert_eq!(
            clock.timeout(Duration::from_millis(2), fence.closed(term)).await,
            Some(())
        );
        assert!(!fence.allows(term) && fence.term().is_none());
        assert!(
            !fence.extend(term, clock.mark(), TEN),
            "a term that is over cannot be extended"
        );
        assert!(!fence.allows(term));
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_extends_the_deadline_for_waiting_tasks() {
        let (fence, clock) = fence();
        let term = fence.open(clock.mark(), TEN);
        let mut closed = std::pin::pin!(fence.closed(term));
        assert_eq!(clock.timeout(TEN / 2, &mut closed).await, None);
        assert!(fence.extend(term, clock.mark(), TEN));
        assert_eq!(clock.timeout(TEN.saturating_sub(MILLI), &mut closed).await, None);
        assert_eq!(clock.timeout(TEN, &mut closed).await, Some(()));
    }

    #[tokio::test(start_paused = true)]
    async fn draining_term_ends_waits_and_allows_writes() {
        let (fence, clock) = fence();
        let old = fence.open(clock.mark(), TEN);
        let term = fence.open(clock.mark(), TEN);
        fence.drain(old);
        let mut ending = std::pin::pin!(fence.ending(term));
        assert_eq!(
            clock.timeout(TEN / 2, &mut ending).await,
            None,
            "another term was drained"
        );
        fence.drain(term);
        assert_eq!(clock.timeout(Duration::ZERO, &mut ending).await, Some(()));
        assert!(fence.allows(term));
        assert!(fence.extend(term, clock.mark(), TEN), "renewal goes on");
        assert_eq!(clock.timeout(TEN / 2, fence.closed(term)).await, None);
        fence.ending(term).await;
        fence.close();
        let next = fence.open(clock.mark(), TEN);
        assert_eq!(clock.timeout(TEN / 2, fence.ending(next)).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn old_term_is_never_allowed_again() {
        let (fence, clock) = fence();
        let old = fence.open(clock.mark(), TEN);
        fence.close();
        fence.closed(old).await;
        let new = fence.open(clock.mark(), TEN);
        assert_ne!(old, new);
        assert!(fence.allows(new) && !fence.allows(old));
        assert!(!fence.extend(old, clock.mark(), TEN));
        fence.closed(old).await;
    }

    #[tokio::test(start_paused = true)]
    async fn fence_is_closed_after_a_suspended_machine_resumes() {
        let (fence, clock) = fence();
        let other = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let term = fence.open(clock.mark(), TEN);
        clock.inject(Fault::Freeze);
        other.sleep(2 * TEN).await;
        clock.inject(Fault::Thaw);
        assert!(!fence.allows(term), "monotonic time did not move, the wall did");
    }

    #[tokio::test(start_paused = true)]
    async fn wall_clock_set_back_does_not_extend_a_term() {
        let (fence, clock) = fence();
        let term = fence.open(clock.mark(), TEN);
        clock.inject(Fault::Skew(SignedDuration::from_hours(-1)));
        clock.sleep(TEN).await;
        assert!(!fence.allows(term));
    }

    /// A task that was refused has dropped its work, so its term must not continue.
    #[tokio::test(start_paused = true)]
    async fn wall_clock_set_back_does_not_reopen_a_term_that_was_over() {
        let (fence, clock) = fence();
        let term = fence.open(clock.mark(), TEN);
        let mut closed = std::pin::pin!(fence.closed(term));
        assert_eq!(clock.timeout(MILLI, &mut closed).await, None);
        clock.inject(Fault::Skew(SignedDuration::from_hours(1)));
        assert!(!fence.allows(term));
        clock.inject(Fault::Skew(SignedDuration::ZERO));
        assert!(!fence.allows(term) && !fence.extend(term, clock.mark(), TEN));
        assert_eq!(clock.timeout(MILLI, &mut closed).await, Some(()));
    }

    #[tokio::test(start_paused = true)]
    async fn term_without_election_has_no_deadline() {
        let (fence, clock) = fence();
        let term = fence.open_forever();
        clock.sleep(1000 * TEN).await;
        assert!(fence.allows(term));
    }
}
