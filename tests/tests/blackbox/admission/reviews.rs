//! The fields of the `AdmissionReview`.

use coxswain_tests::fixtures::{JSON_PATCH, apps, config_map, core, deployment, with};
use coxswain_tests::webhook::Webhook;
use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use super::{hooked, lines, yes};

pub fn tests() -> Vec<Test> {
    vec![
        test!(review_of_create).since(1, 22),
        test!(review_of_generated_name),
        test!(review_of_update).since(1, 22),
        test!(review_of_create_on_update),
        test!(review_of_patch_is_update),
        test!(review_of_apply).since(1, 22),
        test!(review_of_delete),
        test!(review_of_delete_collection),
        test!(v1beta1_review_is_supported),
        test!(review_is_posted_with_path_and_timeout),
        test!(review_of_impersonated_user),
        test!(review_of_dry_run),
    ]
}

/// Asserts that the variable fields exist and returns the request without them.
#[track_caller]
fn plain(request: &Value) -> Value {
    assert!(
        request["uid"].as_str().is_some_and(|uid| uid.len() == 36),
        "{request:#}"
    );
    let groups = request["userInfo"]["groups"].as_array();
    assert!(
        groups.is_some_and(|groups| groups.contains(&json!("system:masters"))),
        "{request:#}"
    );
    let mut request = request.clone();
    if let Some(map) = request.as_object_mut() {
        for key in ["uid", "userInfo", "object", "oldObject"] {
            assert!(map.remove(key).is_some(), "no {key}");
        }
    }
    request
}

fn config_map_review(operation: &str, ns: &str, options: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    json!({
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": "a", "namespace": ns, "operation": operation, "dryRun": false, "options": options,
    })
}

fn options(kind: &str) -> Value {
    json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"})
}

fn only(webhook: &Webhook) -> Value {
    let requests = webhook.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    requests.into_iter().next().unwrap_or_default()
}

/// Mutating webhooks see the object before the server sets its system fields, validating webhooks after.
async fn review_of_create(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let (ns, webhook) = hooked(&c, kind, &["configmaps"], yes).await;
        let path = format!("{}?fieldManager=me", core(&ns, "configmaps"));
        let made = c.create(&path, config_map("a")).await;
        let request = only(&webhook);
        let options = with(options("CreateOptions"), json!({"fieldManager": "me"}));
        assert_eq!(
            plain(&request),
            config_map_review("CREATE", &ns, &options),
            "{kind}"
        );
        assert_eq!(request["oldObject"], json!(null));
        let object = &request["object"];
        assert_eq!(object["data"], json!({"k": "v"}));
        assert_eq!(
            (&object["kind"], &object["apiVersion"]),
            (&json!("ConfigMap"), &json!("v1"))
        );
        assert_eq!(object["metadata"]["namespace"], json!(ns));
        let completed = kind == "Validating";
        assert_eq!(
            object["metadata"]["uid"] == made["metadata"]["uid"],
            completed,
            "{object:#}"
        );
        assert_eq!(object["metadata"]["uid"].is_null(), !completed, "{object:#}");
        assert_eq!(object["metadata"]["resourceVersion"], json!(null));
        assert_eq!(
            object["metadata"]["managedFields"][0]["manager"],
            json!("me"),
            "{object:#}"
        );
    }
}

async fn review_of_generated_name(c: Cluster) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    for kind in ["Mutating", "Validating"] {
        let (ns, webhook) = hooked(&c, kind, &["configmaps"], yes).await;
        let made = c.create(&core(&ns, "configmaps"), &object).await;
        let request = only(&webhook);
        if kind == "Mutating" {
            assert_eq!(request["name"], json!(null));
            assert_eq!(request["object"]["metadata"]["name"], json!(null));
        } else {
            assert_eq!(request["name"], made["metadata"]["name"]);
        }
    }
}

