//! Traces of reconciles.

use super::*;

use prometheus::IntCounter;
use tokio::sync::mpsc::Receiver;

use crate::object::Resource;
use crate::trace::{self, FinishedSpan, LINKS_MAX, Span, SpanKind, Tracer};

fn tracer(test: &Fixture) -> (Tracer, Receiver<FinishedSpan>) {
    let dropped = IntCounter::new("dropped", "for the test").expect("a counter");
    Tracer::new(&test.env, 1_000_000, dropped)
}

/// Adds an object as a watch event does.
fn add(test: &Fixture, tracer: &Tracer, name: &str) -> Span {
    let event = tracer
        .root("watch event", SpanKind::Consumer)
        .expect("it is sampled");
    trace::in_scope(Some(event.clone()), || test.pods.add(name));
    event
}

fn all(finished: &mut Receiver<FinishedSpan>) -> Vec<FinishedSpan> {
    std::iter::from_fn(|| finished.try_recv().ok()).collect()
}

fn named<'a>(spans: &'a [FinishedSpan], name: &str) -> Vec<&'a FinishedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test(start_paused = true)]
async fn requeue_starts_a_trace_with_a_link_and_merged_events_are_links() {
    let test = Fixture::new();
    let (tracer, mut finished) = tracer(&test);
    let controller = test.controller(Options::default(), |context, key| async move {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let _: Result<MetaObject, _> = context.client.get(&pods, &key).await;
        context.env.clock.sleep(secs(5)).await;
        match context.cause {
            Cause::Requeue => Ok(Action::Done),
            _ => Ok(Action::RequeueAfter(secs(60))),
        }
    });
    let _running = test.run(&controller);
    test.sleep(secs(1)).await;
    let event = add(&test, &tracer, "a");
    test.sleep(secs(8)).await;
    let spans = all(&mut finished);
    let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["watch event", "queue", "GET pods", "reconcile"]);
    assert!(
        spans
            .iter()
            .all(|span| span.context.trace_id == event.context().trace_id)
    );
    let parents: Vec<_> = spans.iter().map(|span| span.parent).collect();
    let id = |at: usize| Some(spans[at].context.span_id);
    assert_eq!(parents, [None, id(0), id(3), id(1)]);
    assert_eq!(spans[2].error.as_deref(), Some("429"));
    let first = spans[3].context;

    // The requeue, and events while it is processing.
    test.sleep(secs(58)).await;
    for _ in 0..LINKS_MAX + 3 {
        add(&test, &tracer, "a");
        test.sleep(ms(1)).await;
    }
    test.sleep(secs(20)).await;
    let spans = all(&mut finished);
    let reconciles = named(&spans, "reconcile");
    assert_eq!(reconciles[0].parent, None);
    assert_eq!(reconciles[0].links, [first]);
    assert_ne!(reconciles[0].context.trace_id, first.trace_id);
    let queue = named(&spans, "queue");
    assert_eq!((queue.len(), queue[0].links.len()), (1, LINKS_MAX));
    assert_eq!(reconciles[1].parent, Some(queue[0].context.span_id));
}

#[tokio::test(start_paused = true)]
async fn listed_object_and_event_without_a_key_are_not_traced() {
    let test = Fixture::new();
    let (tracer, mut finished) = tracer(&test);
    test.pods.add("listed");
    let builder = Builder::new(
        "test-controller",
        Options::default(),
        ReconcileFn(|_, _| async {
            assert!(trace::current().is_none());
            Ok(Action::Done)
        }),
    );
    let none = Source::new(test.pods.clone(), Handler::map(|_: &MetaObject| Vec::new()));
    let listed = Source::new(test.pods.clone(), Handler::for_object());
    let listed = listed.only(crate::predicate::Predicate::new(|delta: &Delta<MetaObject>| {
        matches!(delta, Delta::Added { initial: true, .. })
    }));
    let controller = test.build(builder.watch(none).watch(listed));
    let _running = test.run(&controller);
    test.sleep(secs(1)).await;
    add(&test, &tracer, "a");
    test.sleep(secs(1)).await;
    assert!(all(&mut finished).is_empty());
}
