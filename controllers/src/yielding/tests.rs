use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_manager::env::Clock;
use tokio::time::Instant;

use super::State;
use super::observed_lease::{Lease, ObservedLease};

/// An observation.
enum Step {
    /// A read returns this.
    Read(Option<Lease>),
    /// A read that was sent this number of seconds earlier returns this.
    Late(u64, Option<Lease>),
    /// The watch delivers this.
    Event(Option<Lease>),
    /// A watch is opened.
    Watched,
    /// The watch is lost.
    Lost(&'static str),
    Nothing,
}

use Step::{Event, Late, Lost, Nothing, Read, Watched};

fn lease(spec: &Value) -> Lease {
    Lease::new(&json!({"metadata": {"uid": "u"}, "spec": spec}))
}

/// Held by `a` for 15 s, with renewal number `renewal`.
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

fn unknown(reason: &str) -> State {
    State::Unknown {
        reason: reason.to_owned(),
    }
}

/// Applies each step at its second and compares the state after it.
fn walk(name: &str, steps: impl IntoIterator<Item = (u64, Step, State)>) -> (ObservedLease, Instant) {
    let start = Clock::starting_at(Timestamp::UNIX_EPOCH).now();
    let mut observed = ObservedLease::new(start);
    assert_eq!(observed.state(start), State::Unread, "{name}");
    for (second, step, state) in steps {
        let now = start + Duration::from_secs(second);
        match step {
            Read(lease) => observed.observe_read(now, now, lease),
            Late(before, lease) => observed.observe_read(now - Duration::from_secs(before), now, lease),
            Event(lease) => observed.observe(now, lease),
            Watched => observed.watch_opened(),
            Lost(reason) => observed.watch_lost(now, reason.to_owned()),
            Nothing => {}
        }
        assert_eq!(observed.state(now), state, "{name}, second {second}");
    }
    (observed, start)
}

#[test]
fn state_is_unread_until_the_lease_is_read_and_watched() {
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
fn holder_is_dead_when_a_read_confirms_the_expiry() {
    use State::{Absent, Expired, Unread};
    let begin = || [(0, Read(Some(held(0))), Unread), (0, Watched, alive())];
    let then = |name, steps: Vec<_>| walk(name, begin().into_iter().chain(steps));
    then(
        "silence is not proof",
        vec![(15, Nothing, alive()), (3600, Nothing, alive())],
    );
    then(
        "not before the expiry",
        vec![
            (14, Read(Some(held(0))), alive()),
            (15, Read(Some(held(0))), Expired),
        ],
    );
    then(
        "a read sent before the expiry is not proof",
        vec![
            (19, Late(5, Some(held(0))), alive()),
            (20, Late(5, Some(held(0))), Expired),
        ],
    );
    then(
        "expiry counts from the observation of a renewal",
        vec![
            (10, Event(Some(held(1))), alive()),
            (24, Read(Some(held(1))), alive()),
            (25, Read(Some(held(1))), Expired),
        ],
    );
    then(
        "a renewal that the watch missed",
        vec![
            (15, Read(Some(held(1))), alive()),
            (30, Read(Some(held(1))), Expired),
        ],
    );
    then("released", vec![(1, Event(Some(free())), Expired)]);
    then(
        "acquired again",
        vec![
            (15, Read(Some(held(0))), Expired),
            (99, Event(Some(held(1))), alive()),
            (114, Read(Some(held(1))), Expired),
        ],
    );
    then(
        "deleted while held",
        vec![
            (5, Event(None), alive()),
            (14, Read(None), alive()),
            (15, Read(None), Absent),
        ],
    );
    then(
        "deleted while not held",
        vec![(1, Event(Some(free())), Expired), (2, Event(None), Absent)],
    );
}

#[test]
fn state_without_a_watch_becomes_stale() {
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
        "an unchanged record keeps its first observation",
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
fn invalid_lease_duration_falls_back_to_the_default() {
    for odd in [json!(null), json!(0), json!(-3), json!("15")] {
        let lease = lease(&json!({"holderIdentity": "a", "leaseDurationSeconds": odd}));
        let (observed, start) = walk(
            "odd",
            [(3, Read(Some(lease)), State::Unread), (3, Watched, alive())],
        );
        assert_eq!(
            observed.read_due(),
            Some(start + Duration::from_secs(18)),
            "{odd}"
        );
    }
    let lease = lease(&json!({"holderIdentity": "a", "leaseDurationSeconds": 4}));
    let (observed, start) = walk("short", [(3, Read(Some(lease)), State::Unread)]);
    assert_eq!(observed.read_due(), Some(start + Duration::from_secs(7)));
}
