//! The options of a write: `dryRun` and `fieldValidation`.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{JSON_PATCH, MERGE, STRATEGIC, config_map, core, lease, leases, pod, service, with},
    test,
};
use serde_json::{Value, json};

use crate::expect::{self, bad_request, invalid, not_found};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(dry_run_create_stores_nothing),
        test!(dry_run_update_patch_and_delete_change_nothing),
        test!(dry_run_still_validates),
        test!(dry_run_create_on_update_stores_nothing),
        test!(dry_run_must_be_all),
        test!(unknown_fields_are_dropped),
        test!(field_names_are_case_sensitive),
        test!(strict_refuses_unknown_and_duplicate_fields).since(1, 27),
        test!(strict_names_every_unknown_field_by_path).since(1, 27),
        test!(warn_is_the_default_and_warns_for_each_field).since(1, 27),
        test!(ignore_says_nothing).since(1, 27),
        test!(strict_applies_to_updates).since(1, 27),
        test!(strict_applies_to_what_a_patch_makes).since(1, 27),
        test!(unknown_field_validation_is_invalid).since(1, 27),
    ]
}

async fn dry_run_create_stores_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for query in ["dryRun=All", "dryRun=All&dryRun=All"] {
        let made = c
            .api()
            .post(&format!("{path}?{query}"), config_map("a"))
            .await
            .expect(201);
        assert_eq!(made["data"], json!({"k": "v"}));
        assert_eq!(
            made["metadata"]["resourceVersion"],
            Value::Null,
            "it has none, as it is not stored"
        );
        assert!(made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string());
        not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
    }
    let body = json!({"metadata": {"generateName": "a-"}});
    let made = c
        .api()
        .post(&format!("{path}?dryRun=All"), body)
        .await
        .expect(201);
    assert!(
        made["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.len() == 7),
        "{made:#}"
    );
    c.api()
        .post(&format!("{}?dryRun=All", core(&ns, "services")), service("a"))
        .await
        .expect(201);
    not_found(&c.api().get(&core(&ns, "services/a")).await, "services", "a");
}

