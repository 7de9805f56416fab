//! The Lease cannot be read, or not followed.

use super::*;

#[tokio::test(start_paused = true)]
async fn refused_they_yield_and_say_why() {
    for fault in [Fault::Refuse(403), Fault::RefuseWatches(403)] {
        let bed = bed().assuming_absent();
        *bed.way.fault.lock().expect("no panic") = fault;
        let running = bed.run();
        for _ in 0..60 {
            running.sleep(10 * SECOND).await;
            assert!(!running.any_runs());
        }
        assert!(
            running.probes.iter().all(|probe| probe.notes().started == 0),
            "{fault:?}"
        );
        let told = running.told().expect("a note");
        assert_eq!(
            told,
            "yields, because it cannot tell whether kube-controller-manager runs: \
             lease kube-system/kube-controller-manager: the API server answers 403; \
             to run it in any case, name it in --controllers"
        );
        assert_eq!(running.metrics(), (true, false));
        let (lists, watches) = running.asked();
        assert!((20..60).contains(&lists) && watches <= lists, "{lists} {watches}");

        running.fault(Fault::None);
        let waited = running.until(Running::all_run).await;
        assert!(waited <= 30 * SECOND, "{waited:?}");
        assert_eq!((running.told(), running.metrics()), (None, (false, true)));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_no_permission() {
    let bed = bed();
    *bed.way.fault.lock().expect("no panic") = Fault::Hang;
    let running = bed.run();
    running.sleep(SECOND).await;
    let told = running.told().expect("a note");
    assert!(told.starts_with("yields until it is known"), "{told}");
    running.sleep(Duration::from_mins(5)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let told = running.told().expect("a note");
    assert!(told.contains("the API server does not answer"), "{told}");
    running.stop().await;
}

/// Whatever ends the watch, the next try is refused.
async fn running_until_the_watch_ends(fault: Fault) -> Running {
    let running = bed().assuming_absent().run();
    running.until(Running::all_run).await;
    running.fault(fault);
    let before = running.asked();
    running.until(|it| it.asked() != before).await;
    running
}

#[tokio::test(start_paused = true)]
async fn what_is_known_holds_for_a_moment_without_a_watch() {
    for fault in [Fault::Refuse(503), Fault::Refuse(403), Fault::Hang] {
        let running = running_until_the_watch_ends(fault).await;
        running.sleep(3 * SECOND).await;
        running.fault(Fault::None);
        running.sleep(Duration::from_mins(1)).await;
        for probe in &running.probes {
            assert_eq!((probe.notes().started, probe.notes().told), (1, 0), "{fault:?}");
        }
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn and_no_longer() {
    for fault in [Fault::Refuse(503), Fault::Refuse(403), Fault::Hang] {
        let running = running_until_the_watch_ends(fault).await;
        let waited = running.until(|it| !it.any_runs()).await;
        assert!(waited <= LEASE + SECOND, "{fault:?} {waited:?}");
        assert!(running.told().is_some());
        running.fault(Fault::None);
        running.until(Running::all_run).await;
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_fallen_silent_does_not_make_a_live_one_dead() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let door = bed.way.door.clone();
    let running = bed.run();
    running.alive_for(LEASE).await;
    // From now on no renewal comes over the watch.
    door.lag()
        .hold_at("leases.coordination.k8s.io", running.sandbox.revision());
    running.alive_for(Duration::from_mins(3)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let (lists, _) = running.asked();
    assert!(lists > 5, "it was read each time: {lists}");
    let waited = running.until(Running::all_run).await;
    assert!(waited < 2 * LEASE, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_fallen_silent_hides_its_return_for_a_while_only() {
    let bed = bed().assuming_absent();
    let door = bed.way.door.clone();
    let running = bed.run();
    running.until(Running::all_run).await;
    door.lag()
        .hold_at("leases.coordination.k8s.io", running.sandbox.revision());
    let returned = async {
        loop {
            running.renew().await;
            running.sleep(2 * SECOND).await;
        }
    };
    let waited = tokio::select! {
        biased;
        waited = running.until(|it| !it.any_runs()) => waited,
        () = returned => unreachable!("it renews for ever"),
    };
    assert!(waited <= Duration::from_secs(95), "{waited:?}");
    running.stop().await;
}
