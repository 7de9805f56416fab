//! Validation of webhook configurations.

use coxswain_tests::fixtures::with;
use coxswain_tests::webhook::{configuration, configurations};
use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::expect::invalid;

pub fn tests() -> Vec<Test> {
    vec![
        test!(invalid_rules_are_rejected),
        test!(invalid_client_configs_are_rejected),
        test!(unsupported_review_versions_are_rejected),
        test!(invalid_match_conditions_are_rejected).since(1, 30),
    ]
}

fn hook() -> Value {
    json!({"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]})
}

/// Posts the webhook with each change, in both kinds of configuration, and asserts the causes.
async fn refused(c: &Cluster, changes: Vec<(Value, Vec<&str>)>) {
    for (change, causes) in changes {
        for kind in ["Mutating", "Validating"] {
            let body = configuration(kind, "refused", &[with(hook(), change.clone())]);
            invalid(&c.api().post(&configurations(kind), body).await, &causes);
        }
    }
}

fn rule(change: Value) -> Value {
    json!({"rules": [with(hook()["rules"][0].clone(), change)]})
}

async fn invalid_rules_are_rejected(c: Cluster) {
    let at = "webhooks[0].rules[0]";
    let causes = |kind: &str, field: &str| format!("{kind} {at}.{field}");
    let (operations, groups, versions) = (
        causes("Invalid", "operations"),
        causes("Invalid", "apiGroups"),
        causes("Invalid", "apiVersions"),
    );
    let (all, second, first) = (
        causes("Invalid", "resources"),
        causes("Invalid", "resources[1]"),
        causes("Required", "resources[0]"),
    );
    let version = causes("Required", "apiVersions[0]");
    refused(
        &c,
        vec![
            (rule(json!({"operations": ["*", "CREATE"]})), vec![&operations]),
            (rule(json!({"apiGroups": ["*", "apps"]})), vec![&groups]),
            (rule(json!({"apiVersions": ["*", "v1"]})), vec![&versions]),
            (rule(json!({"apiVersions": [""]})), vec![&version]),
            (rule(json!({"resources": [""]})), vec![&first]),
            (rule(json!({"resources": ["*/*", "pods"]})), vec![&all]),
            (rule(json!({"resources": ["*", "pods"]})), vec![&all]),
            (
                rule(json!({"resources": ["pods/*", "pods/status"]})),
                vec![&second],
            ),
            (
                rule(json!({"resources": ["*/status", "pods/status"]})),
                vec![&second],
            ),
        ],
    )
    .await;
}

async fn invalid_client_configs_are_rejected(c: Cluster) {
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let service = |change: Value| {
        let service = with(json!({"namespace": "n", "name": "s"}), change);
        json!({"clientConfig": {"url": null, "service": service}})
    };
    let at = "webhooks[0].clientConfig";
    let (bad_url, bad_path) = (format!("Invalid {at}.url"), format!("Invalid {at}.service.path"));
    refused(
        &c,
        vec![
            (url("http://example.com"), vec![&bad_url]),
            (url("https://"), vec![&bad_url]),
            (url("https://me@example.com"), vec![&bad_url]),
            (url("https://example.com/?a=b"), vec![&bad_url]),
            (url("https://example.com/#a"), vec![&bad_url]),
            (service(json!({"path": "no/slash"})), vec![&bad_path]),
            (service(json!({"path": "//"})), vec![&bad_path]),
            (service(json!({"path": "/a//b"})), vec![&bad_path]),
            (service(json!({"path": "/A_b"})), vec![&bad_path]),
        ],
    )
    .await;
}

async fn unsupported_review_versions_are_rejected(c: Cluster) {
    let at = "webhooks[0].admissionReviewVersions";
    let (all, second, first) = (
        format!("Invalid {at}"),
        format!("Invalid {at}[1]"),
        format!("Invalid {at}[0]"),
    );
    refused(
        &c,
        vec![
            (json!({"admissionReviewVersions": ["v9"]}), vec![&all]),
            (json!({"admissionReviewVersions": ["v1", "v1"]}), vec![&second]),
            (json!({"admissionReviewVersions": ["1", "v1"]}), vec![&first]),
        ],
    )
    .await;
}

async fn invalid_match_conditions_are_rejected(c: Cluster) {
    let conditions = |list: Value| json!({"matchConditions": list});
    let one = |expression: &str| conditions(json!([{"name": "c", "expression": expression}]));
    let at = "webhooks[0].matchConditions";
    let (bad, missing, unnamed, twice, named) = (
        format!("Invalid {at}[0].expression"),
        format!("Required {at}[0].expression"),
        format!("Required {at}[0].name"),
        format!("Duplicate {at}[1].name"),
        format!("Invalid {at}[0].name"),
    );
    let expected_bool = |found: &str| format!("{bad}: must evaluate to bool but got {found}");
    let (text, anything) = (expected_bool("string"), expected_bool("dyn"));
    refused(
        &c,
        vec![
            (one("1 +"), vec![&bad]),
            (one("unknown == 1"), vec![&bad]),
            (one("request.colour == 'red'"), vec![&bad]),
            (one("request.name + 1 == 'x'"), vec![&bad]),
            (one("'text'"), vec![&text]),
            (one("object.spec"), vec![&anything]),
            (one("  "), vec![&missing]),
            (conditions(json!([{"expression": "true"}])), vec![&unnamed]),
            (
                conditions(json!([{"name": "-", "expression": "true"}])),
                vec![&named],
            ),
            (
                conditions(json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}])),
                vec![&twice],
            ),
        ],
    )
    .await;
    let many: Vec<Value> = (0..65)
        .map(|n| json!({"name": format!("c{n}"), "expression": "true"}))
        .collect();
    let too_many = format!("TooMany {at}");
    refused(&c, vec![(conditions(json!(many)), vec![&too_many])]).await;
}
