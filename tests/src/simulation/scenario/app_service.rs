//! The life cycle of an `AppService`, and the removal of its CRD.

use serde_json::json;

use super::super::user::{Policy, User};

const APP_SERVICES: &str = "/apis/appcontroller.k8s.io/v1alpha1/namespaces/default/appservices";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(super) async fn life_cycle(user: &mut User) {
    let policy = *user.random().pick(&["Delete", "Orphan"]);
    let object = json!({
        "apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService", "metadata": {"name": "web"},
        "spec": {
            "deploymentName": "web", "replicas": 2, "image": "one", "ports": [{"port": 80}], "deletionPolicy": policy,
        },
    });
    let path = format!("{APP_SERVICES}/web");
    user.create(APP_SERVICES, &object);
    user.pause(150).await;
    user.patch(&path, &json!({"spec": {"image": "two"}}));
    user.pause(100).await;
    user.patch(&path, &json!({"spec": {"deploymentName": "renamed"}}));
    user.pause(150).await;
    if user.random().percent(70) {
        let policy = *user.random().pick(&[Policy::Background, Policy::Foreground]);
        user.delete(&path, policy);
        user.pause(100).await;
    }
    if user.random().percent(30) {
        let crd = user
            .list(CRDS)
            .into_iter()
            .find(|it| it["spec"]["names"]["kind"] == "AppService");
        let name = crd.as_ref().and_then(|it| it["metadata"]["name"].as_str());
        user.delete(
            &format!("{CRDS}/{}", name.unwrap_or_default()),
            Policy::Background,
        );
        user.pause(100).await;
    }
}
