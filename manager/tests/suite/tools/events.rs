//! Events: written as they come, given up on when they must be, in nobody's way.

use std::time::Duration;

use coxswain_manager::client::{Delete, Fence, ListQuery, View};
use coxswain_manager::events::{EventType, ObjectRef, Recorder};
use coxswain_manager::object::{Key, Resource, Uid, Version};
use serde_json::{Value, json};

use super::{Bed, Fault, bed};

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_hours(1);

fn recorder(bed: &Bed) -> Recorder {
    Recorder::start(
        &bed.env,
        bed.client.clone(),
        "set-controller",
        "host-1",
        &bed.registry,
    )
    .expect("the metric is new")
}

fn pod(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::from("u-1"),
        resource_version: Version::from("12"),
    }
}

async fn events(bed: &Bed) -> Vec<Value> {
    let query = ListQuery::default();
    let list = bed
        .client
        .list(&EVENTS, "", &query, View::Full)
        .await
        .expect("a list");
    let list: Value = serde_json::from_slice(&list).expect("JSON");
    list["items"].as_array().cloned().unwrap_or_default()
}

fn dropped(bed: &Bed, reason: &str) -> u64 {
    let families = bed.registry.gather();
    let family = families
        .iter()
        .find(|it| it.name() == "coxswain_events_dropped_total");
    let series = family
        .into_iter()
        .flat_map(prometheus::proto::MetricFamily::get_metric);
    let named = series.filter(|it| it.get_label().iter().any(|label| label.value() == reason));
    let total = named.fold(0.0, |sum, it| sum + it.get_counter().get_value());
    total.to_string().parse().expect("a whole number")
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_happened_to_whom_and_who_says_so() {
    let bed = bed();
    let recorder = recorder(&bed);
    recorder.event(&pod("default", "web"), EventType::Normal, "Created", "made it");
    recorder.event(
        &pod("default", "web"),
        EventType::Warning,
        "Failed",
        &"é".repeat(2000),
    );
    assert!(recorder.flush(SOON).await);
    let events = events(&bed).await;
    let nanos = 1_800_000_000_000_000_000_u64;
    assert_eq!(events[0]["metadata"]["name"], format!("web.{nanos:x}"));
    assert_eq!(
        events[1]["metadata"]["name"],
        format!("web.{:x}", nanos + 1),
        "same time, other name"
    );
    let involved = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web",
                          "uid": "u-1", "resourceVersion": "12"});
    assert_eq!(events[0]["involvedObject"], involved);
    for (field, value) in [
        ("type", json!("Normal")),
        ("reason", json!("Created")),
        ("message", json!("made it")),
        ("source", json!({"component": "set-controller"})),
        ("reportingComponent", json!("set-controller")),
        ("reportingInstance", json!("host-1")),
        ("firstTimestamp", json!("2027-01-15T08:00:00Z")),
        ("lastTimestamp", json!("2027-01-15T08:00:00Z")),
        ("count", json!(1)),
    ] {
        assert_eq!(events[0][field], value, "{field}");
    }
    assert_eq!(events[1]["type"], "Warning");
    assert_eq!(events[1]["message"].as_str().map(str::len), Some(1024));
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_and_oddly_named_objects_have_events_too() {
    let bed = bed();
    let recorder = recorder(&bed);
    recorder.event(&pod("", "node-1"), EventType::Normal, "Up", "");
    recorder.event(&pod("default", "system:odd"), EventType::Normal, "Up", "");
    assert!(recorder.flush(SOON).await);
    let events = events(&bed).await;
    assert_eq!(events.len(), 2);
    assert!(
        events
            .iter()
            .all(|event| event["metadata"]["namespace"] == "default")
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_server_is_tried_again_and_a_lost_answer_makes_no_second_event() {
    let bed = bed();
    let recorder = recorder(&bed);
    bed.break_next([Fault::Lost, Fault::Hangs, Fault::Code(502), Fault::AnswerLost]);
    recorder.event(&pod("default", "web"), EventType::Normal, "Created", "");
    assert!(recorder.flush(LATER).await);
    assert_eq!(events(&bed).await.len(), 1);
    assert_eq!(bed.faults_left(), 0);
    assert_eq!(dropped(&bed, "unreachable") + dropped(&bed, "rejected"), 0);
}

#[tokio::test(start_paused = true)]
async fn after_twelve_tries_an_event_is_given_up() {
    let bed = bed();
    let recorder = recorder(&bed);
    bed.break_next([Fault::Lost; 12]);
    recorder.event(&pod("default", "lost"), EventType::Normal, "Created", "");
    recorder.event(&pod("default", "kept"), EventType::Normal, "Created", "");
    let start = bed.env.clock.now();
    assert!(recorder.flush(LATER).await);
    let took = bed.env.clock.now() - start;
    // Eleven waits, of which the first is a random part of one.
    let (ten, eleven) = (Duration::from_secs(100), Duration::from_secs(110));
    assert!((ten..=eleven).contains(&took), "{took:?}");
    let events = events(&bed).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "kept");
    assert_eq!(dropped(&bed, "unreachable"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_refuses_is_dropped_at_once() {
    let bed = bed();
    let recorder = recorder(&bed);
    let start = bed.env.clock.now();
    recorder.event(&pod("no-such-namespace", "web"), EventType::Normal, "Created", "");
    assert!(recorder.flush(LATER).await);
    assert_eq!(bed.env.clock.now(), start);
    assert_eq!(dropped(&bed, "rejected"), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_server_that_is_away_and_memory_is_bounded() {
    let bed = bed();
    let recorder = recorder(&bed);
    bed.break_next(std::iter::repeat_n(Fault::Hangs, 10_000));
    let start = bed.env.clock.now();
    recorder.event(&pod("default", "first"), EventType::Normal, "Created", "");
    // It is taken out of the queue.
    assert!(!recorder.flush(SOON).await, "given up on in time");
    for i in 0..1500 {
        recorder.event(&pod("default", &i.to_string()), EventType::Normal, "Created", "");
    }
    assert_eq!(bed.env.clock.now() - start, SOON);
    // The flush that was given up on still has its place.
    assert_eq!(dropped(&bed, "queue_full"), 501);
    bed.break_next([]);
    assert!(recorder.flush(LATER).await);
    assert_eq!(events(&bed).await.len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_is_counted_on_the_first_event() {
    let bed = bed();
    let recorder = recorder(&bed);
    let web = pod("default", "web");
    for _ in 0..5 {
        recorder.event(&web, EventType::Warning, "Failed", "no");
        bed.env.clock.sleep(Duration::from_mins(1)).await;
    }
    // In another way, for another reason, with other words, or to somebody else.
    recorder.event(&web, EventType::Normal, "Failed", "no");
    recorder.event(&web, EventType::Warning, "Lost", "no");
    recorder.event(&web, EventType::Warning, "Failed", "never");
    let again = ObjectRef {
        uid: Uid::from("u-2"),
        ..web.clone()
    };
    recorder.event(&again, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(SOON).await);
    let events = events(&bed).await;
    let counts: Vec<_> = events.iter().map(|it| it["count"].as_u64()).collect();
    assert_eq!(counts, [Some(5), Some(1), Some(1), Some(1), Some(1)]);
    assert_eq!(events[0]["firstTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(events[0]["lastTimestamp"], "2027-01-15T08:04:00Z");
}

#[tokio::test(start_paused = true)]
async fn what_happens_again_is_counted_once_if_the_answer_is_lost() {
    let bed = bed();
    let recorder = recorder(&bed);
    let web = pod("default", "web");
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(SOON).await);
    bed.break_next([Fault::AnswerLost, Fault::Lost]);
    recorder.event(&web, EventType::Warning, "Failed", "no");
    assert!(recorder.flush(LATER).await);
    let events = events(&bed).await;
    assert_eq!((events.len(), &events[0]["count"]), (1, &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_not_there_any_more_is_written_anew() {
    let bed = bed();
    let recorder = recorder(&bed);
    let web = pod("default", "web");
    for count in [1, 2, 1, 2] {
        recorder.event(&web, EventType::Warning, "Failed", "no");
        assert!(recorder.flush(SOON).await);
        let events = events(&bed).await;
        assert_eq!((events.len(), &events[0]["count"]), (1, &json!(count)));
        if count == 2 {
            let meta = &events[0]["metadata"];
            let key = Key::new("default", meta["name"].as_str().expect("a name"));
            let uid = Uid::from(meta["uid"].as_str().expect("a uid"));
            let deleted = bed.client.delete(&EVENTS, &key, &Delete::of(uid)).await;
            deleted.expect("it is gone");
        }
    }
    assert_eq!(dropped(&bed, "rejected"), 0);
}

#[tokio::test(start_paused = true)]
async fn five_hundred_events_about_one_object_are_no_five_hundred_writes() {
    let bed = bed();
    let recorder = recorder(&bed);
    let web = pod("default", "web");
    for i in 0..500 {
        recorder.event(&web, EventType::Normal, "Created", &format!("made {i}"));
        bed.env.clock.sleep(SOON / 2).await;
    }
    assert!(recorder.flush(SOON).await);
    assert!(bed.writes() <= 25, "{}", bed.writes());
    assert_eq!(dropped(&bed, "limited"), 475);
    let all = events(&bed).await;
    let messages: Vec<_> = all.iter().map(|it| it["message"].as_str()).collect();
    assert_eq!(messages.len(), 10);
    assert_eq!(messages[8], Some("made 8"));
    assert_eq!(messages[9], Some("(combined from similar events): made 24"));
    assert_eq!(all[9]["count"], 16);

    // Bad news, and what is about another object, is not held up by that; the rest is told later.
    recorder.event(&web, EventType::Warning, "Failed", "no");
    recorder.event(&pod("default", "db"), EventType::Normal, "Created", "made 1");
    bed.env.clock.sleep(Duration::from_mins(5)).await;
    recorder.event(&web, EventType::Normal, "Created", "made 500");
    assert!(recorder.flush(SOON).await);
    let all = events(&bed).await;
    assert_eq!((bed.writes(), all.len()), (28, 12));
    let combined = all.iter().find(|it| it["count"] == 492).expect("all are counted");
    assert_eq!(combined["message"], "(combined from similar events): made 500");
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_hours_is_one_event() {
    let bed = bed();
    let recorder = recorder(&bed);
    for _ in 0..1000 {
        recorder.event(&pod("default", "web"), EventType::Warning, "Failed", "no");
        bed.env.clock.sleep(10 * SOON).await;
    }
    assert!(recorder.flush(SOON).await);
    let events = events(&bed).await;
    assert_eq!(events.len(), 1);
    let count = events[0]["count"].as_u64().expect("a number");
    assert!((970..=1000).contains(&count), "{count}");
    assert!(bed.writes() <= 25 + 34, "{}", bed.writes());
}

#[tokio::test(start_paused = true)]
async fn events_of_a_term_that_is_over_are_not_sent() {
    let bed = bed();
    let fence = Fence::new(bed.env.clock.clone());
    let term = fence.open_forever();
    let client = bed.transport.client("test", None).in_term(&fence, term);
    let recorder = Recorder::start(&bed.env, client, "c", "i", &bed.registry).expect("the metric is new");
    recorder.event(&pod("default", "in"), EventType::Normal, "Created", "");
    assert!(recorder.flush(SOON).await);
    fence.close();
    recorder.event(&pod("default", "after"), EventType::Normal, "Created", "");
    assert!(recorder.flush(SOON).await);
    assert_eq!(events(&bed).await.len(), 1);
    assert_eq!(dropped(&bed, "fenced"), 1);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_last_clone_or_with_its_tasks_and_can_be_started_again() {
    let mut bed = bed();
    let first = recorder(&bed);
    let clone = first.clone();
    first.event(&pod("default", "web"), EventType::Normal, "Created", "");
    drop((first, clone));
    let second = recorder(&bed);
    assert!(second.flush(SOON).await);
    assert_eq!(events(&bed).await.len(), 1, "what was recorded is written");
    assert_eq!(bed.tasks.len(), 1);
    bed.tasks = coxswain_manager::env::TaskSet::new();
    assert!(!second.flush(SOON).await);
    second.event(&pod("default", "web"), EventType::Normal, "Created", "");
    assert_eq!(dropped(&bed, "stopped"), 1);
}