async fn dry_run_update_patch_and_delete_change_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.api().post(&path, config_map("a")).await.expect(201);
    let (named, dry) = (format!("{path}/a"), format!("{path}/a?dryRun=All"));
    let updated = c
        .api()
        .put(&dry, with(config_map("a"), json!({"data": {"k": "2"}})))
        .await
        .expect(200);
    assert_eq!(updated["data"]["k"], "2");
    assert_eq!(
        updated["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let patched = c
        .api()
        .patch(&dry, MERGE, json!({"data": {"k": "3"}}))
        .await
        .expect(200);
    assert_eq!(patched["data"]["k"], "3");
    assert_eq!(
        patched["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    assert_eq!(c.api().delete(&dry, ()).await.expect(200)["status"], "Success");
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
    assert_eq!(
        c.api().delete(&named, options).await.expect(200)["status"],
        "Success"
    );
    let deleted = c
        .api()
        .delete(&format!("{path}?dryRun=All"), ())
        .await
        .expect(200);
    assert!(
        deleted["items"].as_array().is_some_and(|items| !items.is_empty()),
        "{deleted:#}"
    );
    expect::unchanged(&c, &named, &made).await;
}

async fn dry_run_still_validates(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    c.api().post(&path, config_map("a")).await.expect(201);
    c.api()
        .post(&format!("{path}?dryRun=All"), config_map("a"))
        .await
        .expect_error(409, "AlreadyExists");
    c.api()
        .post(&format!("{path}?dryRun=All"), config_map("A"))
        .await
        .expect_error(422, "Invalid");
    let stale = with(config_map("a"), json!({"metadata": {"resourceVersion": "1"}}));
    c.api()
        .put(&format!("{path}/a?dryRun=All"), stale)
        .await
        .expect_error(409, "Conflict");
    not_found(
        &c.api().delete(&format!("{path}/b?dryRun=All"), ()).await,
        "configmaps",
        "b",
    );
}

async fn dry_run_create_on_update_stores_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = format!("{}/a", leases(&ns));
    c.api()
        .put(&format!("{path}?dryRun=All"), lease("a"))
        .await
        .expect(201);
    not_found(&c.api().get(&path).await, "leases.coordination.k8s.io", "a");
}

async fn dry_run_must_be_all(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = c.api().post(&path, config_map("a")).await.expect(201);
    let named = format!("{path}/a");
    for query in ["dryRun=Nope", "dryRun="] {
        for (reply, kind) in [
            (
                c.api().post(&format!("{path}?{query}"), config_map("b")).await,
                "CreateOptions",
            ),
            (
                c.api().put(&format!("{named}?{query}"), config_map("a")).await,
                "UpdateOptions",
            ),
            (
                c.api()
                    .patch(&format!("{named}?{query}"), MERGE, json!({"data": {"k": "2"}}))
                    .await,
                "PatchOptions",
            ),
            (
                c.api().delete(&format!("{named}?{query}"), ()).await,
                "DeleteOptions",
            ),
        ] {
            invalid(&reply, &["NotSupported dryRun: supported values: \"All\""]);
            let details = &reply.json()["details"];
            reply.check(
                details["kind"] == kind && details["group"] == "meta.k8s.io",
                "other details",
            );
        }
    }
    expect::unchanged(&c, &named, &made).await;
    not_found(&c.api().get(&format!("{path}/b")).await, "configmaps", "b");
}

async fn unknown_fields_are_dropped(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods?fieldValidation=Ignore");
    let change = json!({"nope": 1, "metadata": {"nope": 1}, "spec": {"nope": {"deep": true}}});
    let made = c.api().post(&path, with(pod("a"), change)).await.expect(201);
    assert_eq!(made["nope"], Value::Null);
    assert_eq!(made["metadata"]["nope"], Value::Null);
    assert_eq!(made["spec"]["nope"], Value::Null);
    assert_eq!(made["spec"]["containers"][0]["name"], "c");
}

async fn field_names_are_case_sensitive(c: Cluster) {
    let ns = c.namespace().await;
    let body = json!({"metadata": {"name": "a"}, "Data": {"k": "v"}, "DATA": {"k": "v"}});
    let made = c
        .api()
        .post(&core(&ns, "configmaps?fieldValidation=Ignore"), body)
        .await
        .expect(201);
    assert_eq!((&made["data"], &made["Data"]), (&Value::Null, &Value::Null));
}

const UNKNOWN: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "nope": 1}, "nix": {}, "data": {"a": "b"}}"#;
const DUPLICATE: &str = r#"{"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"l": "1", "l": "2"}},
    "data": {"k": "1"}, "data": {"k": "2", "k": "3"}}"#;

