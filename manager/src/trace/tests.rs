use super::*;

use std::time::Duration;

use crate::env::TaskSet;

fn tracer(sampled_per_million: u32) -> (Env, Tracer, mpsc::Receiver<FinishedSpan>, IntCounter) {
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 7, &TaskSet::new());
    let dropped = IntCounter::new("dropped", "for the test").expect("a counter");
    let (tracer, finished) = Tracer::new(&env, sampled_per_million, dropped.clone());
    (env, tracer, finished, dropped)
}

fn root(tracer: &Tracer) -> Option<Span> {
    tracer.root("watch event", SpanKind::Consumer)
}

#[tokio::test(start_paused = true)]
async fn span_is_recorded_once_with_its_parent_and_duration() {
    let (env, tracer, mut finished, _) = tracer(MILLION);
    let event = root(&tracer).expect("every trace is sampled");
    event.set("resource", "pods");
    let child = event.child("queue", SpanKind::Internal);
    env.clock.sleep(Duration::from_secs(3)).await;
    event.end();
    event.end();
    event.set("late", 1);
    child.fail("for the test");
    drop(child);
    let recorded = finished.try_recv().expect("the event has ended");
    assert_eq!((recorded.context, recorded.parent), (event.context(), None));
    assert_eq!(recorded.attributes, [("resource", Attribute::from("pods"))]);
    assert_eq!(recorded.end.duration_since(recorded.start).as_secs(), 3);
    assert!(
        finished.try_recv().is_err(),
        "the child was dropped before its end"
    );

    let child = event.child("queue", SpanKind::Internal);
    let next = child.follow("reconcile", SpanKind::Internal);
    for _ in 0..2 * LINKS_MAX {
        child.link(next.context());
    }
    child.end();
    next.end();
    let child = finished.try_recv().expect("it has ended");
    assert_eq!(child.parent, Some(event.context().span_id));
    assert_eq!(child.context.trace_id, event.context().trace_id);
    assert_eq!(child.links.len(), LINKS_MAX);
    let next = finished.try_recv().expect("it has ended");
    assert_eq!((next.parent, &*next.links), (None, &[child.context][..]));
    assert_ne!(next.context.trace_id, child.context.trace_id);
}

#[tokio::test(start_paused = true)]
async fn spans_beyond_the_channel_are_dropped_and_counted() {
    let (_, tracer, mut finished, dropped) = tracer(MILLION);
    for _ in 0..CAPACITY + 3 {
        root(&tracer).expect("every trace is sampled").end();
    }
    assert_eq!(dropped.get(), 3);
    assert!(finished.try_recv().is_ok());
    drop(finished);
    root(&tracer).expect("every trace is sampled").end();
    assert_eq!(dropped.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn sampling_rate_is_kept() {
    let sampled = |rate| {
        let (_, tracer, _finished, _) = tracer(rate);
        (0..10_000).filter(|_| root(&tracer).is_some()).count()
    };
    assert_eq!((sampled(0), sampled(MILLION)), (0, 10_000));
    assert!((2_000..3_000).contains(&sampled(MILLION / 4)));
    assert!(root(&Tracer::default()).is_none());
    assert_eq!(size_of::<Option<Span>>(), size_of::<usize>());
}

#[tokio::test]
async fn current_span_is_that_of_the_innermost_scope() {
    let (_, tracer, _finished, _) = tracer(MILLION);
    assert!(current().is_none());
    let (outer, inner) = (root(&tracer), root(&tracer));
    let context = |span: &Option<Span>| span.as_ref().map(Span::context);
    scope(outer.clone(), async {
        assert_eq!(context(&current()), context(&outer));
        in_scope(inner.clone(), || assert_eq!(context(&current()), context(&inner)));
        in_scope(None, || assert!(current().is_none()));
        assert_eq!(context(&current()), context(&outer));
    })
    .await;
    assert!(current().is_none());
}

#[test]
fn traceparent_has_the_w3c_form() {
    let context = SpanContext {
        trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
        span_id: 0xb7ad_6b71_6920_3331,
    };
    assert_eq!(
        context.traceparent(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    );
}
