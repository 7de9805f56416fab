//! Denials: the Status that the client receives, and the unchanged object.

use coxswain_tests::fixtures::{config_map, core, with};
use coxswain_tests::webhook::{Response, Webhook, allow, deny};
use coxswain_tests::{Cluster, Reply, Test, test};
use serde_json::{Value, json};

use super::{NAME, hooked};
use crate::expect::unchanged;

pub fn tests() -> Vec<Test> {
    vec![
        test!(denial_status_is_returned),
        test!(denied_write_changes_nothing),
        test!(warnings_are_returned_for_allowed_and_denied_requests),
        test!(denial_details_are_returned),
        test!(invalid_and_long_warnings_are_dropped_or_truncated),
        test!(denial_still_calls_all_validating_webhooks),
    ]
}

/// The status, the reason and the message.
fn status_of(reply: &Reply) -> (u16, String, String) {
    let status = reply.json();
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("status"), "Failure");
    assert_eq!(status["code"], reply.status, "{reply}");
    (reply.status, text("reason"), text("message"))
}

async fn denial_status_is_returned(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let (ns, _webhook) = hooked(&c, kind, &["configmaps"], |request| {
            let said = request["object"]["metadata"]["annotations"]["status"].as_str();
            let status: Value = said
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            deny(&status)
        })
        .await;
        let denied = |why: &str| format!("admission webhook {NAME:?} denied the request{why}");
        for (status, expected) in [
            (json!(null), (400, "", denied(" without explanation"))),
            (json!({}), (400, "", denied(" without explanation"))),
            (json!({"message": "no"}), (400, "", denied(": no"))),
            (json!({"code": 403, "message": "no"}), (403, "", denied(": no"))),
            (
                json!({"code": 200, "reason": "Why"}),
                (400, "Why", denied(": Why")),
            ),
            (
                json!({"code": 422, "reason": "Invalid", "message": "m"}),
                (422, "Invalid", denied(": m")),
            ),
            (
                json!({"code": 418, "status": "Success"}),
                (418, "", denied(" without explanation")),
            ),
        ] {
            let annotations = json!({"metadata": {"annotations": {"status": status.to_string()}}});
            let object = with(config_map("a"), annotations);
            let reply = c.api().post(&core(&ns, "configmaps"), object).await;
            let (code, reason, message) = expected;
            assert_eq!(status_of(&reply), (code, reason.to_owned(), message), "{status}");
        }
        c.expect_absent(&format!("{}/a", core(&ns, "configmaps"))).await;
    }
}

async fn denied_write_changes_nothing(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let refuse = |request: &Value| match request["operation"].as_str() {
            Some("CREATE") => allow(),
            _ => deny(&json!({"code": 403, "message": "no"})),
        };
        let (ns, _webhook) = hooked(&c, kind, &["configmaps"], refuse).await;
        let all = core(&ns, "configmaps");
        let made = c.create(&all, config_map("a")).await;
        let path = format!("{all}/a");
        let merge = coxswain_tests::fixtures::MERGE;
        for reply in [
            c.api().put(&path, config_map("a")).await,
            c.api().patch(&path, merge, json!({"data": {"x": "y"}})).await,
            c.api().delete(&path, ()).await,
            c.api().delete(&all, ()).await,
        ] {
            assert_eq!(status_of(&reply).0, 403);
            unchanged(&c, &path, &made).await;
        }
    }
}

/// The texts of the `Warning` headers.
fn warnings(reply: &Reply) -> Vec<String> {
    let all = reply.headers.get_all("warning").iter();
    all.filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect()
}

async fn warnings_are_returned_for_allowed_and_denied_requests(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let (ns, _webhook) = hooked(&c, kind, &["configmaps"], |request| {
            let allowed = request["name"] == "good";
            Response::Review(
                json!({"allowed": allowed, "warnings": ["careful", "a \"quoted\" one", "careful"]}),
            )
        })
        .await;
        let path = core(&ns, "configmaps");
        let expected = ["299 - \"careful\"", "299 - \"a \\\"quoted\\\" one\""];
        let good = c.api().post(&path, config_map("good")).await;
        good.expect(201);
        assert_eq!(warnings(&good), expected);
        let bad = c.api().post(&path, config_map("bad")).await;
        assert_eq!(status_of(&bad).0, 400);
        assert_eq!(warnings(&bad), expected);
    }
}

async fn invalid_and_long_warnings_are_dropped_or_truncated(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Validating", &["configmaps"], |request| {
        let warnings = match request["name"].as_str() {
            Some("odd") => json!(["two\nlines", "", "ä", "a\\b", "tab\there"]),
            Some("long") => json!(["x".repeat(4000), "y".repeat(97)]),
            _ => json!(["x".repeat(4000), "y".repeat(96)]),
        };
        Response::Review(json!({"allowed": true, "warnings": warnings}))
    })
    .await;
    let path = core(&ns, "configmaps");
    let warned = async |name: &str| {
        let reply = c.api().post(&path, config_map(name)).await;
        reply.expect(201);
        let all = reply.headers.get_all("warning").iter();
        all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(warned("odd").await, ["299 - \"ä\"", "299 - \"a\\\\b\""]);
    let quotes = "299 - \"\"".len();
    let lengths = async |name: &str| {
        warned(name)
            .await
            .iter()
            .map(|text| text.len() - quotes)
            .collect::<Vec<_>>()
    };
    assert_eq!(lengths("fits").await, [4000, 96]);
    assert_eq!(lengths("long").await, [256, 97]);
}

async fn denial_details_are_returned(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Validating", &["configmaps"], |_| {
        deny(&json!({"code": 429, "reason": "TooManyRequests", "message": "later", "details": {
            "name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3}}))
    })
    .await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    assert_eq!(status_of(&reply).0, 429);
    assert_eq!(
        reply.json()["details"],
        json!({"name": "n", "kind": "k", "causes": [{"reason": "r", "message": "m", "field": "f"}], "retryAfterSeconds": 3})
    );
    assert_eq!(
        reply.headers.get("retry-after").and_then(|v| v.to_str().ok()),
        Some("3")
    );
}

async fn denial_still_calls_all_validating_webhooks(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|path, _| {
        if path.starts_with("/b") {
            deny(&json!({"message": "no"}))
        } else {
            allow()
        }
    })
    .await;
    let hooks = ["a", "b", "c"].map(|name| webhook.path_hook(name, &["configmaps"]));
    webhook.install(&c, &ns, "Validating", &ns, hooks.to_vec()).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("x")).await;
    assert_eq!(
        status_of(&reply).2,
        "admission webhook \"b.example.com\" denied the request: no"
    );
    assert_eq!(webhook.requests().len(), 3);
}
