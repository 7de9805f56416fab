//! A Lease that is held, expires, is acquired again, released, deleted, or absent.

use super::*;

use steersman_manager::object::MetaObject;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

async fn create_map(running: &Running, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let body = map.to_string().into();
    let created = running.admin.create::<Value>(&MAPS, "default", body).await;
    created.expect("created");
}

#[tokio::test(start_paused = true)]
async fn absent_lease_with_the_flag_runs_at_once() {
    let running = fixture().assuming_absent().run();
    let waited = running.until(Running::all_run).await;
    assert!(waited < SECOND, "{waited:?}");
    assert_eq!((running.note(), running.metrics()), (None, (false, true)));
    assert_eq!(running.requests(), (1, 1), "one read and one watch for all three");
    for i in 0..24 {
        create_map(&running, &format!("of-others-{i}")).await;
        running.sleep(10 * SECOND).await;
    }
    assert_eq!(running.requests(), (1, 1), "in a steady state there is one watch");
    assert!(running.probes.iter().all(|probe| probe.notes().started == 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn held_lease_keeps_controllers_dormant_with_a_note() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(Duration::from_mins(4)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let note = running.note().expect("a note");
    assert_eq!(
        note,
        "yields to kube-controller-manager, which holds lease kube-system/kube-controller-manager"
    );
    assert_eq!(running.metrics(), (true, false));
    assert_eq!(running.requests(), (1, 1), "in a steady state there is one watch");

    // Renewals stop.
    let waited = running.until(Running::all_run).await;
    let since_renewal = waited + 2 * SECOND;
    assert!(
        since_renewal >= LEASE && since_renewal < LEASE + SECOND,
        "{waited:?}"
    );
    assert_eq!((running.note(), running.metrics()), (None, (false, true)));
    assert_eq!(running.requests(), (2, 2), "a read confirms the expiry");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn old_record_expires_after_a_full_lease_duration() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    fixture.env.clock.sleep(Duration::from_hours(1)).await;
    let running = fixture.run();
    let waited = running.until(Running::all_run).await;
    assert!(waited >= LEASE && waited < LEASE + SECOND, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn acquired_lease_stops_running_controllers_until_it_expires() {
    let fixture = fixture().assuming_absent();
    let drain = 3 * SECOND;
    let probe = Probe {
        drain,
        ..Probe::new("one", &fixture.env.clock)
    };
    let running = fixture.run_with(probe);
    let probe = running.probes[0].clone();
    for round in 1..4 {
        running.until(Running::all_run).await;
        running.sleep(5 * Duration::from_mins(1)).await;
        running.renew().await;
        let waited = running.until(|_| probe.notes().stopped == round).await;
        assert!(waited < SECOND / 10, "{waited:?}");
        assert_eq!(probe.notes().ended, round - 1, "draining");
        assert_eq!(running.metrics(), (true, false));
        let waited = running.until(|_| probe.notes().ended == round).await;
        assert!(waited + SECOND / 10 >= drain, "{waited:?}");
        running.alive_for(Duration::from_mins(1)).await;
    }
    running.until(Running::all_run).await;
    assert_eq!(probe.notes().started, 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lease_held_during_the_drain_delays_the_next_run() {
    let fixture = fixture().assuming_absent();
    let probe = Probe {
        drain: LEASE + 5 * SECOND,
        ..Probe::new("one", &fixture.env.clock)
    };
    let running = fixture.run_with(probe);
    running.until(Running::all_run).await;
    running.renew().await;
    let waited = running.until(|it| it.probes[0].notes().started == 2).await;
    assert!(waited >= LEASE + 5 * SECOND, "one run at a time: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn released_lease_starts_controllers_at_once() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(LEASE).await;
    renew(&running.admin, &running.env, "").await;
    let waited = running.until(Running::all_run).await;
    assert!(waited < SECOND, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lease_deleted_while_held_still_has_to_expire() {
    let fixture = fixture().assuming_absent();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(LEASE).await;
    running.renew().await;
    running.delete().await;
    let waited = running.until(Running::all_run).await;
    assert!(
        waited + SECOND / 10 >= LEASE && waited < LEASE + SECOND,
        "{waited:?}"
    );
    assert_eq!(running.note(), None);

    // The holder is alive and recreates it.
    running.renew().await;
    let waited = running.until(|it| !it.any_runs()).await;
    assert!(waited < SECOND / 10, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn caches_contain_writes_before_the_release_when_controllers_start() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let maps = fixture.manager.caches().of::<MetaObject>(&MAPS);
    let counted = maps.clone();
    let probe = Probe {
        count: Box::new(move || counted.all().len()),
        ..Probe::new("one", &fixture.env.clock)
    };
    let service = fixture.service.inner().clone();
    let running = fixture.run_with(probe);
    running.alive_for(LEASE).await;
    let before = maps.all().len();
    // The watch does not deliver the last write.
    service.lag().hold_at("configmaps", running.sandbox.revision());
    create_map(&running, "last").await;
    renew(&running.admin, &running.env, "").await;
    running.until(Running::all_run).await;
    assert_eq!(running.probes[0].notes().counted, before + 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn caches_contain_writes_during_the_drain_when_controllers_start() {
    let fixture = fixture().assuming_absent();
    let maps = fixture.manager.caches().of::<MetaObject>(&MAPS);
    let counted = maps.clone();
    let probe = Probe {
        drain: 10 * SECOND,
        count: Box::new(move || counted.all().len()),
        ..Probe::new("one", &fixture.env.clock)
    };
    let service = fixture.service.inner().clone();
    let running = fixture.run_with(probe);
    running.until(Running::all_run).await;
    let before = maps.all().len();
    service.lag().hold_at("configmaps", running.sandbox.revision());
    // The Lease is acquired and released while the last run drains.
    running.renew().await;
    running.until(|it| it.probes[0].notes().stopped == 1).await;
    create_map(&running, "last").await;
    renew(&running.admin, &running.env, "").await;
    running.until(|it| it.probes[0].notes().started == 2).await;
    assert_eq!(running.probes[0].notes().counted, before + 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dormant_controllers_stop_gracefully() {
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(LEASE).await;
    running.stop().await;
}
