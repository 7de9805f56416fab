//! Reconcile functions that fail, and controllers with the same name.

use steersman_harness::Log;
use steersman_manager::controller::ControllerError;
use steersman_manager::manager::RunError;
use steersman_sandbox::faults::Matcher;
use tracing::level_filters::LevelFilter;

use super::*;

/// Returns the value of a counter of the controller `boat`.
fn count(f: &Fixture, metric: &str) -> u64 {
    f.metric(&format!("controller_runtime_{metric}{{controller=\"boat\"}}"))
}

#[tokio::test(start_paused = true)]
async fn panic_is_logged_counted_and_retried_with_backoff() {
    let log = Log::keep(LevelFilter::ERROR);
    let (f, seen) = (Fixture::new(), Seen::default());
    for name in ["bad", "good"] {
        f.boat(name).await;
    }
    let recorded = seen.clone();
    f.observe(
        Controller::<Boat>::new("boat").reconcile(move |ctx: Context<Boat>| {
            recorded.add(ctx.key());
            async move {
                assert_ne!(&*ctx.key().name, "bad", "for the test");
                Ok::<_, ReconcileError>(Action::Done)
            }
        }),
    );
    f.settle().await;
    assert_eq!(seen.count("default/good"), 1);
    // After 0, 5, 15, 35, 75, 155, 315 and 635 ms.
    assert_eq!(seen.count("default/bad"), 8);
    assert_eq!(count(&f, "reconcile_panics_total"), 8);
    let logged = log.text();
    assert!(
        logged.contains("Reconcile panicked") && logged.contains("object=Boat/default/bad"),
        "{logged}"
    );
    f.boat("later").await;
    f.settle().await;
    assert_eq!(seen.count("default/later"), 1);
    assert_eq!(f.health("boat"), Health::Ok);
}

#[tokio::test(start_paused = true)]
async fn reconcile_that_never_returns_ends_at_the_timeout() {
    let log = Log::keep(LevelFilter::ERROR);
    let (f, seen) = (Fixture::new(), Seen::default());
    f.boat("bad").await;
    let recorded = seen.clone();
    f.observe(
        Controller::<Boat>::new("boat")
            .timeout(HOUR)
            .reconcile(move |ctx: Context<Boat>| {
                recorded.add(ctx.key());
                async move {
                    if &*ctx.key().name == "bad" {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, ReconcileError>(Action::Done)
                }
            }),
    );
    f.settle().await;
    f.boat("good").await;
    f.env.clock.sleep(HOUR / 2).await;
    assert_eq!(seen.take(), ["default/bad"], "the only worker is busy");
    f.settle().await;
    let health = f.health("boat");
    assert!(
        matches!(&health, Health::Failed(why) if why.starts_with("default/good has waited in the queue")),
        "{health:?}"
    );
    f.env.clock.sleep(HOUR / 2).await;
    assert_eq!(seen.take(), ["default/good", "default/bad"]);
    assert_eq!(f.health("boat"), Health::Ok);
    assert_eq!(count(&f, "reconcile_timeouts_total"), 1);
    let logged = log.text();
    assert!(
        logged.contains("Reconcile timed out") && logged.contains("object=Boat/default/bad"),
        "{logged}"
    );
}

#[tokio::test(start_paused = true)]
async fn huge_times_neither_overflow_nor_loop() {
    for action in [
        Action::RequeueAfter(Duration::MAX),
        Action::Postpone(Duration::MAX),
        Action::Done,
    ] {
        let (f, seen) = (Fixture::new(), Seen::default());
        f.boat("a").await;
        let recorded = seen.clone();
        f.run(
            Controller::<Boat>::new("boat")
                .timeout(Duration::MAX)
                .resync(Duration::MAX)
                .reconcile(move |ctx: Context<Boat>| {
                    recorded.add(ctx.key());
                    std::future::ready(Ok::<_, ReconcileError>(action))
                }),
        );
        f.env.clock.sleep(24 * HOUR).await;
        assert_eq!(seen.take(), ["default/a"], "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_managers_without_election_conflict_at_conditional_writes() {
    let (f, seen) = (Fixture::new(), Seen::default());
    for _ in 0..2 {
        let recorded = seen.clone();
        f.run(
            Controller::<Boat>::new("boat").reconcile(move |ctx: Context<Boat>| {
                recorded.add("started");
                async move {
                    ctx.patch_status(&BoatStatus { ready: true })
                        .await
                        .map(|()| Action::Done)
                }
            }),
        );
    }
    f.settle().await;
    f.boat("a").await;
    f.env.clock.sleep(10 * SECOND).await;
    assert!(seen.take().len() >= 2, "both act");
    let conflicts = r#"rest_client_requests_total{code="409",host="sandbox",method="PATCH"}"#;
    assert_eq!(f.metric(conflicts), 1);
    let boats = f.user.api::<Boat>();
    let boat = boats.get(&key("a")).await.expect("an answer").expect("a boat");
    assert_eq!(boat.status, Some(BoatStatus { ready: true }));
    f.faults.forget();
    f.env.clock.sleep(HOUR).await;
    assert_eq!(f.faults.count(&Matcher::writes()), 0, "both agree");
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_name_are_rejected() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let controller = || Controller::<Boat>::new("boat").reconcile(record(&seen));
    let manager = Manager::builder("test")
        .controller(controller())
        .controller(controller());
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    assert!(
        matches!(&ended, Err(RunError::Controller(ControllerError::SameName { name })) if name == "boat"),
        "{ended:?}"
    );
}
