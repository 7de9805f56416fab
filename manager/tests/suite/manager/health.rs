//! Health checks of a manager that cannot work.

use serde_json::{Value, json};
use steersman_manager::cache::Cache;
use steersman_manager::controller::Unhealthy;
use steersman_manager::health::{Health, Probes};
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_sandbox::faults::{Faults, Matcher, RecordedRequest};

use super::partition::{RequestVerb, add_requester, create_maps};
use super::test_controller::{Behavior, TestController};
use super::{MAPS, Process, Running, SECOND, sandbox};

pub(super) const WIDGETS: Resource = Resource::namespaced("test.dev", "v1", "widgets", "Widget");

pub(super) fn check(running: &Running, probe: Probes, name: &str) -> Option<Health> {
    let checks = running.checks.run(probe);
    checks
        .into_iter()
        .find(|(it, _)| it == name)
        .map(|(_, health)| health)
}

fn metric(running: &Running, series: &str) -> Option<f64> {
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&running.registry.gather())
        .expect("metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

#[tokio::test(start_paused = true)]
async fn manager_without_api_server_is_live_but_not_ready_and_retries() {
    let sandbox = sandbox();
    let faults = Faults::new();
    let unreachable = faults.on(Matcher::any()).lose_request();
    let probe = TestController::new(Behavior::Stops);
    let process = Process::over(faults.wrap(sandbox.service()), "a").with(&probe);
    let maps: Cache<MetaObject> = process.manager.caches().of(&MAPS);
    let running = process.elect();
    running.env.clock.sleep(300 * SECOND).await;
    assert_eq!(probe.counts(), (0, 0));
    assert!(
        running
            .checks
            .run(Probes::LIVEZ)
            .iter()
            .all(|(_, h)| *h == Health::Ok)
    );
    let ready = check(&running, Probes::READYZ, "caches");
    assert!(
        matches!(&ready, Some(Health::Failed(why)) if why.contains("configmaps")),
        "{ready:?}"
    );
    let tried = metric(
        &running,
        r#"rest_client_requests_total{code="<error>",host="api.test",method="GET"}"#,
    );
    assert!(
        tried.is_some_and(|tried| (10.0..600.0).contains(&tried)),
        "{tried:?}"
    );

    unreachable.remove();
    probe.started(1).await;
    maps.synced().await;
    assert_eq!(check(&running, Probes::READYZ, "caches"), Some(Health::Ok));
    running.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn controller_waiting_for_its_crd_is_ready_with_a_note() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let process = Process::new(sandbox.service(), "a").with(&probe);
    let widgets = process.manager.caches().metadata(&WIDGETS);
    *probe.unsynced.lock().expect("no panic") = vec![WIDGETS.to_string()];
    let running = process.elect();
    probe.started(1).await;
    let ready = check(&running, Probes::READYZ, "caches");
    assert!(
        matches!(&ready, Some(Health::Note(why)) if why.contains("widgets.test.dev unavailable")),
        "{ready:?}"
    );
    let named = check(&running, Probes::HEALTHZ, "probe");
    assert!(
        matches!(&named, Some(Health::Note(why)) if why.starts_with("waiting for widgets.test.dev (unavailable")),
        "{named:?}"
    );
    assert_eq!(
        metric(&running, r#"test_controller_waiting{name="probe"}"#),
        Some(1.0)
    );

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.test.dev"},
        "spec": {
            "group": "test.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let crds = Resource::cluster(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    );
    let admin = running.transport.unfenced("admin", None);
    let _: Value = admin
        .create(&crds, "", definition.to_string().into())
        .await
        .expect("created");
    widgets.synced().await;
    assert_eq!(check(&running, Probes::READYZ, "caches"), Some(Health::Ok));
    running.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn failing_metadata_only_resource_is_noted_and_delays_no_controller() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let faults = Faults::new();
    let fails = |request: &RecordedRequest| request.path.ends_with("/widgets");
    faults.on(Matcher::any().when(fails)).lose_request();
    let hangs = |request: &RecordedRequest| request.path.ends_with("/gadgets");
    faults.on(Matcher::any().when(hangs)).hang();
    let process = Process::over(faults.wrap(sandbox.service()), "a").with(&probe);
    let caches = process.manager.caches().clone();
    let gadgets = Resource::namespaced("test.dev", "v1", "gadgets", "Gadget");
    let maps: Cache<MetaObject> = caches.of(&MAPS);
    let (_, _) = (caches.metadata(&WIDGETS), caches.metadata(&gadgets));
    let start = process.env.clock.now();
    let running = process.elect();
    probe.started(1).await;
    let took = running.env.clock.now() - start;
    assert!(took <= SECOND, "{took:?}");
    assert!(maps.is_synced());
    let ready = check(&running, Probes::READYZ, "caches");
    assert!(
        matches!(&ready, Some(Health::Note(why)) if why.contains("widgets.test.dev retrying") && why.contains("gadgets")),
        "{ready:?}"
    );
    // A typed cache makes it a needed resource.
    let _: Cache<MetaObject> = caches.of(&WIDGETS);
    let ready = check(&running, Probes::READYZ, "caches");
    assert!(
        matches!(&ready, Some(Health::Failed(why)) if why.contains("widgets") && !why.contains("gadgets")),
        "{ready:?}"
    );
    running.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn metrics_report_running_controllers() {
    let sandbox = sandbox();
    let (first, second) = (
        TestController::new(Behavior::Stops),
        TestController::new(Behavior::Stops),
    );
    let leader = Process::new(sandbox.service(), "a").with(&first).elect();
    first.started(1).await;
    let standby = Process::new(sandbox.service(), "b").with(&second).elect();
    standby.env.clock.sleep(SECOND).await;
    let series = r#"running_managed_controllers{manager="steersman",name="probe"}"#;
    assert_eq!(metric(&leader, series), Some(1.0));
    assert_eq!(metric(&standby, series), Some(0.0));
    assert_eq!(
        metric(&leader, r#"leader_election_master_status{name="steersman"}"#),
        Some(1.0)
    );
    assert_eq!(
        metric(&standby, r#"leader_election_master_status{name="steersman"}"#),
        Some(0.0)
    );
    leader.stop().await.expect("an orderly shutdown");
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn metrics_report_reconciles_of_the_most_reconciled_object() {
    let sandbox = sandbox();
    create_maps(&sandbox, ["a", "b"].map(str::to_owned)).await;
    let mut process = Process::new(sandbox.service(), "a");
    add_requester(&mut process, RequestVerb::Get);
    let running = process.run(None);
    running.env.clock.sleep(150 * SECOND).await;
    let series = r#"test_controller_max_reconciles_per_object{name="requester"}"#;
    assert_eq!(metric(&running, series), Some(60.0), "one per second and object");
    running.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn livez_fails_only_if_a_restart_helps() {
    let sandbox = sandbox();
    let probe = TestController::new(Behavior::Stops);
    let running = Process::new(sandbox.service(), "a").with(&probe).run(None);
    probe.started(1).await;
    let healthz = || check(&running, Probes::HEALTHZ, "probe");
    let livez = || check(&running, Probes::LIVEZ, "probe");
    assert_eq!((healthz(), livez()), (Some(Health::Ok), Some(Health::Ok)));

    let remark = "one kind is broken".to_owned();
    *probe.remark.lock().expect("no panic") = Some(remark.clone());
    assert_eq!(
        (healthz(), livez()),
        (Some(Health::Note(remark)), Some(Health::Ok))
    );

    let reason = "not here".to_owned();
    *probe.unhealthy.lock().expect("no panic") = Some(Unhealthy::Refused {
        reason: reason.clone(),
    });
    assert_eq!(healthz(), Some(Health::Failed(reason.clone())));
    assert_eq!(livez(), Some(Health::Note(reason)));

    let (key, since) = (Key::new("ns", "a"), SECOND);
    *probe.unhealthy.lock().expect("no panic") = Some(Unhealthy::Stalled { key, since });
    assert!(matches!(healthz(), Some(Health::Failed(_))));
    assert!(matches!(livez(), Some(Health::Failed(_))));
    running.stop().await.expect("an orderly shutdown");
}
