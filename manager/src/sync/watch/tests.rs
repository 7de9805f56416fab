use super::*;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::coop::unconstrained;

use crate::env::{Clock, Rng};

/// More than `Notify` wakes at once. They wait in one task, which gets the budget of as many tasks by `unconstrained`.
const RECEIVERS: usize = 100;

#[test]
fn receivers_wake_in_the_order_in_which_they_started_to_wait() {
    let (sender, order) = (Sender::new(0), Mutex::new(Vec::new()));
    let wait = |receiver: usize| {
        let (mut values, order) = (sender.subscribe(), &order);
        let woken = move || order.lock().expect("no panic").push(receiver);
        async move {
            if receiver.is_multiple_of(2) {
                for _ in 1..=2 {
                    values.changed().await.expect("an open channel");
                    woken();
                }
                return;
            }
            let found = values.wait_for(|value| {
                if *value > 0 {
                    woken();
                }
                *value == 2
            });
            found.await.expect("an open channel");
        }
    };
    let mut waits = pin!(unconstrained(join_all((0..RECEIVERS).map(wait))));
    for value in 1..=2 {
        assert!(waits.as_mut().now_or_never().is_none());
        sender.send_replace(value);
    }
    assert!(waits.now_or_never().is_some());
    let expected: Vec<_> = (0..RECEIVERS).chain(0..RECEIVERS).collect();
    assert_eq!(*order.lock().expect("no panic"), expected);
}

#[test]
fn closed_channel_wakes_receivers_in_order() {
    let (sender, order) = (Sender::new(()), Mutex::new(Vec::new()));
    let wait = |receiver: usize| {
        let (mut changes, order) = (sender.subscribe(), &order);
        async move {
            assert_eq!(changes.changed().await, Err(Closed));
            order.lock().expect("no panic").push(receiver);
        }
    };
    let mut waits = pin!(unconstrained(join_all((0..RECEIVERS).map(wait))));
    assert!(waits.as_mut().now_or_never().is_none());
    let other = sender.clone();
    drop(sender);
    assert!(waits.as_mut().now_or_never().is_none(), "one sender is left");
    drop(other);
    assert!(waits.now_or_never().is_some());
    assert_eq!(
        *order.lock().expect("no panic"),
        (0..RECEIVERS).collect::<Vec<_>>()
    );
}

#[test]
fn change_before_the_wait_is_not_missed() {
    let (sender, mut receiver) = channel(0);
    sender.send_replace(1);
    assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
    assert_eq!(receiver.changed().now_or_never(), None, "seen");
    {
        let mut waiting = pin!(receiver.changed());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        sender.send_replace(2);
        sender.send_replace(3);
        assert_eq!(waiting.now_or_never(), Some(Ok(())));
    }
    assert_eq!(receiver.changed().now_or_never(), None, "both changes are seen");
    assert_eq!(*receiver.borrow(), 3);
}

#[test]
fn cancelled_wait_does_not_mark_the_value_as_seen() {
    let (sender, mut receiver) = channel(0);
    {
        let mut waiting = pin!(receiver.changed());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        sender.send_replace(1);
    }
    assert_eq!(receiver.has_changed(), Ok(true));
}

/// Two threads answer each other, so that each change races with the start of a wait.
#[test]
fn concurrent_change_is_not_missed() {
    const ROUNDS: u64 = 5_000;
    fn run(exchange: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let limited = async { Clock::system().timeout(Duration::from_mins(1), exchange).await };
        let ended = runtime.expect("a runtime").block_on(limited);
        ended.expect("no missed change");
    }
    let (request, mut requests) = channel(0);
    let (response, mut responses) = channel(0);
    let answers = async move {
        for round in 1..=ROUNDS {
            requests.changed().await.expect("an open channel");
            assert_eq!(*requests.borrow(), round);
            response.send_replace(round);
        }
    };
    let questions = async move {
        for round in 1..=ROUNDS {
            request.send_replace(round);
            let answered = responses.wait_for(|it| *it == round).await;
            drop(answered.expect("an open channel"));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(answers));
        run(questions);
    });
}

