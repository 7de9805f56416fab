//! What random sequences against a real server found, one test for each class of it.

use coxswain_tests::{
    Cluster, Test,
    fixtures::{MERGE, apps, core, deployment, pod, service, with},
    test,
};
use http::Method;
use serde_json::{Value, json};

use crate::expect::invalid;

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(a_refusal_warns_too),
        test!(options_are_judged_all_at_once),
        test!(traffic_of_services_is_checked),
        test!(a_balancer_to_local_pods_gets_a_port_for_checks),
        test!(a_status_shows_what_it_always_shows),
        test!(an_applied_scale_keeps_to_its_rules),
        test!(addresses_of_pods_are_checked),
        test!(whoever_creates_does_not_have_the_deletion),
    ];
    tests.into_iter().map(|test| test.since(1, 36)).collect()
}

async fn a_refusal_warns_too(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let object = json!({"metadata": {"name": "a"}, "nosuch": 1});
    c.api().post(&path, &object).await.expect(201);
    let refused = c.api().post(&path, &object).await;
    refused.expect_error(409, "AlreadyExists");
    assert_eq!(
        refused.header("warning"),
        Some("299 - \"unknown field \\\"nosuch\\\"\"")
    );
}

async fn options_are_judged_all_at_once(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("{}/a?dryRun=odd&fieldValidation=Odd", core(&ns, "configmaps"));
    let headers = [("content-type", "application/apply-patch+yaml")];
    let refused = c.api().request(Method::PATCH, &path, &headers, json!({})).await;
    let causes = [
        "Required fieldManager: is required for apply patch",
        "NotSupported dryRun: supported values: \"All\"",
        "NotSupported fieldValidation: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
    ];
    invalid(&refused, &causes);
}

async fn traffic_of_services_is_checked(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let balanced = "may only be used when `type` is 'LoadBalancer'";
    for (spec, cause) in [
        (json!({"loadBalancerClass": "example.com/x"}), format!("Forbidden spec.loadBalancerClass: {balanced}")),
        (
            json!({"externalTrafficPolicy": "Local"}),
            "Invalid spec.externalTrafficPolicy: may only be set for externally-accessible services".to_owned(),
        ),
        (
            json!({"internalTrafficPolicy": "Odd"}),
            "NotSupported spec.internalTrafficPolicy: supported values: \"Cluster\", \"Local\"".to_owned(),
        ),
        (
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
            "Invalid spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be greater than 0 and less than 86400"
                .to_owned(),
        ),
        (
            json!({"externalIPs": ["127.0.0.1"]}),
            "Invalid spec.externalIPs[0]: may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        ),
        (
            json!({"healthCheckNodePort": 5}),
            "Invalid spec.healthCheckNodePort: may only be set when `type` is 'LoadBalancer' and \
             `externalTrafficPolicy` is 'Local'"
                .to_owned(),
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "Invalid spec.ipFamilies[0]: not configured on this cluster".to_owned(),
        ),
        (
            json!({"clusterIPs": ["None"]}),
            "Invalid spec.clusterIPs: must be empty when `clusterIP` is not specified".to_owned(),
        ),
    ] {
        let refused = c.api().post(&path, with(service("a"), json!({"spec": spec}))).await;
        invalid(&refused, &[cause.as_str()]);
    }
}

async fn a_balancer_to_local_pods_gets_a_port_for_checks(c: Cluster) {
    let ns = c.namespace().await;
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let made = c
        .api()
        .post(&core(&ns, "services"), with(service("a"), json!({"spec": spec})))
        .await
        .expect(201);
    let port = made["spec"]["healthCheckNodePort"].as_i64().unwrap_or_default();
    assert!((30000..=32767).contains(&port), "{made:#}");
    assert_ne!(made["spec"]["ports"][0]["nodePort"], port);
    let path = format!("{}/a", core(&ns, "services"));
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    let told = c
        .api()
        .patch(&format!("{path}/status"), MERGE, ingress)
        .await
        .expect(200);
    assert_eq!(
        told["status"]["loadBalancer"]["ingress"],
        json!([{"ip": "1.2.3.4", "ipMode": "VIP"}])
    );
    let plain = json!({"spec": {"externalTrafficPolicy": "Cluster"}});
    let plain = c.api().patch(&path, MERGE, plain).await.expect(200);
    assert_eq!(plain["spec"]["healthCheckNodePort"], Value::Null);
    c.api().delete(&path, ()).await.expect(200);
}

async fn a_status_shows_what_it_always_shows(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let path = format!("{}/a/status", apps(&ns, "deployments"));
    let status = json!({"status": {"conditions": [{"type": "X"}]}});
    let told = c.api().patch(&path, MERGE, status).await.expect(200);
    let shown = json!([{"type": "X", "status": "", "lastTransitionTime": null, "lastUpdateTime": null}]);
    assert_eq!(told["status"]["conditions"], shown);
}

async fn an_applied_scale_keeps_to_its_rules(c: Cluster) {
    let ns = c.namespace().await;
    c.api()
        .post(&apps(&ns, "deployments"), deployment("a"))
        .await
        .expect(201);
    let path = format!("{}/a/scale", apps(&ns, "deployments"));
    let bad = c
        .api()
        .patch(&path, MERGE, json!({"metadata": {"resourceVersion": "x"}}))
        .await;
    bad.expect_error(500, "");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a",
        "labels": {"bad key": "x"}}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let refused = c
        .api()
        .request(Method::PATCH, &format!("{path}?fieldManager=m"), &headers, scale)
        .await;
    refused.expect_error(422, "Invalid");
    assert_eq!(refused.causes()[0].field, "metadata.labels");
}

async fn addresses_of_pods_are_checked(c: Cluster) {
    let ns = c.namespace().await;
    c.api().post(&core(&ns, "pods"), pod("a")).await.expect(201);
    let path = format!("{}/a/status", core(&ns, "pods"));
    let refused = c
        .api()
        .patch(&path, MERGE, json!({"status": {"podIP": "x"}}))
        .await;
    let cause = "Invalid status.podIPs[0]: must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    invalid(&refused, &[cause]);
}

async fn whoever_creates_does_not_have_the_deletion(c: Cluster) {
    let ns = c.namespace().await;
    let object =
        json!({"metadata": {"name": "a", "deletionTimestamp": "2001-01-01T00:00:00Z"}, "data": {"k": "v"}});
    let made = c.api().post(&core(&ns, "configmaps"), object).await.expect(201);
    assert_eq!(made["metadata"]["deletionTimestamp"], Value::Null);
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*fields, json!({"f:data": {".": {}, "f:k": {}}}));
}
