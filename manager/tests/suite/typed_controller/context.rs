//! The tools in the context of a reconcile: finalizers and events.

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Event;
use steersman_manager::client::ListQuery;
use steersman_manager::events::EventType;
use steersman_manager::object::Object as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn finalizer_runs_cleanup_before_the_deletion() {
    const FINALIZER: &str = "example.com/boat";
    let (f, seen) = (Fixture::new(), Seen::default());
    let boats = f.user.api::<Boat>();
    let recorded = seen.clone();
    f.run(
        Controller::<Boat>::new("boat").reconcile(move |ctx: Context<Boat>| {
            let (of_apply, of_cleanup) = (recorded.clone(), recorded.clone());
            let apply = async move |ctx: Context<Boat>| {
                let boat = ctx.object().expect("a boat");
                assert!(boat.meta().has_finalizer(FINALIZER));
                ctx.patch_status(&BoatStatus { ready: true }).await?;
                of_apply.add("apply");
                Ok::<_, ReconcileError>(Action::Done)
            };
            let cleanup = async move |_: Context<Boat>| {
                of_cleanup.add("cleanup");
                // The outside system needs two calls.
                let calls = of_cleanup.count("cleanup");
                Ok(if calls < 2 {
                    Action::RequeueAfter(SECOND)
                } else {
                    Action::Done
                })
            };
            ctx.with_finalizer(FINALIZER, apply, cleanup)
        }),
    );
    f.boat("a").await;
    f.settle().await;
    let boat = boats.get(&key("a")).await.expect("an answer").expect("a boat");
    assert_eq!(boat.status, Some(BoatStatus { ready: true }));
    assert!(seen.take().iter().all(|it| it == "apply"));
    assert!(boats.delete(&boat).await.expect("deleted"));
    let terminating = boats
        .get(&key("a"))
        .await
        .expect("an answer")
        .expect("it has a finalizer");
    assert!(terminating.metadata.deletion_timestamp.is_some());
    f.env.clock.sleep(5 * SECOND).await;
    assert_eq!(seen.take(), ["cleanup", "cleanup"]);
    assert!(boats.get(&key("a")).await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn event_is_recorded_about_the_object() {
    let f = Fixture::new();
    f.run(
        Controller::<Boat>::new("boat").reconcile(async |ctx: Context<Boat>| {
            ctx.event(EventType::Warning, "Leaking", "The boat has a leak.");
            Ok::<_, ReconcileError>(Action::Done)
        }),
    );
    f.boat("a").await;
    f.settle().await;
    let events = f.user.api::<Event>();
    let events = events.list("default", ListQuery::default());
    let events: Vec<Event> = events.try_collect().await.expect("a list");
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(event.reason.as_deref(), Some("Leaking"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Boat"));
    assert_eq!(event.reporting_component.as_deref(), Some("boat"));
}
