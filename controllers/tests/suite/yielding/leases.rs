//! The Lease is alive, expires, comes back, is given back, deleted, or was never there.

use super::*;

use coxswain_manager::object::MetaObject;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

async fn create_map(running: &Running, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let body = map.to_string().into();
    let created = running.admin.create::<Value>(&MAPS, "default", body).await;
    created.expect("created");
}

#[tokio::test(start_paused = true)]
async fn absent_lease_with_the_flag_runs_at_once() {
    let running = bed().assuming_absent().run();
    let waited = running.until(Running::all_run).await;
    assert!(waited < SECOND, "{waited:?}");
    assert_eq!((running.told(), running.metrics()), (None, (false, true)));
    assert_eq!(running.asked(), (1, 1), "one read and one watch for all three");
    for i in 0..24 {
        create_map(&running, &format!("of-others-{i}")).await;
        running.sleep(10 * SECOND).await;
    }
    assert_eq!(running.asked(), (1, 1), "in a steady state there is one watch");
    assert!(running.probes.iter().all(|probe| probe.notes().started == 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn next_to_a_live_one_they_are_dormant_and_say_so() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let running = bed.run();
    running.alive_for(Duration::from_mins(4)).await;
    assert!(running.probes.iter().all(|probe| probe.notes().started == 0));
    let told = running.told().expect("a note");
    assert_eq!(
        told,
        "yields to kube-controller-manager, which holds the lease kube-system/kube-controller-manager"
    );
    assert_eq!(running.metrics(), (true, false));
    assert_eq!(running.asked(), (1, 1), "in a steady state there is one watch");

    // It renews no more.
    let waited = running.until(Running::all_run).await;
    let since_renewal = waited + 2 * SECOND;
    assert!(
        since_renewal >= LEASE && since_renewal < LEASE + SECOND,
        "{waited:?}"
    );
    assert_eq!((running.told(), running.metrics()), (None, (false, true)));
    assert_eq!(running.asked(), (2, 2), "it was read to make sure");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_old_record_is_waited_for_as_long_as_a_new_one() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    bed.env.clock.sleep(Duration::from_hours(1)).await;
    let running = bed.run();
    let waited = running.until(Running::all_run).await;
    assert!(waited >= LEASE && waited < LEASE + SECOND, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn when_it_comes_back_they_stop_at_once_and_wait_for_its_end_again() {
    let bed = bed().assuming_absent();
    let drain = 3 * SECOND;
    let probe = Probe {
        drain,
        ..Probe::new("one", &bed.env.clock)
    };
    let running = bed.run_with(probe);
    let probe = running.probes[0].clone();
    for round in 1..4 {
        running.until(Running::all_run).await;
        running.sleep(5 * Duration::from_mins(1)).await;
        running.renew().await;
        let waited = running.until(|_| probe.notes().told == round).await;
        assert!(waited < SECOND / 10, "{waited:?}");
        assert_eq!(probe.notes().ended, round - 1, "it drains");
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
async fn one_that_comes_back_during_the_drain_and_goes_is_waited_out_too() {
    let bed = bed().assuming_absent();
    let probe = Probe {
        drain: LEASE + 5 * SECOND,
        ..Probe::new("one", &bed.env.clock)
    };
    let running = bed.run_with(probe);
    running.until(Running::all_run).await;
    running.renew().await;
    let waited = running.until(|it| it.probes[0].notes().started == 2).await;
    assert!(waited >= LEASE + 5 * SECOND, "one run at a time: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_given_back_is_free_at_once() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let running = bed.run();
    running.alive_for(LEASE).await;
    renew(&running.admin, &running.env, "").await;
    let waited = running.until(Running::all_run).await;
    assert!(waited < SECOND, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_under_its_holder_is_waited_out() {
    let bed = bed().assuming_absent();
    renew(&bed.admin, &bed.env, "kcm").await;
    let running = bed.run();
    running.alive_for(LEASE).await;
    running.renew().await;
    running.delete().await;
    let waited = running.until(Running::all_run).await;
    assert!(
        waited + SECOND / 10 >= LEASE && waited < LEASE + SECOND,
        "{waited:?}"
    );
    assert_eq!(running.told(), None);

    // Its holder is still there and makes a new one.
    running.renew().await;
    let waited = running.until(|it| !it.any_runs()).await;
    assert!(waited < SECOND / 10, "{waited:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn they_begin_with_all_that_it_wrote_before_it_gave_the_lease_back() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let maps = bed.manager.caches().of::<MetaObject>(&MAPS);
    let counted = maps.clone();
    let probe = Probe {
        count: Box::new(move || counted.all().len()),
        ..Probe::new("one", &bed.env.clock)
    };
    let door = bed.way.door.clone();
    let running = bed.run_with(probe);
    running.alive_for(LEASE).await;
    let before = maps.all().len();
    // The cache does not hear of its last write.
    door.lag().hold_at("configmaps", running.sandbox.revision());
    create_map(&running, "last").await;
    renew(&running.admin, &running.env, "").await;
    running.until(Running::all_run).await;
    assert_eq!(running.probes[0].notes().counted, before + 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn they_begin_with_all_that_it_wrote_while_they_drained() {
    let bed = bed().assuming_absent();
    let maps = bed.manager.caches().of::<MetaObject>(&MAPS);
    let counted = maps.clone();
    let probe = Probe {
        drain: 10 * SECOND,
        count: Box::new(move || counted.all().len()),
        ..Probe::new("one", &bed.env.clock)
    };
    let door = bed.way.door.clone();
    let running = bed.run_with(probe);
    running.until(Running::all_run).await;
    let before = maps.all().len();
    door.lag().hold_at("configmaps", running.sandbox.revision());
    // It comes, writes and goes, all while the last run ends.
    running.renew().await;
    running.until(|it| it.probes[0].notes().told == 1).await;
    create_map(&running, "last").await;
    renew(&running.admin, &running.env, "").await;
    running.until(|it| it.probes[0].notes().started == 2).await;
    assert_eq!(running.probes[0].notes().counted, before + 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dormant_they_end_in_order() {
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let running = bed.run();
    running.alive_for(LEASE).await;
    running.stop().await;
}
