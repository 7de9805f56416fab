//! The fence: no write is sent by a process that may have lost its lease.
//!
//! The election opens it for a [`Term`] and pushes its deadline on with every renewal; when the deadline passes, or the
//! election closes it, it is shut for that term and for ever: after a step-down and a re-election the term is another one,
//! and what was started in the old one cannot write any more. The deadline counts from when the renewal was *sent*, on
//! all clocks there are ([`Clock::elapsed`]).
//!
//! Before the manager releases the lease it drains the term ([`Fence::drain`]): requests that were sent are answered, and
//! no request waits any longer for a token or for an answer that changes nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::env::{Clock, Mark};

/// A time of leadership. Two are never the same in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(u64);

/// Whether this process may write. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    state: Mutex<State>,
    /// The term that is on, for those who wait. A deadline that passes does not show here by itself: see [`Fence::closed`].
    term: watch::Sender<Option<Term>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many terms there have been.
    terms: u64,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    term: Term,
    /// None for a process that does not elect: it always leads.
    until: Option<(Mark, Duration)>,
    /// The process is stopping.
    draining: bool,
}

impl Fence {
    /// A shut fence.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            clock,
            state: Mutex::default(),
            term: watch::Sender::new(None),
        }))
    }

    /// Opens it for a new term that has no end but [`Fence::close`]: for a process that runs without election.
    #[must_use]
    pub fn open_for_ever(&self) -> Term {
        self.open_until(None)
    }

    /// Opens it for a new term that lasts `length` from `sent`, when the write that won the lease was sent.
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

    /// The lease was renewed by a write sent at `sent`: the term lasts `length` from then. False if it is over already,
    /// by its deadline too: whoever was late once does not come back in the same term.
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

    /// Ends the reads and the token waits of `term`. Its writes are allowed until the term is over.
    pub fn drain(&self, term: Term) {
        self.state(|state| {
            if let Some(open) = state.open.as_mut().filter(|open| open.term == term) {
                open.draining = true;
            }
        });
        // Wakes all that wait, the term is the same.
        self.0.term.send_modify(|_| {});
    }

    /// Shuts it.
    pub fn close(&self) {
        self.state(|state| state.open = None);
        self.0.term.send_replace(None);
    }

    /// The term that is on now, if there is one: captured at the start of whatever will write.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        let open = self.state(|state| state.open)?;
        self.within(&open).then_some(open.term)
    }

    /// Whether a write that was started in `term` may be sent now.
    #[must_use]
    pub fn allows(&self, term: Term) -> bool {
        self.term() == Some(term)
    }

    /// Resolves when `term` is over: at once if it is already.
    pub async fn closed(&self, term: Term) {
        self.ended(term, |_| false).await;
    }

    /// Resolves when `term` is draining or over: at once if it is already.
    pub(super) async fn ending(&self, term: Term) {
        self.ended(term, |open| open.draining).await;
    }

    async fn ended(&self, term: Term, or: impl Fn(&Open) -> bool) {
        let mut changed = self.0.term.subscribe();
        loop {
            changed.mark_unchanged();
            let Some(open) = self.state(|state| state.open).filter(|open| open.term == term) else {
                return;
            };
            if or(&open) || !self.within(&open) {
                return;
            }
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

    fn within(&self, open: &Open) -> bool {
        open.until
            .is_none_or(|(sent, length)| self.0.clock.elapsed(&sent) < length)
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
    async fn a_term_ends_by_its_deadline_counted_from_the_send() {
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
        assert!(!fence.extend(term, clock.mark(), TEN), "too late is too late");
        assert!(!fence.allows(term));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_moves_the_deadline_for_those_who_wait_too() {
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
    async fn an_old_term_never_comes_back() {
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
    async fn a_suspended_machine_wakes_up_behind_a_shut_fence() {
        let (fence, clock) = fence();
        let other = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let term = fence.open(clock.mark(), TEN);
        clock.inject(Fault::Freeze);
        other.sleep(2 * TEN).await;
        clock.inject(Fault::Thaw);
        assert!(!fence.allows(term), "monotonic time did not move, the wall did");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_set_back_does_not_lengthen_a_term() {
        let (fence, clock) = fence();
        let term = fence.open(clock.mark(), TEN);
        clock.inject(Fault::Skew(SignedDuration::from_hours(-1)));
        clock.sleep(TEN).await;
        assert!(!fence.allows(term));
    }

    #[tokio::test(start_paused = true)]
    async fn without_election_a_term_lasts() {
        let (fence, clock) = fence();
        let term = fence.open_for_ever();
        clock.sleep(1000 * TEN).await;
        assert!(fence.allows(term));
    }
}
