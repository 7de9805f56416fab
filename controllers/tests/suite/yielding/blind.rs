//! The Lease cannot be read or watched.

use super::*;

#[tokio::test(start_paused = true)]
async fn rejected_requests_make_controllers_yield_with_the_reason() {
    for fault in [Fault::Reject(403), Fault::RejectWatches(403)] {
        let fixture = fixture().assuming_absent();
        inject(&fixture.faults, leases(), fault);
        let running = fixture.run();
        for _ in 0..60 {
            running.sleep(10 * SECOND).await;
            assert!(!running.any_runs());
        }
        assert!(
            running.probes.iter().all(|probe| probe.notes().started == 0),
            "{fault:?}"
        );
        let note = running.note().expect("a note");
        assert_eq!(
            note,
            "yields, because it is unknown whether kube-controller-manager runs: \
             lease kube-system/kube-controller-manager: the API server returned 403; \
             to run it anyway, enable it by name in --controllers"
        );
        assert_eq!(running.metrics(), (true, false));
        let (lists, watches) = running.requests();
        assert!((20..60).contains(&lists) && watches <= lists, "{lists} {watches}");

        running.fault(Fault::None);
        let waited = running.until(Running::all_run).await;
        assert!(waited <= 30 * SECOND, "{waited:?}");
        assert_eq!((running.note(), running.metrics()), (None, (false, true)));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_server_makes_controllers_yield() {
    let fixture = fixture();
    inject(&fixture.faults, leases(), Fault::Hang);
    let running = fixture.run();
    running.sleep(SECOND).await;
    let note = running.note().expect("a note");
    assert!(note.starts_with("yields until lease "), "{note}");
    running.sleep(Duration::from_mins(5)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let note = running.note().expect("a note");
    assert!(note.contains("the API server did not respond"), "{note}");
    running.stop().await;
}

/// Returns after the watch ended and a request met the fault.
async fn running_until_the_watch_ends(fault: Fault) -> Running {
    let running = fixture().assuming_absent().run();
    running.until(Running::all_run).await;
    running.fault(fault);
    let before = running.requests();
    running.until(|it| it.requests() != before).await;
    running
}

#[tokio::test(start_paused = true)]
async fn state_stays_valid_briefly_without_a_watch() {
    for fault in [Fault::Reject(503), Fault::Reject(403), Fault::Hang] {
        let running = running_until_the_watch_ends(fault).await;
        running.sleep(3 * SECOND).await;
        running.fault(Fault::None);
        running.sleep(Duration::from_mins(1)).await;
        for probe in &running.probes {
            assert_eq!(
                (probe.notes().started, probe.notes().stopped),
                (1, 0),
                "{fault:?}"
            );
        }
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_stop_when_the_state_is_stale() {
    for fault in [Fault::Reject(503), Fault::Reject(403), Fault::Hang] {
        let running = running_until_the_watch_ends(fault).await;
        let waited = running.until(|it| !it.any_runs()).await;
        assert!(waited <= LEASE + SECOND, "{fault:?} {waited:?}");
        assert!(running.note().is_some());
        running.fault(Fault::None);
        running.until(Running::all_run).await;
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_watch_does_not_expire_a_renewed_lease() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let service = fixture.service.inner().clone();
    let running = fixture.run();
    running.alive_for(LEASE).await;
    // From here on the watch delivers no renewals.
    service
        .lag()
        .hold_at("leases.coordination.k8s.io", running.sandbox.revision());
    running.alive_for(Duration::from_mins(3)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let (lists, _) = running.requests();
    assert!(lists > 5, "a read at each expiry: {lists}");
    let waited = running.until(Running::all_run).await;
    assert!(waited < 2 * LEASE, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silent_watch_is_reopened_and_shows_the_new_holder() {
    let fixture = fixture().assuming_absent();
    let service = fixture.service.inner().clone();
    let running = fixture.run();
    running.until(Running::all_run).await;
    service
        .lag()
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
        () = returned => unreachable!("an endless loop"),
    };
    assert!(waited <= Duration::from_secs(95), "{waited:?}");
    running.stop().await;
}
