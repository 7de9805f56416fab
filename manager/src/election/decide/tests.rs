use super::*;

use std::collections::BTreeMap;

use serde_json::json;

const LEASE: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);

/// Time, as a number of seconds.
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

fn view() -> View {
    View::new(Key::new("kube-system", "coxswain"), "me".to_owned(), LEASE)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// A record as somebody may have written it.
fn lease(version: u32, holder: &str, transitions: i64, renewed: i64) -> Value {
    json!({
        "metadata": {"name": "coxswain", "uid": "u", "resourceVersion": version.to_string()},
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

fn see(view: &mut View, now: Instant, lease: Value) {
    view.observe(now, Some(Record::new(lease)));
}

/// What is sent next, as it will come back from the server.
fn send(view: &mut View, now: Instant, version: u32) -> Value {
    let mut lease = match view.step(now, wall(1000)) {
        Step::Create(lease) | Step::Replace(lease) => lease,
        other => panic!("nothing is sent: {other:?}"),
    };
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    lease["metadata"]["uid"] = json!("u");
    lease
}

#[test]
fn a_record_is_left_alone_for_its_duration_from_when_it_was_last_seen_to_change() {
    let (time, mut view) = (Time::new(), view());
    assert!(matches!(view.step(time.at(0), wall(0)), Step::Read));
    see(&mut view, time.at(0), lease(1, "other", 3, -9999));
    assert!(matches!(view.step(time.at(14), wall(14)), Step::Wait(until) if until == time.at(15)));
    // The same again is no change, and a label is none.
    let mut labelled = lease(2, "other", 3, -9999);
    labelled["metadata"]["labels"] = json!({"a": "b"});
    see(&mut view, time.at(10), labelled);
    assert!(matches!(view.step(time.at(10), wall(0)), Step::Wait(until) if until == time.at(15)));
    see(&mut view, time.at(11), lease(3, "other", 3, -9998));
    assert!(matches!(view.step(time.at(25), wall(0)), Step::Wait(until) if until == time.at(26)));
    let sent = send(&mut view, time.at(26), 4);
    assert_eq!(sent["spec"]["holderIdentity"], json!("me"));
    assert_eq!(sent["spec"]["leaseTransitions"], json!(4));
    assert!(!view.is_held());
    view.wrote(time.at(26), Record::new(sent));
    assert!(view.is_held());
    assert!(
        view.clear_at().is_some_and(|clear| clear <= time.at(26)),
        "it may act"
    );
    assert_eq!(view.takeover(), Takeover::Unclean);
}

#[test]
fn a_duration_that_is_missing_or_short_is_taken_for_ours_and_a_long_one_counts() {
    for (duration, wait) in [(json!(null), 15), (json!(1), 15), (json!(60), 60)] {
        let (time, mut view) = (Time::new(), view());
        let mut record = lease(1, "other", 0, 0);
        record["spec"]["leaseDurationSeconds"] = duration;
        see(&mut view, time.at(0), record);
        assert!(matches!(view.step(time.at(0), wall(0)), Step::Wait(until) if until == time.at(wait)));
    }
}

#[test]
fn a_renewal_keeps_when_and_how_often_it_was_taken() {
    let (time, mut view) = (Time::new(), view());
    view.observe(time.at(0), None);
    let first = send(&mut view, time.at(0), 1);
    assert_eq!(first["spec"]["leaseTransitions"], json!(0));
    view.wrote(time.at(0), Record::new(first.clone()));
    let Step::Replace(second) = view.step(time.at(2), wall(1002)) else {
        panic!("it is renewed");
    };
    assert_eq!(second["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    assert_eq!(second["spec"]["leaseTransitions"], json!(0));
    assert_eq!(
        second["metadata"]["resourceVersion"],
        json!("1"),
        "of what was read"
    );
    assert_ne!(second["spec"]["renewTime"], first["spec"]["renewTime"]);
}

#[test]
fn only_the_release_of_the_last_holder_clears_the_way() {
    // What was seen before, the release, whether it is believed.
    let cases = [
        (None, released(2, "a", 3), true),
        (Some(lease(1, "a", 3, 0)), released(2, "a", 3), true),
        (Some(lease(1, "a", 3, 0)), released(2, "b", 4), true),
        (Some(lease(1, "a", 3, 0)), released(2, "b", 3), false),
        (Some(lease(1, "a", 3, 0)), released(2, "a", 2), false),
        (Some(lease(1, "a", 3, 0)), lease(2, "", 3, 0), false),
        (None, lease(2, "", 3, 0), false),
    ];
    for (number, (before, release, believed)) in cases.into_iter().enumerate() {
        let (time, mut view) = (Time::new(), view());
        if let Some(before) = before {
            see(&mut view, time.at(0), before);
        }
        see(&mut view, time.at(5), release);
        let sent = send(&mut view, time.at(5), 3);
        assert_eq!(sent["metadata"].get("annotations"), believed_annotations(&sent));
        view.wrote(time.at(5), Record::new(sent));
        let clean = BTreeMap::from([("pods".to_owned(), "9".to_owned())]);
        if believed {
            assert_eq!(view.clear_at(), None, "{number}");
            assert_eq!(view.takeover(), Takeover::Clean(clean), "{number}");
        } else {
            assert_eq!(view.clear_at(), Some(time.at(20)), "{number}");
            assert_eq!(view.takeover(), Takeover::Unclean, "{number}");
        }
    }
}

/// None, or none of ours.
fn believed_annotations(sent: &Value) -> Option<&Value> {
    let annotations = sent["metadata"].get("annotations");
    assert!(annotations.is_none_or(|annotations| *annotations == json!({})));
    annotations
}

#[test]
fn a_lease_that_is_another_object_under_the_same_name_is_not_believed() {
    let (time, mut view) = (Time::new(), view());
    see(&mut view, time.at(0), lease(1, "a", 3, 0));
    let mut other = released(2, "b", 9);
    other["metadata"]["uid"] = json!("v");
    see(&mut view, time.at(5), other);
    assert_eq!(view.clear_at(), Some(time.at(20)));
}

#[test]
fn one_that_is_gone_or_made_anew_is_waited_out_but_not_the_first_ever() {
    let (time, mut first) = (Time::new(), view());
    first.observe(time.at(0), None);
    assert_eq!(first.clear_at(), None);
    let empty = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
    see(&mut first, time.at(0), empty.clone());
    assert_eq!(first.clear_at(), None, "nobody has held it");

    let mut view = view();
    see(&mut view, time.at(0), lease(1, "a", 0, 0));
    view.observe(time.at(8), None);
    assert_eq!(view.clear_at(), Some(time.at(23)));
    // Each time that it is not there: it may have been there in between.
    view.observe(time.at(9), None);
    assert_eq!(view.clear_at(), Some(time.at(24)));
    see(&mut view, time.at(10), empty);
    assert_eq!(view.clear_at(), Some(time.at(25)));
}

#[test]
fn our_name_without_our_claim_is_a_stranger() {
    let (time, mut view) = (Time::new(), view());
    see(&mut view, time.at(0), lease(1, "me", 3, 0));
    assert!(!view.is_held());
    assert!(matches!(view.step(time.at(0), wall(0)), Step::Wait(until) if until == time.at(15)));
    let ours = send(&mut view, time.at(15), 2);
    view.wrote(time.at(15), Record::new(ours.clone()));
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
        see(&mut view, time.at(16), changed);
        assert!(!view.is_held(), "{change}");
        see(&mut view, time.at(16), ours.clone());
        assert!(view.is_held());
    }
    let mut made_anew = ours;
    made_anew["metadata"]["uid"] = json!("v");
    see(&mut view, time.at(16), made_anew);
    assert!(!view.is_held());
}

#[test]
fn a_claim_without_an_answer_is_the_same_claim_when_it_is_tried_again() {
    let (time, mut view) = (Time::new(), view());
    see(&mut view, time.at(0), released(1, "a", 3));
    let first = send(&mut view, time.at(0), 2);
    view.doubt();
    assert!(matches!(view.step(time.at(5), wall(5)), Step::Read));
    see(&mut view, time.at(5), released(1, "a", 3));
    let Step::Replace(again) = view.step(time.at(5), wall(5000)) else {
        panic!("it is tried again");
    };
    assert_eq!(again["spec"]["acquireTime"], first["spec"]["acquireTime"]);
    // It had only been late.
    view.doubt();
    see(&mut view, time.at(6), first);
    assert!(view.is_held());
    assert!(
        matches!(view.takeover(), Takeover::Clean(_)),
        "and is what it was made for"
    );
    assert_eq!(view.clear_at(), None);
}

#[test]
fn whoever_lapses_leaves_its_record_to_others_for_a_while() {
    let (time, mut view) = (Time::new(), view());
    view.observe(time.at(0), None);
    let ours = send(&mut view, time.at(0), 1);
    view.wrote(time.at(0), Record::new(ours.clone()));
    view.lapse(LEASE + 2 * SECOND);
    assert!(!view.is_held());
    assert!(matches!(view.step(time.at(10), wall(10)), Step::Wait(until) if until == time.at(17)));
    // A write of ours that arrives late is not ours any more.
    let mut late = ours;
    late["spec"]["renewTime"] = json!(wall(9).to_string());
    see(&mut view, time.at(12), late);
    assert!(!view.is_held());
    assert!(matches!(view.step(time.at(12), wall(12)), Step::Wait(until) if until == time.at(27)));
}
