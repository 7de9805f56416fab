//! The decision, without a clock of its own.

use std::time::Duration;

use coxswain_manager::env::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::State;
use super::view::{Lease, View};

/// Something that happens to a view, at its second.
enum Step {
    /// A read shows this.
    Read(Option<Lease>),
    /// A read shows this that was sent so many seconds before.
    Late(u64, Option<Lease>),
    /// The watch shows this.
    Sees(Option<Lease>),
    /// The watch is open.
    Watched,
    /// There is no watch.
    Lost(&'static str),
    /// Nothing.
    Nothing,
}

use Step::{Late, Lost, Nothing, Read, Sees, Watched};

fn lease(spec: &Value) -> Lease {
    Lease::new(&json!({"metadata": {"uid": "u"}, "spec": spec}))
}

/// Held by `a` for 15 s, renewed for the time that is given.
fn held(renewal: u32) -> Lease {
    let renewed = format!("1999-01-01T00:00:{renewal:02}.000000Z");
    lease(&json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}))
}

fn free() -> Lease {
    lease(&json!({"holderIdentity": "", "leaseDurationSeconds": 1}))
}

fn alive() -> State {
    State::Alive {
        holder: "a".to_owned(),
    }
}

fn unknown(why: &str) -> State {
    State::Unknown { why: why.to_owned() }
}

/// Does each step at its second, and compares what is known after it.
fn walk(name: &str, steps: impl IntoIterator<Item = (u64, Step, State)>) -> (View, Instant) {
    let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
    let mut view = View::new(start);
    assert_eq!(view.state(start), State::Unread, "{name}");
    for (second, step, state) in steps {
        let now = start + Duration::from_secs(second);
        match step {
            Read(lease) => view.read(now, now, lease),
            Late(before, lease) => view.read(now - Duration::from_secs(before), now, lease),
            Sees(lease) => view.see(now, lease),
            Watched => view.watched(),
            Lost(why) => view.lost(now, why.to_owned()),
            Nothing => {}
        }
        assert_eq!(view.state(now), state, "{name}, second {second}");
    }
    (view, start)
}

#[test]
fn nothing_is_known_before_it_is_read_and_watched() {
    use State::{Absent, Expired, Unread};
    walk("absent", [(0, Read(None), Unread), (0, Watched, Absent)]);
    walk("free", [(0, Read(Some(free())), Unread), (0, Watched, Expired)]);
    walk(
        "never held",
        [(0, Read(Some(lease(&json!({})))), Unread), (0, Watched, Expired)],
    );
    walk("held", [(0, Read(Some(held(0))), Unread), (0, Watched, alive())]);
    walk(
        "refused",
        [
            (0, Lost("403"), unknown("403")),
            (9, Read(None), unknown("403")),
            (9, Watched, Absent),
        ],
    );
}

#[test]
fn a_holder_is_gone_when_a_read_shows_that_it_has_not_renewed() {
    use State::{Absent, Expired, Unread};
    let begin = || [(0, Read(Some(held(0))), Unread), (0, Watched, alive())];
    let then = |name, steps: Vec<_>| walk(name, begin().into_iter().chain(steps));
    then(
        "silence proves nothing",
        vec![(15, Nothing, alive()), (3600, Nothing, alive())],
    );
    then(
        "not a moment too soon",
        vec![
            (14, Read(Some(held(0))), alive()),
            (15, Read(Some(held(0))), Expired),
        ],
    );
    then(
        "a read that was sent before says nothing about after",
        vec![
            (19, Late(5, Some(held(0))), alive()),
            (20, Late(5, Some(held(0))), Expired),
        ],
    );
    then(
        "each renewal counts from when it is seen",
        vec![
            (10, Sees(Some(held(1))), alive()),
            (24, Read(Some(held(1))), alive()),
            (25, Read(Some(held(1))), Expired),
        ],
    );
    then(
        "a renewal that the watch has missed",
        vec![
            (15, Read(Some(held(1))), alive()),
            (30, Read(Some(held(1))), Expired),
        ],
    );
    then("given back", vec![(1, Sees(Some(free())), Expired)]);
    then(
        "back again",
        vec![
            (15, Read(Some(held(0))), Expired),
            (99, Sees(Some(held(1))), alive()),
            (114, Read(Some(held(1))), Expired),
        ],
    );
    then(
        "deleted under its holder, who does not know",
        vec![
            (5, Sees(None), alive()),
            (14, Read(None), alive()),
            (15, Read(None), Absent),
        ],
    );
    then(
        "deleted when it was nobody's",
        vec![(1, Sees(Some(free())), Expired), (2, Sees(None), Absent)],
    );
}

#[test]
fn without_a_watch_it_is_known_for_a_while_only() {
    use State::{Absent, Expired, Unread};
    walk(
        "running",
        [
            (0, Read(None), Unread),
            (0, Watched, Absent),
            (100, Lost("500"), Absent),
            (105, Lost("403"), Absent),
            (109, Nothing, Absent),
            (110, Nothing, unknown("403")),
            (120, Lost("500"), unknown("500")),
            (130, Watched, Absent),
        ],
    );
    walk(
        "the record that was there before is old when it is seen again",
        [
            (0, Read(Some(held(0))), Unread),
            (0, Watched, alive()),
            (1, Lost("500"), alive()),
            (11, Nothing, unknown("500")),
            (20, Read(Some(held(0))), unknown("500")),
            (20, Watched, Expired),
        ],
    );
}

#[test]
fn a_lease_that_does_not_say_how_long_is_that_of_the_default() {
    for odd in [json!(null), json!(0), json!(-3), json!("15")] {
        let lease = lease(&json!({"holderIdentity": "a", "leaseDurationSeconds": odd}));
        let (view, start) = walk(
            "odd",
            [(3, Read(Some(lease)), State::Unread), (3, Watched, alive())],
        );
        assert_eq!(view.due(), Some(start + Duration::from_secs(18)), "{odd}");
    }
    let lease = lease(&json!({"holderIdentity": "a", "leaseDurationSeconds": 4}));
    let (view, start) = walk("short", [(3, Read(Some(lease)), State::Unread)]);
    assert_eq!(view.due(), Some(start + Duration::from_secs(7)));
}
