//! Temporary failures: quotas, terminating namespaces, terminating children.

use serde_json::json;
use steersman_harness::fixtures::{self, MERGE, with};
use steersman_harness::{Need, Test};

use super::fixture::{Fixture, app, condition, text};
use crate::controllers::WAIT_MAX;

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(quota_of_deployments_is_reported_and_retried),
        fixture_test!(quota_of_pods_is_reported_and_retried),
        fixture_test!(namespace_with_appservices_can_be_deleted).needs(Need::Kcm),
        fixture_test!(appservice_can_be_deleted_while_its_deployment_terminates),
        fixture_test!(metadata_of_other_clients_does_not_change_the_status),
    ]
}

/// Sets a `ResourceQuota`, and waits until it is effective.
async fn set_quota(s: &Fixture, what: &str, to: &str) {
    let quotas = fixtures::core(&s.ns, "resourcequotas");
    let hard = json!({what: to});
    if s.c.api().get(&format!("{quotas}/q")).await.status == 404 {
        let quota = with(
            fixtures::named("v1", "ResourceQuota", "q"),
            json!({"spec": {"hard": hard}}),
        );
        s.c.api().post(&quotas, quota).await.expect(201);
    } else {
        let change = json!({"spec": {"hard": hard}});
        s.c.api()
            .patch(&format!("{quotas}/q"), MERGE, change)
            .await
            .expect(200);
    }
    s.wait_until("the quota is effective", async || {
        let it = s.c.api().get(&format!("{quotas}/q")).await.expect(200);
        if !s.c.has_kcm() {
            // The quota controller does not run here.
            let used = it["status"]["used"].get(what).cloned().unwrap_or(json!("0"));
            let status = json!({"status": {"hard": hard, "used": {what: used}}});
            let path = format!("{quotas}/q/status");
            s.c.api().patch(&path, MERGE, status).await.expect(200);
        }
        (it["status"]["hard"] == hard && it["status"]["used"].get(what).is_some()).then_some(())
    })
    .await;
}

/// Waits until the API server enforces the quota.
async fn wait_quota_enforced(s: &Fixture) {
    let dry = format!("{}?dryRun=All", s.all("deployments"));
    s.wait_until("the quota is enforced", async || {
        let reply = s.c.api().post(&dry, fixtures::deployment("dry")).await;
        (reply.status == 403).then_some(())
    })
    .await;
}

async fn quota_of_deployments_is_reported_and_retried(s: Fixture) {
    set_quota(&s, "count/deployments.apps", "0").await;
    wait_quota_enforced(&s).await;
    s.create("appservices", app("a", json!({"ports": [{"port": 80}]})))
        .await;
    let it = s.wait_stalled("a", "FailedCreate").await;
    assert_eq!(condition(&it, "Ready").0, "False");
    let conditions = it["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = conditions.iter().find(|it| it["type"] == "Stalled");
    let message = text(&stalled.expect("it is stalled")["message"]);
    assert!(message.contains("exceeded quota"), "{message}");
    // Other children are created, and the failure is reported once.
    s.wait_until("the Service exists", async || {
        (s.read("services", "a").await.status == 200).then_some(())
    })
    .await;
    s.wait_until("there is an event", async || {
        s.events("a")
            .await
            .contains(&"FailedCreate".to_owned())
            .then_some(())
    })
    .await;
    let before = s.get("appservices", "a").await["metadata"]["resourceVersion"].clone();
    steersman_harness::time::pause(std::time::Duration::from_secs(2)).await;
    let now = s.get("appservices", "a").await["metadata"]["resourceVersion"].clone();
    assert_eq!(now, before, "reported once");
    set_quota(&s, "count/deployments.apps", "5").await;
    s.wait_ready("a").await;
}

async fn quota_of_pods_is_reported_and_retried(s: Fixture) {
    set_quota(&s, "count/pods", "0").await;
    let dry = format!("{}?dryRun=All", s.all("pods"));
    s.wait_until("the quota is enforced", async || {
        let reply = s.c.api().post(&dry, fixtures::pod("dry")).await;
        (reply.status == 403).then_some(())
    })
    .await;
    s.create("appservices", app("a", json!({}))).await;
    s.wait_stalled("a", "ReplicaFailure").await;
    set_quota(&s, "count/pods", "10").await;
    s.wait_ready("a").await;
}

async fn namespace_with_appservices_can_be_deleted(s: Fixture) {
    s.create_ready(app("a", json!({"ports": [{"port": 80}]}))).await;
    s.create_ready(app("b", json!({"deletionPolicy": "Orphan"})))
        .await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    s.c.api().delete(&path, ()).await.expect(200);
    let gone = steersman_harness::time::eventually(WAIT_MAX, async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "{}", s.c.api().get(&path).await);
}

async fn appservice_can_be_deleted_while_its_deployment_terminates(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.change("deployments", "a", held).await;
    s.delete("deployments", "a", "Background").await;
    s.wait_until("it waits for the deletion", async || {
        let it = s.get("appservices", "a").await;
        (condition(&it, "Progressing").1 == "WaitingForDeletion").then_some(())
    })
    .await;
    s.delete("appservices", "a", "Background").await;
    s.wait_deleted("appservices", "a").await;
    s.change("deployments", "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.wait_deleted("deployments", "a").await;
}

async fn metadata_of_other_clients_does_not_change_the_status(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    // Its status is final when a later AppService is ready.
    s.create_ready(app("b", json!({}))).await;
    let before = s.get("appservices", "a").await;
    let theirs = json!({"metadata": {"annotations": {"example.com/theirs": "a"}}});
    let changed = s.change("deployments", "a", theirs).await;
    s.wait_until("the change is observed", async || {
        let web = s.get("deployments", "a").await;
        (web["status"]["observedGeneration"] == changed["metadata"]["generation"]).then_some(())
    })
    .await;
    s.create_ready(app("c", json!({}))).await;
    let after = s.get("appservices", "a").await;
    assert_eq!(
        after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "{before:#} {after:#}"
    );
}
