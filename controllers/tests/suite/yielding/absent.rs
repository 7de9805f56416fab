//! The Lease is absent: kube-controller-manager does not run, or runs without leader election.

use super::*;

use steersman_harness::Log;
use steersman_manager::client::Fence;
use steersman_manager::controller::Runnable;
use steersman_manager::object::MetaObject;
use tracing::level_filters::LevelFilter;

const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const NOTE: &str = "yields, because kube-controller-manager may run without leader election: \
    lease kube-system/kube-controller-manager does not exist, ";
const HINT: &str =
    "; to run it, enable it by name in --controllers, or set --assume-no-kube-controller-manager";

/// Creates a `ReplicaSet` with the field manager that the API server derives from this user agent.
async fn create_replica_set(fixture: &Fixture, agent: &str) {
    let clock = &fixture.env.clock;
    let transport = Transport::from_service(
        fixture.sandbox.service(),
        "api.test",
        agent,
        clock,
        &Registry::new("steersman"),
    );
    let client = transport.expect("a transport").unfenced("replicasets", None);
    let template = json!({"metadata": {"labels": {"app": "web"}},
                          "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
                     "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let body = set.to_string().into();
    let created = client.create::<MetaObject>(&REPLICA_SETS, "default", body).await;
    created.expect("created");
}

impl Running {
    /// Returns the number of lists of `ReplicaSets` and Deployments.
    fn searches(&self) -> usize {
        let searched = self.faults.requests(&searches());
        for uri in searched.iter().map(|it| it.uri()) {
            assert!(uri.contains("limit=500") && !uri.contains("watch"), "{uri}");
        }
        searched.len()
    }

    async fn stays_dormant(&self) {
        for _ in 0..60 {
            self.sleep(10 * SECOND).await;
            assert!(!self.any_runs());
        }
        assert!(self.probes.iter().all(|probe| probe.notes().started == 0));
        assert_eq!(self.metrics(), (true, false));
    }
}

#[tokio::test(start_paused = true)]
async fn absent_lease_without_the_flag_yields() {
    let log = Log::keep(LevelFilter::INFO);
    let fixture = fixture();
    create_replica_set(&fixture, "kubectl").await;
    let running = fixture.run();
    running.stays_dormant().await;
    let expected = format!("{NOTE}no recent write of it was found{HINT}");
    assert_eq!(running.note(), Some(expected));
    assert_eq!(running.searches(), 2, "one list of each resource");
    let log = log.text();
    assert_eq!(
        log.matches("Found no lease and no recent writes").count(),
        1,
        "{log}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn absent_lease_with_recent_writes_yields_and_names_them() {
    let log = Log::keep(LevelFilter::INFO);
    let fixture = fixture();
    create_replica_set(&fixture, "kube-controller-manager").await;
    let running = fixture.run();
    running.stays_dormant().await;
    let expected = format!("{NOTE}it has written Deployments or ReplicaSets within 10 minutes{HINT}");
    assert_eq!(running.note(), Some(expected));
    assert_eq!(running.searches(), 1, "the first match ends the search");
    let log = log.text();
    let line = "INFO Found recent writes of kube-controller-manager, which holds no lease \
                object=ReplicaSet/default/web";
    assert_eq!(log.matches(line).count(), 1, "{log}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn flag_wins_over_recent_writes_and_is_logged() {
    let log = Log::keep(LevelFilter::INFO);
    let fixture = fixture().assuming_absent();
    create_replica_set(&fixture, "kube-controller-manager").await;
    let running = fixture.run();
    let waited = running.until(Running::all_run).await;
    assert!(waited < SECOND, "{waited:?}");
    running.sleep(Duration::from_mins(10)).await;
    assert!(running.all_run());
    assert_eq!((running.note(), running.metrics()), (None, (false, true)));
    let log = log.text();
    let line = "WARN Running beside kube-controller-manager, its recent writes contradict \
                --assume-no-kube-controller-manager object=ReplicaSet/default/web";
    assert_eq!(log.matches(line).count(), 1, "{log}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn write_older_than_ten_minutes_is_not_evidence() {
    for (age, recent) in [(9, true), (11, false)] {
        let fixture = fixture();
        create_replica_set(&fixture, "kube-controller-manager").await;
        fixture.env.clock.sleep(Duration::from_mins(age)).await;
        let running = fixture.run();
        running.sleep(SECOND).await;
        let note = running.note().expect("a note");
        assert_eq!(note.contains("it has written"), recent, "{age}: {note}");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_search_changes_nothing_and_is_not_repeated() {
    for fault in [
        Fault::Reject(403),
        Fault::Reject(500),
        Fault::Hang,
        Fault::Truncate,
    ] {
        for assume in [false, true] {
            let log = Log::keep(LevelFilter::INFO);
            let mut fixture = fixture();
            fixture.assume_absent = assume;
            inject(&fixture.faults, searches(), fault);
            let running = fixture.run();
            if assume {
                let waited = running.until(Running::all_run).await;
                assert!(waited < SECOND, "{fault:?} {waited:?}");
                running.sleep(Duration::from_mins(10)).await;
                assert!(running.all_run());
            } else {
                running.stays_dormant().await;
                let expected = format!("{NOTE}its recent writes cannot be listed{HINT}");
                assert_eq!(running.note(), Some(expected));
            }
            assert_eq!(running.searches(), 1, "{fault:?}");
            let log = log.text();
            let lines = log.matches("WARN Failed to list recent writes of kube-controller-manager");
            assert_eq!(lines.count(), 1, "{fault:?} {log}");
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn search_is_repeated_in_each_term_and_shared_by_all_controllers() {
    let fixture = fixture().assuming_absent();
    let kcm = KcmLease::start(&fixture.manager, fixture.assume_absent);
    fixture.env.clock.sleep(SECOND).await;
    let lists = || fixture.faults.count(&searches());
    assert_eq!(lists(), 2, "at start");
    let fence = Fence::new(fixture.env.clock.clone());
    let controllers = ["one", "two"].map(|name| {
        let probe = Arc::new(Probe::new(name, &fixture.env.clock));
        YieldingController::new(Shared(probe), kcm.clone())
    });
    for round in 1..4 {
        let term = fence.open_forever();
        let stop = CancellationToken::new();
        // A second apart: the second controller shares the search of this term.
        let (clock, fence, stop) = (&fixture.env.clock, &fence, &stop);
        let runs = controllers.iter().zip(0..).map(|(it, nth)| async move {
            clock.sleep(nth * SECOND).await;
            it.run(fence, term, stop.clone()).await
        });
        let ended = futures_util::future::try_join_all(runs);
        let stopped = async {
            clock.sleep(Duration::from_mins(1)).await;
            stop.cancel();
        };
        futures_util::future::join(ended, stopped).await.0.expect("ended");
        fence.close();
        assert_eq!(lists(), 2 + 2 * round);
    }
}

#[tokio::test(start_paused = true)]
async fn held_lease_wins_over_the_flag() {
    let fixture = fixture().assuming_absent();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(Duration::from_mins(1)).await;
    assert_eq!(running.searches(), 0, "no search is needed");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn expired_lease_that_is_deleted_stops_the_controllers() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.until(Running::all_run).await;
    running.delete().await;
    let waited = running.until(|it| !it.any_runs()).await;
    assert!(waited < SECOND / 10, "{waited:?}");
    running.stop().await;
}
