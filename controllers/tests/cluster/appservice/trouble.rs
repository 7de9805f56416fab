//! What stands in the way, and goes again.

use coxswain_tests::fixtures::{self, MERGE, with};
use coxswain_tests::{Need, Test};
use serde_json::json;

use super::stage::{Stage, app, condition, text};
use crate::engine::PATIENCE;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_quota_is_told_and_waited_for),
        staged!(a_quota_of_pods_is_told_and_waited_for),
        staged!(a_namespace_can_go_with_it).needs(Need::Kcm),
        staged!(one_that_is_deleted_while_it_is_waited_for_goes),
        staged!(what_others_write_on_its_deployment_does_not_shake_it),
    ]
}

/// Has only so many of something in the namespace, from when it returns.
async fn limit(s: &Stage, what: &str, to: &str) {
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
    s.until("the quota is counted", async || {
        let it = s.c.api().get(&format!("{quotas}/q")).await.expect(200);
        if !s.c.has_kcm() {
            // What its controller would write, which does not run here.
            let used = it["status"]["used"].get(what).cloned().unwrap_or(json!("0"));
            let status = json!({"status": {"hard": hard, "used": {what: used}}});
            let path = format!("{quotas}/q/status");
            s.c.api().patch(&path, MERGE, status).await.expect(200);
        }
        (it["status"]["hard"] == hard && it["status"]["used"].get(what).is_some()).then_some(())
    })
    .await;
}

/// Waits until the quota refuses one more Deployment: a server learns of it late.
async fn refuses_deployments(s: &Stage) {
    let dry = format!("{}?dryRun=All", s.all("deployments"));
    s.until("the quota is known", async || {
        let reply = s.c.api().post(&dry, fixtures::deployment("dry")).await;
        (reply.status == 403).then_some(())
    })
    .await;
}

async fn a_quota_is_told_and_waited_for(s: Stage) {
    limit(&s, "count/deployments.apps", "0").await;
    refuses_deployments(&s).await;
    s.create("appservices", app("a", json!({"ports": [{"port": 80}]})))
        .await;
    let it = s.stalled("a", "FailedCreate").await;
    assert_eq!(condition(&it, "Ready").0, "False");
    let conditions = it["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = conditions.iter().find(|it| it["type"] == "Stalled");
    let message = text(&stalled.expect("it is stalled")["message"]);
    assert!(message.contains("exceeded quota"), "{message}");
    // The rest is done, and it is said once.
    s.until("there is a Service", async || {
        (s.read("services", "a").await.status == 200).then_some(())
    })
    .await;
    s.until("it is told", async || {
        s.told("a")
            .await
            .contains(&"FailedCreate".to_owned())
            .then_some(())
    })
    .await;
    let said = s.get("appservices", "a").await["metadata"]["resourceVersion"].clone();
    coxswain_tests::time::pause(std::time::Duration::from_secs(2)).await;
    let now = s.get("appservices", "a").await["metadata"]["resourceVersion"].clone();
    assert_eq!(now, said, "and not again");
    limit(&s, "count/deployments.apps", "5").await;
    s.ready("a").await;
}

async fn a_quota_of_pods_is_told_and_waited_for(s: Stage) {
    limit(&s, "count/pods", "0").await;
    let dry = format!("{}?dryRun=All", s.all("pods"));
    s.until("the quota is known", async || {
        let reply = s.c.api().post(&dry, fixtures::pod("dry")).await;
        (reply.status == 403).then_some(())
    })
    .await;
    s.create("appservices", app("a", json!({}))).await;
    s.stalled("a", "ReplicaFailure").await;
    limit(&s, "count/pods", "10").await;
    s.ready("a").await;
}

async fn a_namespace_can_go_with_it(s: Stage) {
    s.serve(app("a", json!({"ports": [{"port": 80}]}))).await;
    s.serve(app("b", json!({"deletionPolicy": "Orphan"}))).await;
    let path = format!("/api/v1/namespaces/{}", s.ns);
    s.c.api().delete(&path, ()).await.expect(200);
    let gone = coxswain_tests::time::eventually(PATIENCE, async || {
        (s.c.api().get(&path).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "{}", s.c.api().get(&path).await);
}

async fn one_that_is_deleted_while_it_is_waited_for_goes(s: Stage) {
    s.serve(app("a", json!({}))).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.change("deployments", "a", held).await;
    s.delete("deployments", "a", "Background").await;
    s.until("it is waited for", async || {
        let it = s.get("appservices", "a").await;
        (condition(&it, "Progressing").1 == "WaitingForDeletion").then_some(())
    })
    .await;
    s.delete("appservices", "a", "Background").await;
    s.gone("appservices", "a").await;
    s.change("deployments", "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.gone("deployments", "a").await;
}

async fn what_others_write_on_its_deployment_does_not_shake_it(s: Stage) {
    s.serve(app("a", json!({}))).await;
    // The last word about it was said when others that came later are done.
    s.serve(app("b", json!({}))).await;
    let before = s.get("appservices", "a").await;
    let theirs = json!({"metadata": {"annotations": {"example.com/theirs": "a"}}});
    let changed = s.change("deployments", "a", theirs).await;
    s.until("it was looked at", async || {
        let web = s.get("deployments", "a").await;
        (web["status"]["observedGeneration"] == changed["metadata"]["generation"]).then_some(())
    })
    .await;
    s.serve(app("c", json!({}))).await;
    let after = s.get("appservices", "a").await;
    assert_eq!(
        after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "{before:#} {after:#}"
    );
}
