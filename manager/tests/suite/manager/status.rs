//! The status document of leaders and standbys.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_manager::object::MetaObject;
use steersman_manager::status::StatusReporter;

use super::health::WIDGETS;
use super::watch::add;
use super::{MAPS, Process, Running, SECOND, sandbox};

/// Elects a process with a controller of `ConfigMaps` and one of a missing kind.
async fn start(process: Process) -> (Running, StatusReporter) {
    let mut process = process;
    let maps = add(&mut process, &MAPS);
    add(&mut process, &WIDGETS);
    let elector = process.elector();
    process.manager.elect(elector);
    let status = process.manager.status("v1.2.3");
    let running = process.run(None);
    maps.synced().await;
    (running, status)
}

async fn document(status: &StatusReporter) -> Value {
    let body = status.answer().into_body().collect().await.expect("a body");
    serde_json::from_slice(&body.to_bytes()).expect("JSON")
}

async fn create(running: &Running, name: &str) {
    let admin = running.transport.unfenced("admin", None);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let created: Result<MetaObject, _> = admin.create(&MAPS, "default", map.into()).await;
    created.expect("created");
}

#[tokio::test(start_paused = true)]
async fn status_shows_leader_controllers_caches_and_errors() {
    let sandbox = sandbox();
    let (leader, status) = start(Process::new(sandbox.service(), "a")).await;
    leader.env.clock.sleep(10 * SECOND).await;
    let (standby, standby_status) = start(Process::new(sandbox.service(), "bb")).await;
    create(&leader, "text").await;
    for name in ["1000", "1001", "1002"] {
        create(&leader, name).await;
    }
    leader.env.clock.sleep(30 * SECOND).await;

    let shown = document(&status).await;
    assert_eq!(
        (&shown["manager"], &shown["version"]),
        (&json!("steersman"), &json!("v1.2.3"))
    );
    let leading_since = shown["leader"]["leadingSince"].as_str().expect("a time");
    assert!(leading_since.starts_with("1970-01-01T00:00:"), "{leading_since}");
    assert_eq!(
        shown["leader"],
        json!({
            "election": true, "leading": true, "identity": "a", "lease": "kube-system/steersman", "holder": "a",
            "leadingSince": leading_since, "terms": 1, "transitions": 0,
        })
    );
    let [maps, widgets] = &shown["controllers"].as_array().expect("controllers")[..] else {
        panic!("{shown}")
    };
    assert_eq!(maps["state"], "running");
    assert_eq!(
        (
            &maps["queued"],
            &maps["processing"],
            &maps["processed"],
            &maps["failed"]
        ),
        (&json!(2), &json!(1), &json!(1), &json!(1))
    );
    assert_eq!(maps["oldest"], json!({"object": "default/1001", "seconds": 30}));
    assert_eq!(widgets["state"], "waiting");
    let reason = widgets["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("waiting for widgets.test.dev (unavailable"),
        "{reason}"
    );
    let sums = |name: &str| -> u64 {
        let series = maps["series"][name].as_array().expect("a series");
        series.iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!((sums("processed"), sums("failed")), (1, 1));
    let cache = &shown["caches"][0];
    assert_eq!(
        (&cache["resource"], &cache["objects"], &cache["status"]),
        (&json!("configmaps"), &json!(4), &json!("synced"))
    );
    assert!(cache["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{cache}");
    assert_eq!(shown["unsynced"], json!(["widgets.test.dev"]));
    let error = &shown["errors"][0];
    assert_eq!(
        (
            &error["controller"],
            &error["object"],
            &error["message"],
            &error["count"]
        ),
        (
            &json!("configmaps"),
            &json!("default/text"),
            &json!("text has no number"),
            &json!(1)
        )
    );

    let shown = document(&standby_status).await;
    assert_eq!(
        shown["leader"],
        json!({
            "election": true, "leading": false, "identity": "bb", "lease": "kube-system/steersman", "holder": "a",
            "terms": 0, "transitions": 0,
        })
    );
    assert_eq!(shown["controllers"][0]["state"], "standby");
    assert_eq!(shown["caches"][0]["objects"], 4, "a standby has warm caches");
    leader.stop().await.expect_err("a reconcile that does not stop");
    standby.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn series_are_bounded_and_an_overdue_item_is_shown_as_unhealthy() {
    let sandbox = sandbox();
    let mut process = Process::new(sandbox.service(), "a");
    add(&mut process, &MAPS);
    let status = process.manager.status("v1.2.3");
    let running = process.run(None);
    for name in 100_000..100_008 {
        create(&running, &name.to_string()).await;
    }
    // Each reconcile times out after 5 minutes.
    running.env.clock.sleep(1900 * SECOND).await;
    let shown = document(&status).await;
    let maps = &shown["controllers"][0];
    for series in ["queued", "oldestSeconds", "processed", "failed"] {
        assert_eq!(
            maps["series"][series].as_array().map(Vec::len),
            Some(60),
            "{series}"
        );
    }
    assert_eq!(maps["state"], "unhealthy");
    let reason = maps["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("default/100007 has waited in the queue for 1899 s"),
        "{reason}"
    );
    assert_eq!(
        shown["failingChecks"],
        json!([{"name": "configmaps", "reason": reason}])
    );
    assert_eq!(shown["errors"][0]["message"], "timed out after 300 s");
    running.stop().await.expect_err("a reconcile that does not stop");
}