async fn strict_refuses_unknown_and_duplicate_fields(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ";
    for (body, fields) in [
        (UNKNOWN, r#"unknown field "metadata.nope", unknown field "nix""#),
        (
            DUPLICATE,
            r#"duplicate field "metadata.labels.l", duplicate field "data", duplicate field "data.k""#,
        ),
    ] {
        let reply = c
            .api()
            .post(&format!("{path}?fieldValidation=Strict"), body)
            .await;
        bad_request(&reply, &format!("{start}{fields}"));
    }
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

async fn strict_names_every_unknown_field_by_path(c: Cluster) {
    let ns = c.namespace().await;
    let containers =
        json!([{"name": "c", "image": "i", "bogus": 1, "ports": [{"containerPort": 1, "zzz": 2}]}]);
    let body = with(pod("a"), json!({"spec": {"nope": 1, "containers": containers}}));
    let reply = c
        .api()
        .post(&core(&ns, "pods?fieldValidation=Strict"), body)
        .await;
    let fields = r#"unknown field "spec.containers[0].bogus", unknown field "spec.containers[0].ports[0].zzz", unknown field "spec.nope""#;
    bad_request(
        &reply,
        &format!("Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: {fields}"),
    );
    let body = json!({"metadata": {"name": "a"}, "Data": {"k": "v"}});
    let reply = c
        .api()
        .post(&core(&ns, "configmaps?fieldValidation=Strict"), body)
        .await;
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"Data\"";
    bad_request(&reply, message);
}

async fn warn_is_the_default_and_warns_for_each_field(c: Cluster) {
    for query in ["", "?fieldValidation=", "?fieldValidation=Warn"] {
        let ns = c.namespace().await;
        let path = core(&ns, "configmaps");
        let reply = c.api().post(&format!("{path}{query}"), UNKNOWN).await;
        assert_eq!(reply.expect(201)["data"], json!({"a": "b"}));
        assert_eq!(
            warnings(&reply),
            [
                r#"299 - "unknown field \"metadata.nope\"""#,
                r#"299 - "unknown field \"nix\"""#
            ]
        );
        c.api().delete(&format!("{path}/a"), ()).await.expect(200);
        let reply = c.api().post(&format!("{path}{query}"), DUPLICATE).await;
        // The last one wins.
        let made = reply.expect(201);
        assert_eq!(made["data"], json!({"k": "3"}));
        assert_eq!(made["metadata"]["labels"], json!({"l": "2"}));
        assert_eq!(
            warnings(&reply),
            [
                r#"299 - "duplicate field \"metadata.labels.l\"""#,
                r#"299 - "duplicate field \"data\"""#,
                r#"299 - "duplicate field \"data.k\"""#,
            ]
        );
    }
}

async fn ignore_says_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for body in [UNKNOWN, DUPLICATE] {
        let reply = c
            .api()
            .post(&format!("{path}?fieldValidation=Ignore"), body)
            .await;
        reply.expect(201);
        assert_eq!(warnings(&reply), [""; 0]);
        c.api().delete(&format!("{path}/a"), ()).await.expect(200);
    }
}

async fn strict_applies_to_updates(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let reply = c
        .api()
        .put(&format!("{path}?fieldValidation=Strict"), UNKNOWN)
        .await;
    let fields = r#"unknown field "metadata.nope", unknown field "nix""#;
    let start = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: ";
    bad_request(&reply, &format!("{start}{fields}"));
    expect::unchanged(&c, &path, &made).await;
    let reply = c.api().put(&path, UNKNOWN).await;
    assert_eq!(reply.expect(200)["data"], json!({"a": "b"}));
    assert_eq!(warnings(&reply).len(), 2);
}

async fn strict_applies_to_what_a_patch_makes(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = c
        .api()
        .post(&core(&ns, "configmaps"), config_map("a"))
        .await
        .expect(201);
    let object = json!({"nix": 1, "metadata": {"zip": 1}}).to_string();
    let both = r#"strict decoding error: unknown field "metadata.zip", unknown field "nix""#;
    let operations = json!([{"op": "add", "path": "/nix", "value": 1}]).to_string();
    let one = r#"strict decoding error: unknown field "nix""#;
    let twice = r#"{"data": {"z": "1", "z": "2"}}"#.to_owned();
    let dup = r#"strict decoding error: duplicate field "data.z""#;
    for (kind, change, end) in [
        (MERGE, &object, both),
        (STRATEGIC, &object, both),
        (JSON_PATCH, &operations, one),
        (MERGE, &twice, dup),
    ] {
        let reply = c
            .api()
            .patch(&format!("{path}?fieldValidation=Strict"), kind, change.as_str())
            .await;
        reply.expect_error(422, "Invalid");
        let causes = reply.causes();
        let found =
            causes.len() == 1 && causes[0].field == "patch" && causes[0].reason == "FieldValueInvalid";
        reply.check(
            found && causes[0].message.ends_with(end),
            &format!("expected {end}"),
        );
        expect::unchanged(&c, &path, &made).await;
        let reply = c
            .api()
            .patch(&format!("{path}?dryRun=All"), kind, change.as_str())
            .await;
        reply.expect(200);
        assert_eq!(warnings(&reply).len(), end.matches(" field ").count());
    }
}

async fn unknown_field_validation_is_invalid(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let reply = c
        .api()
        .post(&format!("{path}?fieldValidation=Bogus"), config_map("a"))
        .await;
    invalid(
        &reply,
        &[r#"NotSupported fieldValidation: "Bogus": supported values: "", "Ignore", "Strict", "Warn""#],
    );
    not_found(&c.api().get(&format!("{path}/a")).await, "configmaps", "a");
}

fn warnings(reply: &Reply) -> Vec<&str> {
    let values = reply.headers.get_all("warning").iter();
    values.map(|value| value.to_str().expect("text")).collect()
}