async fn review_of_update(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let (ns, webhook) = hooked(&c, kind, &["configmaps"], yes).await;
        let path = core(&ns, "configmaps");
        let made = c.create(&path, config_map("a")).await;
        let _ = webhook.requests();
        let path = format!("{path}/a");
        let new = with(config_map("a"), json!({"data": {"k": "w"}}));
        c.replace(&path, new).await;
        let request = only(&webhook);
        let expected = config_map_review("UPDATE", &ns, &options("UpdateOptions"));
        assert_eq!(plain(&request), expected, "{kind}");
        assert_eq!(request["oldObject"], made);
        assert_eq!(request["object"]["data"], json!({"k": "w"}));
        let completed = kind == "Validating";
        let object = &request["object"]["metadata"];
        assert_eq!(object["uid"] == made["metadata"]["uid"], completed, "{object:#}");
        assert_eq!(
            object["resourceVersion"] == made["metadata"]["resourceVersion"],
            completed,
            "{object:#}"
        );
        // The server calls webhooks for an update without a change.
        c.replace(&path, with(config_map("a"), json!({"data": {"k": "w"}})))
            .await;
        assert_eq!(lines(&webhook.requests()), ["UPDATE a"]);
    }
}

async fn review_of_create_on_update(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["leases"], yes).await;
    let path = format!("{}/a?fieldManager=me", coxswain_tests::fixtures::leases(&ns));
    c.api()
        .put(&path, coxswain_tests::fixtures::lease("a"))
        .await
        .expect(201);
    let request = only(&webhook);
    assert_eq!(
        (&request["operation"], &request["name"]),
        (&json!("CREATE"), &json!("a"))
    );
    let expected = with(options("CreateOptions"), json!({"fieldManager": "me"}));
    assert_eq!(request["options"], expected);
    assert_eq!(request["oldObject"], json!(null));
}

async fn review_of_patch_is_update(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    let path = core(&ns, "configmaps");
    c.create(&path, config_map("a")).await;
    let _ = webhook.requests();
    let path = format!("{path}/a?fieldManager=me");
    let merge = json!({"data": {"k": "w"}});
    c.merge(&path, merge).await;
    let request = only(&webhook);
    let options = with(options("UpdateOptions"), json!({"fieldManager": "me"}));
    assert_eq!(plain(&request), config_map_review("UPDATE", &ns, &options));
    assert_eq!(request["object"]["data"], json!({"k": "w"}));
    let operations = json!([{"op": "replace", "path": "/data/k", "value": "x"}]);
    c.api().patch(&path, JSON_PATCH, operations).await.expect(200);
    assert_eq!(only(&webhook)["object"]["data"], json!({"k": "x"}));
}

async fn review_of_apply(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    let path = format!("{}/a?fieldManager=me&force=true", core(&ns, "configmaps"));
    let apply = "application/apply-patch+yaml";
    c.api().patch(&path, apply, config_map("a")).await.expect(201);
    let request = only(&webhook);
    let with_manager = |kind: &str| with(options(kind), json!({"fieldManager": "me"}));
    assert_eq!(
        plain(&request),
        config_map_review("CREATE", &ns, &with_manager("CreateOptions"))
    );
    let new = with(config_map("a"), json!({"data": {"k": "w"}}));
    c.api().patch(&path, apply, new).await.expect(200);
    let request = only(&webhook);
    assert_eq!(
        plain(&request),
        config_map_review("UPDATE", &ns, &with_manager("UpdateOptions"))
    );
}

