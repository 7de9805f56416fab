//! The scale subresource, as an autoscaler uses it.

use serde_json::{Value, json};
use steersman_harness::fixtures::{named, with};
use steersman_harness::{Test, fixtures};

use super::fixture::{Fixture, app, text};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(autoscaler_can_target_an_appservice),
        fixture_test!(unset_replicas_leave_the_deployment_to_its_autoscaler),
        fixture_test!(stale_scale_update_conflicts),
    ]
}

/// Creates an autoscaler, and returns it with its path.
async fn autoscaler(s: &Fixture, name: &str) -> (Value, String) {
    let version = if s.c.version() >= (1, 23) { "v2" } else { "v1" };
    let target = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "name": name});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4});
    let api = format!("autoscaling/{version}");
    let body = with(
        named(&api, "HorizontalPodAutoscaler", name),
        json!({"spec": spec}),
    );
    let all = fixtures::group(&api, &s.ns, "horizontalpodautoscalers");
    let made = s.c.api().post(&all, body).await.expect(201);
    (made, format!("{all}/{name}"))
}

/// Returns the path of the target's scale, by discovery.
async fn scale_of(s: &Fixture, target: &Value) -> String {
    let version = text(&target["apiVersion"]);
    let known = s.c.api().get(&format!("/apis/{version}")).await.expect(200);
    let all = known["resources"].as_array().cloned().unwrap_or_default();
    let is = |it: &&Value| it["kind"] == target["kind"] && !text(&it["name"]).contains('/');
    let plural = text(&all.iter().find(is).expect("a resource")["name"]);
    let scale = all.iter().find(|it| it["name"] == format!("{plural}/scale"));
    let scale = scale.expect("a scale subresource");
    assert_eq!(
        (&scale["group"], &scale["kind"]),
        (&json!("autoscaling"), &json!("Scale"))
    );
    let all = fixtures::group(&version, &s.ns, &plural);
    format!("{all}/{}/scale", text(&target["name"]))
}

/// Returns the number of pods that the scale selects.
async fn selected(s: &Fixture, scale: &Value) -> usize {
    let selector = text(&scale["status"]["selector"]);
    assert!(!selector.is_empty(), "{scale:#}");
    let selector = selector.replace(',', "%2C").replace('=', "%3D");
    let pods = format!("{}?labelSelector={selector}", s.all("pods"));
    let pods = s.c.api().get(&pods).await.expect(200);
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    let lives = |it: &&Value| it["metadata"].get("deletionTimestamp").is_none();
    pods.iter().filter(lives).count()
}

async fn autoscaler_can_target_an_appservice(s: Fixture) {
    s.create_ready(app("a", json!({"ports": [{"port": 80}]}))).await;
    s.create_ready(app("other", json!({"replicas": 1}))).await;
    let (made, path) = autoscaler(&s, "a").await;
    let at = scale_of(&s, &made["spec"]["scaleTargetRef"]).await;
    for (least, wanted) in [(false, 4), (true, 1)] {
        let scale = s.c.api().get(&at).await.expect(200);
        let now = scale["status"]["replicas"].as_u64().expect("a number");
        s.wait_until("the scale selects all pods", async || {
            (selected(&s, &scale).await as u64 == now).then_some(())
        })
        .await;
        let bound = if least { "minReplicas" } else { "maxReplicas" };
        assert_eq!(made["spec"][bound], wanted);
        let change = with(scale, json!({"spec": {"replicas": wanted}}));
        let scaled = s.c.api().put(&at, change).await.expect(200);
        assert_eq!(scaled["spec"]["replicas"], wanted, "{scaled:#}");
        s.wait_until("the Deployment is scaled", async || {
            let web = s.get("deployments", "a").await;
            (web["spec"]["replicas"] == wanted).then_some(())
        })
        .await;
        s.wait_ready("a").await;
        let scale = s.c.api().get(&at).await.expect(200);
        assert_eq!(
            (&scale["spec"]["replicas"], &scale["status"]["replicas"]),
            (&json!(wanted), &json!(wanted)),
            "{scale:#}"
        );
        let status = json!({"status": {"currentReplicas": wanted, "desiredReplicas": wanted}});
        let status_path = format!("{path}/status");
        s.c.api()
            .patch(&status_path, fixtures::MERGE, status)
            .await
            .expect(200);
    }
    // Only replicas changed.
    let it = s.get("appservices", "a").await;
    assert_eq!(
        (&it["metadata"]["generation"], &it["spec"]["image"]),
        (&json!(3), &json!("i:1"))
    );
    assert_eq!(s.get("appservices", "other").await["status"]["replicas"], 1);
}

async fn unset_replicas_leave_the_deployment_to_its_autoscaler(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    // Unset replicas keep the current number.
    s.patch_spec("a", json!({"replicas": null, "image": "i:2"})).await;
    s.wait_ready("a").await;
    let at = format!("{}/scale", s.path("deployments", "a"));
    for replicas in [2, 3] {
        assert_eq!(s.get("deployments", "a").await["spec"]["replicas"], replicas);
        // Without a resourceVersion: the Deployment controller counts terminating pods after the rollout.
        let more = json!({"spec": {"replicas": replicas + 1}});
        s.c.api().patch(&at, fixtures::MERGE, more).await.expect(200);
        s.patch_spec("a", json!({"image": format!("i:{replicas}{replicas}")}))
            .await;
        let it = s.wait_ready("a").await;
        assert_eq!(it["status"]["replicas"], replicas + 1);
    }
    // Without spec.replicas the scale cannot be read, but written.
    let own = format!("{}/scale", s.path("appservices", "a"));
    s.c.api().get(&own).await.expect_error(500, "InternalError");
    let write = json!({"spec": {"replicas": 4}});
    s.c.api().patch(&own, fixtures::MERGE, write).await.expect(200);
    let it = s.wait_ready("a").await;
    assert_eq!(
        (&it["spec"]["replicas"], &it["status"]["replicas"]),
        (&json!(4), &json!(4))
    );
}

async fn stale_scale_update_conflicts(s: Fixture) {
    s.create_ready(app("a", json!({}))).await;
    let at = format!("{}/scale", s.path("appservices", "a"));
    let scale = s.c.api().get(&at).await.expect(200);
    let change = with(scale.clone(), json!({"spec": {"replicas": 3}}));
    s.c.api().put(&at, change).await.expect(200);
    let late = with(scale, json!({"spec": {"replicas": 1}}));
    s.c.api().put(&at, late).await.expect_error(409, "Conflict");
    let it = s.wait_ready("a").await;
    assert_eq!(it["status"]["availableReplicas"], 3);
}