#[test]
fn last_value_is_seen_after_the_channel_is_closed() {
    let (sender, mut receiver) = channel(0);
    let mut other = receiver.clone();
    sender.send_replace(1);
    drop(sender);
    assert_eq!(receiver.has_changed(), Err(Closed));
    assert_eq!(receiver.changed().now_or_never(), Some(Ok(())));
    assert_eq!(receiver.changed().now_or_never(), Some(Err(Closed)));
    let found = other.wait_for(|value| *value == 1).now_or_never();
    assert_eq!(found.map(|found| found.map(|it| *it)), Some(Ok(1)));
    let found = other.wait_for(|value| *value == 2).now_or_never();
    assert_eq!(found.map(|found| found.map(|it| *it)), Some(Err(Closed)));
}

#[test]
fn panicking_closure_neither_closes_nor_changes_the_channel() {
    let (sender, receiver) = channel(0);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        sender.send_modify(|_| panic!("for the test"));
    }));
    assert!(failed.is_err());
    assert_eq!(receiver.has_changed(), Ok(false));
    assert_eq!(sender.send_replace(1), 0);
    assert_eq!((*receiver.borrow(), receiver.has_changed()), (1, Ok(true)));
}

/// Random calls of a channel and of tokio's channel return the same.
#[test]
#[expect(clippy::disallowed_methods, reason = "no receiver waits")]
fn semantics_are_those_of_tokio() {
    use tokio::sync::watch as tokio_watch;

    for seed in 0..500 {
        let rng = Rng::from_seed(seed);
        let mut senders = vec![(Sender::new(0), tokio_watch::Sender::new(0))];
        let mut receivers = vec![(senders[0].0.subscribe(), senders[0].1.subscribe())];
        for _ in 0..40 {
            let value = rng.below(4);
            if !senders.is_empty() {
                let (ours, theirs) = &senders[0];
                assert_eq!(*ours.borrow(), *theirs.borrow());
                match rng.below(12) {
                    0 => assert_eq!(ours.send_replace(value), theirs.send_replace(value)),
                    1 => {
                        ours.send_modify(|it| *it += value);
                        theirs.send_modify(|it| *it += value);
                    }
                    2 => {
                        let modified = ours.send_if_modified(|it| mem::replace(it, value) != value);
                        let expected = theirs.send_if_modified(|it| mem::replace(it, value) != value);
                        assert_eq!(modified, expected);
                    }
                    3 => receivers.push((ours.subscribe(), theirs.subscribe())),
                    4 => senders.push((ours.clone(), theirs.clone())),
                    5 => drop(senders.pop()),
                    _ => {}
                }
            }
            let index = usize::try_from(rng.below(1 << 16)).expect("an index") % receivers.len();
            let (ours, theirs) = &mut receivers[index];
            match rng.below(8) {
                0 => assert_eq!(*ours.borrow(), *theirs.borrow()),
                1 => assert_eq!(*ours.borrow_and_update(), *theirs.borrow_and_update()),
                2 => assert_eq!(ours.has_changed().ok(), theirs.has_changed().ok()),
                3 => {
                    ours.mark_changed();
                    theirs.mark_changed();
                }
                4 => {
                    ours.mark_unchanged();
                    theirs.mark_unchanged();
                }
                5 => {
                    let changed = ours.changed().now_or_never();
                    let expected = theirs.changed().now_or_never();
                    assert_eq!(changed.map(Result::ok), expected.map(Result::ok), "seed {seed}");
                }
                6 => {
                    let found = ours.wait_for(|it| *it == value).now_or_never();
                    let expected = theirs.wait_for(|it| *it == value).now_or_never();
                    let found = found.map(|it| it.ok().map(|it| *it));
                    assert_eq!(found, expected.map(|it| it.ok().map(|it| *it)), "seed {seed}");
                }
                _ => {
                    let clones = (ours.clone(), theirs.clone());
                    receivers.push(clones);
                }
            }
        }
    }
}