async fn review_of_delete(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let (ns, webhook) = hooked(&c, kind, &["configmaps"], yes).await;
        let path = core(&ns, "configmaps");
        let made = c.create(&path, config_map("a")).await;
        let _ = webhook.requests();
        let uid = &made["metadata"]["uid"];
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "gracePeriodSeconds": 5, "preconditions": {"uid": uid}});
        c.api().delete(&format!("{path}/a"), body).await.expect(200);
        let request = only(&webhook);
        let change = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 5, "preconditions": {"uid": uid}});
        let expected = config_map_review("DELETE", &ns, &with(options("DeleteOptions"), change));
        assert_eq!(plain(&request), expected, "{kind}");
        assert_eq!(request["object"], json!(null));
        assert_eq!(request["oldObject"], made);
        // The server calls no webhook for an absent object.
        c.api()
            .delete(&format!("{path}/a"), ())
            .await
            .expect_error(404, "NotFound");
        assert_eq!(webhook.requests(), Vec::<Value>::new());
    }
}

async fn review_of_delete_collection(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["deployments"], yes).await;
    let path = apps(&ns, "deployments");
    for name in ["a", "b"] {
        c.create(&path, deployment(name)).await;
    }
    let _ = webhook.requests();
    c.delete(&path).await;
    let requests = webhook.requests();
    assert_eq!(lines(&requests), ["DELETE ", "DELETE "]);
    let mut names: Vec<&Value> = requests
        .iter()
        .map(|r| &r["oldObject"]["metadata"]["name"])
        .collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, [&json!("a"), &json!("b")]);
    assert_eq!(requests[0]["options"], options("DeleteOptions"));
}

async fn v1beta1_review_is_supported(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, request| yes(request)).await;
    let mut hook = webhook.hook(super::NAME, "/", &["configmaps"]);
    hook["admissionReviewVersions"] = json!(["v9", "v1beta1", "v1"]);
    webhook.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    c.create(&core(&ns, "configmaps"), config_map("a")).await;
    let calls = webhook.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].review["apiVersion"], "admission.k8s.io/v1beta1");
    assert_eq!(
        plain(calls[0].request()),
        config_map_review("CREATE", &ns, &options("CreateOptions"))
    );
}

async fn review_is_posted_with_path_and_timeout(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, request| yes(request)).await;
    let mut hook = webhook.hook(super::NAME, "/some/path", &["configmaps"]);
    hook["timeoutSeconds"] = 7.into();
    webhook.install(&c, &ns, "Validating", &ns, vec![hook]).await;
    c.create(&core(&ns, "configmaps"), config_map("a")).await;
    let calls = webhook.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path, "/some/path?timeout=7s");
    assert_eq!(calls[0].headers, ["kube-apiserver-admission", "application/json"]);
    assert_eq!(calls[0].review["kind"], "AdmissionReview");
    assert_eq!(calls[0].review["apiVersion"], "admission.k8s.io/v1");
}

async fn review_of_impersonated_user(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    let headers = [
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-scopes", "view"),
    ];
    let path = core(&ns, "configmaps");
    c.api()
        .request(http::Method::POST, &path, &headers, config_map("a"))
        .await
        .expect(201);
    let user = json!({"username": "jane", "groups": ["system:masters", "system:authenticated"],
        "extra": {"scopes": ["view"]}});
    assert_eq!(only(&webhook)["userInfo"], user);
}

async fn review_of_dry_run(c: Cluster) {
    let (ns, webhook) = hooked(&c, "Validating", &["configmaps"], yes).await;
    let path = core(&ns, "configmaps");
    let dry = format!("{path}?dryRun=All");
    c.create(&dry, config_map("a")).await;
    let request = only(&webhook);
    assert_eq!(request["dryRun"], true);
    let dry_options = |kind: &str| with(options(kind), json!({"dryRun": ["All"]}));
    assert_eq!(request["options"], dry_options("CreateOptions"));
    c.create(&path, config_map("a")).await;
    let _ = webhook.requests();
    c.delete(&format!("{path}/a?dryRun=All")).await;
    let request = only(&webhook);
    assert_eq!(
        (&request["dryRun"], &request["options"]),
        (&json!(true), &dry_options("DeleteOptions"))
    );
    c.read(&format!("{path}/a")).await;
}
