use super::*;

use std::collections::BTreeMap;

use serde_json::json;

const LEASE: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

struct Time(Instant);

impl Time {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new() -> Self {
        Self(Instant::now())
    }

    fn at(&self, seconds: u32) -> Instant {
        self.0 + SECOND * seconds
    }
}

fn state() -> LeaseState {
    LeaseState::new(Key::new("kube-system", "steersman"), "me".to_owned(), LEASE)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// A record as any client may have written it.
fn lease(version: u32, holder: &str, transitions: i64, renewed: i64) -> Value {
    json!({
        "metadata": {"name": "steersman", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
            "acquireTime": "1970-01-01T00:00:00.000000Z", "renewTime": wall(renewed).to_string(),
        },
    })
}

fn released(version: u32, by: &str, transitions: i64) -> Value {
    let versions = BTreeMap::from([("pods".to_owned(), "9".to_owned())]);
    let mut lease = Record::new(lease(version, by, transitions, 0)).release(wall(0), &versions);
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    lease
}

fn see(state: &mut LeaseState, now: Instant, lease: Value) {
    state.observe(now, Some(Record::new(lease)));
}

/// Returns the next write as the API server will return it.
fn send(state: &mut LeaseState, now: Instant, version: u32) -> Value {
    let mut lease = match state.step(now, wall(1000)) {
        Step::Create(lease) | Step::Replace(lease) => lease,
        other => panic!("no write: {other:?}"),
    };
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    lease["metadata"]["uid"] = json!("u");
    lease
}

#[test]
fn record_is_respected_for_its_duration_after_the_last_change() {
    let (time, mut state) = (Time::new(), state());
    assert!(matches!(state.step(time.at(0), wall(0)), Step::Read));
    see(&mut state, time.at(0), lease(1, "other", 3, -9999));
    assert!(matches!(state.step(time.at(14), wall(14)), Step::Wait(until) if until == time.at(15)));
    // Neither the same record nor a label is a change.
    let mut labelled = lease(2, "other", 3, -9999);
    labelled["metadata"]["labels"] = json!({"a": "b"});
    see(&mut state, time.at(10), labelled);
    assert!(matches!(state.step(time.at(10), wall(0)), Step::Wait(until) if until == time.at(15)));
    see(&mut state, time.at(11), lease(3, "other", 3, -9998));
    assert!(matches!(state.step(time.at(25), wall(0)), Step::Wait(until) if until == time.at(26)));
    let sent = send(&mut state, time.at(26), 4);
    assert_eq!(sent["spec"]["holderIdentity"], json!("me"));
    assert_eq!(sent["spec"]["leaseTransitions"], json!(4));
    assert!(!state.is_held());
    state.record_write(time.at(26), Record::new(sent));
    assert!(state.is_held());
    assert!(
        state.earliest_start().is_some_and(|clear| clear <= time.at(26)),
        "may lead"
    );
    assert_eq!(state.takeover(), Takeover::Unclean);
}

#[test]
fn missing_or_short_duration_is_replaced_by_own_and_long_one_is_respected() {
    for (duration, wait) in [(json!(null), 15), (json!(1), 15), (json!(60), 60)] {
        let (time, mut state) = (Time::new(), state());
        let mut record = lease(1, "other", 0, 0);
        record["spec"]["leaseDurationSeconds"] = duration;
        see(&mut state, time.at(0), record);
        assert!(matches!(state.step(time.at(0), wall(0)), Step::Wait(until) if until == time.at(wait)));
    }
}

#[test]
fn renewal_keeps_acquire_time_and_transitions() {
    let (time, mut state) = (Time::new(), state());
    state.observe(time.at(0), None);
    let first = send(&mut state, time.at(0), 1);
    assert_eq!(first["spec"]["leaseTransitions"], json!(0));
    state.record_write(time.at(0), Record::new(first.clone()));
    let Step::Replace(second) = state.step(time.at(2), wall(1002)) else {
        panic!("no renewal");
    };
    assert_eq!(second["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    assert_eq!(second["spec"]["leaseTransitions"], json!(0));
    assert_eq!(
        second["metadata"]["resourceVersion"],
        json!("1"),
        "of the record that was read"
    );
    assert_ne!(second["spec"]["renewTime"], first["spec"]["renewTime"]);
}

#[test]
fn only_release_by_last_holder_permits_immediate_lead() {
    // The record before, the release, whether it is trusted.
    let cases = [
        (None, released(2, "a", 3), true),
        (Some(lease(1, "a", 3, 0)), released(2, "a", 3), true),
        (Some(lease(1, "a", 3, 0)), released(2, "b", 4), true),
        (Some(lease(1, "a", 3, 0)), released(2, "b", 3), false),
        (Some(lease(1, "a", 3, 0)), released(2, "a", 2), false),
        (Some(lease(1, "a", 3, 0)), lease(2, "", 3, 0), false),
        (None, lease(2, "", 3, 0), false),
    ];
    for (number, (before, release, trusted)) in cases.into_iter().enumerate() {
        let (time, mut state) = (Time::new(), state());
        if let Some(before) = before {
            see(&mut state, time.at(0), before);
        }
        see(&mut state, time.at(5), release);
        let sent = send(&mut state, time.at(5), 3);
        assert_eq!(sent["metadata"].get("annotations"), trusted_annotations(&sent));
        state.record_write(time.at(5), Record::new(sent));
        let clean = BTreeMap::from([("pods".to_owned(), "9".to_owned())]);
        if trusted {
            assert_eq!(state.earliest_start(), None, "{number}");
            assert_eq!(state.takeover(), Takeover::Clean(clean), "{number}");
        } else {
            assert_eq!(state.earliest_start(), Some(time.at(20)), "{number}");
            assert_eq!(state.takeover(), Takeover::Unclean, "{number}");
        }
    }
}

/// Asserts that the annotations of the release are removed.
fn trusted_annotations(sent: &Value) -> Option<&Value> {
    let annotations = sent["metadata"].get("annotations");
    assert!(annotations.is_none_or(|annotations| *annotations == json!({})));
    annotations
}

#[test]
fn release_on_a_recreated_lease_is_not_trusted() {
    let (time, mut state) = (Time::new(), state());
    see(&mut state, time.at(0), lease(1, "a", 3, 0));
    let mut other = released(2, "b", 9);
    other["metadata"]["uid"] = json!("v");
    see(&mut state, time.at(5), other);
    assert_eq!(state.earliest_start(), Some(time.at(20)));
}

#[test]
fn deleted_or_recreated_lease_delays_the_start_but_a_new_one_does_not() {
    let (time, mut first) = (Time::new(), state());
    first.observe(time.at(0), None);
    assert_eq!(first.earliest_start(), None);
    let empty = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
    see(&mut first, time.at(0), empty.clone());
    assert_eq!(first.earliest_start(), None, "never held");

    let mut state = state();
    see(&mut state, time.at(0), lease(1, "a", 0, 0));
    state.observe(time.at(8), None);
    assert_eq!(state.earliest_start(), Some(time.at(23)));
    // Again for each observed absence: the Lease may have existed in between.
    state.observe(time.at(9), None);
    assert_eq!(state.earliest_start(), Some(time.at(24)));
    see(&mut state, time.at(10), empty);
    assert_eq!(state.earliest_start(), Some(time.at(25)));
}

#[test]
fn own_identity_without_own_claim_is_not_ours() {
    let (time, mut state) = (Time::new(), state());
    see(&mut state, time.at(0), lease(1, "me", 3, 0));
    assert!(!state.is_held());
    assert!(matches!(state.step(time.at(0), wall(0)), Step::Wait(until) if until == time.at(15)));
    let ours = send(&mut state, time.at(15), 2);
    state.record_write(time.at(15), Record::new(ours.clone()));
    for change in [
        json!({"leaseTransitions": 9}),
        json!({"acquireTime": "1971-01-01T00:00:00.000000Z"}),
        json!({"holderIdentity": "other"}),
        json!({"holderIdentity": ""}),
    ] {
        let mut changed = ours.clone();
        for (field, value) in change.as_object().expect("an object") {
            changed["spec"][field] = value.clone();
        }
        see(&mut state, time.at(16), changed);
        assert!(!state.is_held(), "{change}");
        see(&mut state, time.at(16), ours.clone());
        assert!(state.is_held());
    }
    let mut recreated = ours;
    recreated["metadata"]["uid"] = json!("v");
    see(&mut state, time.at(16), recreated);
    assert!(!state.is_held());
}

#[test]
fn retried_claim_with_unknown_outcome_is_the_same_claim() {
    let (time, mut state) = (Time::new(), state());
    see(&mut state, time.at(0), released(1, "a", 3));
    let first = send(&mut state, time.at(0), 2);
    state.invalidate();
    assert!(matches!(state.step(time.at(5), wall(5)), Step::Read));
    see(&mut state, time.at(5), released(1, "a", 3));
    let Step::Replace(again) = state.step(time.at(5), wall(5000)) else {
        panic!("no retry");
    };
    assert_eq!(again["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    // The first write was only late.
    state.invalidate();
    see(&mut state, time.at(6), first);
    assert!(state.is_held());
    assert!(
        matches!(state.takeover(), Takeover::Clean(_)),
        "the takeover of the claim"
    );
    assert_eq!(state.earliest_start(), None);
}

#[test]
fn claim_over_another_record_is_a_new_claim() {
    let (time, mut state) = (Time::new(), state());
    see(&mut state, time.at(0), lease(1, "other", 3, 0));
    let first = send(&mut state, time.at(15), 2);
    // The write has failed, because the holder has renewed.
    see(&mut state, time.at(16), lease(2, "other", 3, 1));
    let Step::Replace(second) = state.step(time.at(31), wall(1016)) else {
        panic!("no claim");
    };
    let transitions = |lease: &Value| lease["spec"]["leaseTransitions"].clone();
    assert_eq!((transitions(&first), transitions(&second)), (json!(4), json!(4)));
    assert_ne!(first["spec"]["acquireTime"], second["spec"]["acquireTime"]);
    see(&mut state, time.at(32), lease(3, "another", 7, 2));
    assert_eq!(transitions(&send(&mut state, time.at(47), 4)), json!(8));
}

#[test]
fn unknown_outcome_requires_a_read_and_deletion_delays_the_start() {
    let (time, mut state) = (Time::new(), state());
    assert!(state.needs_read() && state.record().is_none());
    see(&mut state, time.at(0), lease(1, "other", 3, 0));
    assert!(!state.needs_read());
    assert_eq!(state.record().map(Record::holder), Some("other"));
    state.invalidate();
    assert!(state.needs_read());
    assert_eq!(state.record().map(Record::holder), Some("other"));
    state.observe_deletion(time.at(8), "5".into());
    assert!(!state.needs_read() && state.record().is_none());
    assert_eq!(state.newest(), &"5".into());
    assert_eq!(state.earliest_start(), Some(time.at(23)));
}

#[test]
fn takeover_is_unclean_after_the_end_of_the_term() {
    let (time, mut state) = (Time::new(), state());
    see(&mut state, time.at(0), released(1, "a", 3));
    let ours = send(&mut state, time.at(0), 2);
    state.record_write(time.at(0), Record::new(ours));
    assert!(matches!(state.takeover(), Takeover::Clean(_)));
    state.end_term();
    assert_eq!(state.takeover(), Takeover::Unclean);
}

#[test]
fn given_up_claim_leaves_the_record_to_others() {
    let (time, mut state) = (Time::new(), state());
    state.observe(time.at(0), None);
    let ours = send(&mut state, time.at(0), 1);
    state.record_write(time.at(0), Record::new(ours.clone()));
    state.give_up_claim(LEASE + 2 * SECOND);
    assert!(!state.is_held());
    assert!(matches!(state.step(time.at(10), wall(10)), Step::Wait(until) if until == time.at(17)));
    // Our own late write is not ours any more.
    let mut late = ours;
    late["spec"]["renewTime"] = json!(wall(9).to_string());
    see(&mut state, time.at(12), late);
    assert!(!state.is_held());
    assert!(matches!(state.step(time.at(12), wall(12)), Step::Wait(until) if until == time.at(27)));
}
