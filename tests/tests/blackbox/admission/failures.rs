//! Webhooks that hang, lie or die: the client is told, or the write goes on without them, and the server lives.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use coxswain_tests::fixtures::{config_map, core, with};
use coxswain_tests::webhook::{Said, Webhook, allow};
use coxswain_tests::{Cluster, Need, Reply, Test, test, time};
use futures_util::future::{Either, select};
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use super::{NAME, hooked};
use crate::expect::speaks_1_36;

/// Number of bytes of an answer that the sandbox reads.
const MOST: usize = 8 * 1024 * 1024;

pub fn tests() -> Vec<Test> {
    vec![
        test!(nobody_there),
        test!(a_certificate_of_somebody_else),
        test!(a_certificate_for_another_name),
        test!(a_certificate_that_is_its_own_authority),
        test!(a_server_that_speaks_no_tls),
        test!(a_server_that_never_answers_a_call),
        test!(a_request_that_has_little_time).since(1, 30),
        test!(a_bundle_that_is_none),
        test!(a_webhook_that_hangs),
        test!(a_webhook_that_never_ends).needs(Need::Sandbox),
        test!(a_webhook_that_says_too_much).needs(Need::Sandbox),
        test!(a_webhook_that_closes),
        test!(errors_of_http),
        test!(answers_that_are_none),
        test!(answers_that_do_not_fit),
        test!(a_patch_that_is_none).since(1, 22),
        test!(a_failure_that_is_ignored),
        test!(what_is_ignored_is_not_believed),
        test!(others_do_not_wait),
    ]
}

/// Asserts that the call of the webhook failed, and what the message says after that.
#[track_caller]
fn failed(c: &Cluster, reply: &Reply, why: &str) {
    reply.expect_error(500, "InternalError");
    // Older ones do not say what they were about to do.
    let why = if speaks_1_36(c) { why } else { "" };
    let start = format!("Internal error occurred: failed calling webhook {NAME:?}: {why}");
    reply.check(reply.message().starts_with(&start), &format!("expected {start}"));
    let cause = reply.json()["details"]["causes"][0]["message"].clone();
    let message = reply.message();
    let shown = message.trim_start_matches("Internal error occurred: ");
    reply.check(cause == shown, "expected the message as a cause");
}

/// A namespace with one webhook whose configuration is changed.
async fn changed(
    c: &Cluster,
    speak: impl Fn(&str, &Value) -> Said + Send + Sync + 'static,
    change: impl FnOnce(&mut Value),
) -> (String, Webhook) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(speak).await;
    let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
    // The one that tells that the configuration is known works in any case.
    hook["objectSelector"] = json!({"matchExpressions": [{"key": "known", "operator": "DoesNotExist"}]});
    change(&mut hook);
    webhook.install(c, &ns, "Validating", &ns, vec![hook]).await;
    (ns, webhook)
}

/// Sends the same request to two namespaces and returns the reply of the first. It must arrive before that of the second, whose
/// webhook has a longer timeout.
async fn replied_first(c: &Cluster, first: &str, second: &str) -> Reply {
    let post = async |ns: &str| c.api().post(&core(ns, "configmaps"), config_map("a")).await;
    let start = time::now();
    match select(pin!(post(first)), pin!(post(second))).await {
        Either::Left((reply, _)) => {
            println!(
                "reply after a webhook timeout of one second: {:?}",
                start.elapsed()
            );
            reply
        }
        Either::Right((reply, _)) => panic!("a timeout of 30 s ended before one of 1 s: {reply}"),
    }
}

async fn nobody_there(c: Cluster) {
    let (ns, webhook) = changed(
        &c,
        |_, _| allow(),
        // A port that nobody can listen on.
        |hook| hook["clientConfig"]["url"] = "https://127.0.0.1:1/x".into(),
    )
    .await;
    let path = core(&ns, "configmaps");
    let reply = c.api().post(&path, config_map("a")).await;
    failed(
        &c,
        &reply,
        "failed to call webhook: Post \"https://127.0.0.1:1/x?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused",
    );
    c.api()
        .get(&format!("{path}/a"))
        .await
        .expect_error(404, "NotFound");
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

async fn a_certificate_of_somebody_else(c: Cluster) {
    let other = Webhook::start(|_, _| allow()).await;
    let bundle = other.client("/")["caBundle"].clone();
    let (ns, webhook) = changed(
        &c,
        |_, _| allow(),
        |hook| hook["clientConfig"]["caBundle"] = bundle,
    )
    .await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    let why = "x509: certificate signed by unknown authority";
    reply.check(reply.message().contains(why), why);
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

async fn a_certificate_for_another_name(c: Cluster) {
    let other = Webhook::start_as(&["example.com"], |_, _| allow()).await;
    let client = other.client("/");
    let (ns, _webhook) = changed(&c, |_, _| allow(), |hook| hook["clientConfig"] = client).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    reply.check(
        reply.message().contains("x509: "),
        "expected a word about the certificate",
    );
    assert_eq!(other.requests(), Vec::<Value>::new());
}

/// The bundle holds the very certificate that is shown.
async fn a_certificate_that_is_its_own_authority(c: Cluster) {
    let own = Webhook::start_self_signed(|_, _| allow()).await;
    let client = own.client("/");
    let (ns, _webhook) = changed(&c, |_, _| allow(), |hook| hook["clientConfig"] = client).await;
    let path = core(&ns, "configmaps");
    c.api().post(&path, config_map("a")).await.expect(201);
    assert_eq!(own.requests().len(), 1);
    // Another one of the same name is not it.
    let other = Webhook::start_self_signed(|_, _| allow()).await;
    let mut client = own.client("/");
    client["url"] = other.client("/")["url"].clone();
    let (ns, _webhook) = changed(&c, |_, _| allow(), |hook| hook["clientConfig"] = client).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    reply.check(
        reply.message().contains("x509: "),
        "expected a word about the certificate",
    );
    assert_eq!(other.requests(), Vec::<Value>::new());
}

async fn a_server_that_speaks_no_tls(c: Cluster) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("a bound port"));
    let (ns, _webhook) = changed(
        &c,
        |_, _| allow(),
        |hook| hook["clientConfig"]["url"] = url.into(),
    )
    .await;
    let path = core(&ns, "configmaps");
    let speak = async {
        use tokio::io::AsyncWriteExt as _;
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    };
    let (reply, ()) = futures_util::future::join(c.api().post(&path, config_map("a")), speak).await;
    failed(&c, &reply, "failed to call webhook: Post ");
}

/// It takes the connection, and that is all.
async fn a_server_that_never_answers_a_call(c: Cluster) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("a bound port"));
    let change = |seconds: u32| {
        let url = url.clone();
        move |hook: &mut Value| {
            hook["clientConfig"]["url"] = url.into();
            hook["timeoutSeconds"] = seconds.into();
        }
    };
    let (ns, _webhook) = changed(&c, |_, _| allow(), change(1)).await;
    let (patient, _other) = changed(&c, |_, _| allow(), change(30)).await;
    let reply = replied_first(&c, &ns, &patient).await;
    failed(&c, &reply, "failed to call webhook: Post ");
}

/// The time of the request is that of all webhooks together. Without it, the webhook would be ignored and the write done.
async fn a_request_that_has_little_time(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let ns = c.namespace().await;
        let webhook = Webhook::start(|_, _| Said::Nothing).await;
        let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
        hook["failurePolicy"] = "Ignore".into();
        webhook.install(&c, &ns, kind, &ns, vec![hook]).await;
        let path = core(&ns, "configmaps");
        let start = time::now();
        let request = Request::post(format!("{path}?timeout=2s"))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(config_map("a").to_string().into_bytes()))
            .expect("a request");
        match c.client().send(request).await {
            Ok(answer) => {
                assert_eq!(answer.status(), 504);
                let body = answer.into_body().collect().await.expect("a body").to_bytes();
                let status: Value = serde_json::from_slice(&body).expect("a Status");
                assert_eq!(status["reason"], "Timeout", "{status}");
            }
            // Two give up at the same moment there, and if they meet, the connection just ends.
            Err(error) => assert!(!c.is_sandbox(), "no answer: {error}"),
        }
        println!(
            "reply to a request with a timeout of two seconds: {:?}",
            start.elapsed()
        );
        c.api()
            .get(&format!("{path}/a"))
            .await
            .expect_error(404, "NotFound");
    }
}

async fn a_bundle_that_is_none(c: Cluster) {
    let bundle = json!("bm90IGEgY2VydGlmaWNhdGU=");
    let (ns, webhook) = changed(
        &c,
        |_, _| allow(),
        |hook| hook["clientConfig"]["caBundle"] = bundle,
    )
    .await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(
        &c,
        &reply,
        "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block",
    );
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

async fn a_webhook_that_hangs(c: Cluster) {
    let timeout = |seconds: u32| move |hook: &mut Value| hook["timeoutSeconds"] = seconds.into();
    let (ns, _webhook) = changed(&c, |_, _| Said::Nothing, timeout(1)).await;
    let (patient, _other) = changed(&c, |_, _| Said::Nothing, timeout(30)).await;
    let path = core(&ns, "configmaps");
    let reply = replied_first(&c, &ns, &patient).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    let message = reply.message();
    reply.check(
        message.contains("?timeout=1s\": context deadline exceeded"),
        "expected a deadline",
    );
    c.api()
        .get(&format!("{path}/a"))
        .await
        .expect_error(404, "NotFound");
}

async fn a_webhook_that_never_ends(c: Cluster) {
    let (ns, _webhook) = changed(
        &c,
        |_, _| Said::Endless,
        |hook| hook["timeoutSeconds"] = 30.into(),
    )
    .await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    let why = format!("failed to call webhook: the answer is longer than {MOST} bytes");
    failed(&c, &reply, &why);
}

async fn a_webhook_that_says_too_much(c: Cluster) {
    let (ns, _webhook) = changed(
        &c,
        |_, request| {
            let response = json!({"uid": request["uid"], "allowed": true});
            let review =
                json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
            let more = usize::from(request["name"] == "too-much");
            let mut text = review.to_string();
            text.push_str(&" ".repeat(MOST + more - text.len()));
            Said::Raw(200, text)
        },
        |_| (),
    )
    .await;
    let path = core(&ns, "configmaps");
    let reply = c.api().post(&path, config_map("too-much")).await;
    let why = format!("failed to call webhook: the answer is longer than {MOST} bytes");
    failed(&c, &reply, &why);
    c.api().post(&path, config_map("much")).await.expect(201);
}

async fn a_webhook_that_closes(c: Cluster) {
    let (ns, _webhook) = changed(&c, |_, _| Said::Close, |_| ()).await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    reply.check(reply.message().ends_with(": EOF"), "expected an end");
}

async fn errors_of_http(c: Cluster) {
    let (ns, _webhook) = changed(
        &c,
        |_, request| {
            let said = request["object"]["data"]["code"]
                .as_str()
                .and_then(|code| code.parse().ok());
            Said::Raw(said.unwrap_or(200), "some text".to_owned())
        },
        |_| (),
    )
    .await;
    for (code, why) in [
        ("404", "the server could not find the requested resource"),
        (
            "500",
            "an error on the server (\"some text\") has prevented the request from succeeding",
        ),
        ("503", "the server is currently unable to handle the request"),
        (
            "301",
            "the server responded with the status code 301 but did not return more information",
        ),
        ("400", "the server rejected our request for an unknown reason"),
        (
            "418",
            "the server responded with the status code 418 but did not return more information",
        ),
        ("200", "couldn't get version/kind; json parse error: "),
    ] {
        let object = with(config_map("a"), json!({"data": {"code": code}}));
        let reply = c.api().post(&core(&ns, "configmaps"), object).await;
        failed(&c, &reply, &format!("failed to call webhook: {why}"));
    }
}

/// Bodies that are no review.
async fn answers_that_are_none(c: Cluster) {
    let (ns, _webhook) = changed(
        &c,
        |_, request| {
            Said::Raw(
                200,
                request["object"]["data"]["say"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
        },
        |_| (),
    )
    .await;
    let v1 = r#""apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview""#;
    for (say, why) in [
        ("", "failed to call webhook: "),
        ("[]", "failed to call webhook: "),
        (
            "{}",
            "received invalid webhook response: webhook response was absent",
        ),
        (
            r#"{"apiVersion": "v1", "kind": "Pod"}"#,
            "failed to call webhook: no kind \"Pod\" is registered for version \"v1\"",
        ),
        (
            &format!("{{{v1}}}"),
            "received invalid webhook response: webhook response was absent",
        ),
        (
            &format!("{{{v1}, \"response\": {{\"allowed\": true}}}}"),
            "received invalid webhook response: expected response.uid=",
        ),
        (
            &format!("{{{v1}, \"response\": {{\"allowed\": \"yes\"}}}}"),
            "failed to call webhook: ",
        ),
        (
            r#"{"response": {"allowed": true}}"#,
            "received invalid webhook response: expected response.uid=",
        ),
    ] {
        let object = with(config_map("a"), json!({"data": {"say": say}}));
        let reply = c.api().post(&core(&ns, "configmaps"), object).await;
        failed(&c, &reply, why);
    }
}

/// Reviews whose parts do not go together.
async fn answers_that_do_not_fit(c: Cluster) {
    let speak = |request: &Value| {
        let said = request["object"]["data"]["say"].as_str().unwrap_or_default();
        Said::Response(serde_json::from_str(said).unwrap_or_default())
    };
    let patch = "\"W3sib3AiOiAiYWRkIiwgInBhdGgiOiAiL2RhdGEveCIsICJ2YWx1ZSI6ICJ5In1d\"";
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], speak).await;
    let invalid = "received invalid webhook response: ";
    for (say, why) in [
        (
            json!({"allowed": true, "uid": "other"}).to_string(),
            format!("{invalid}expected response.uid="),
        ),
        (
            format!("{{\"allowed\": true, \"patch\": {patch}}}"),
            format!("{invalid}webhook returned response.patch but not response.patchType"),
        ),
        (
            json!({"allowed": true, "patchType": "JSONPatch"}).to_string(),
            format!("{invalid}webhook returned response.patchType but not response.patch"),
        ),
        (
            format!("{{\"allowed\": true, \"patch\": {patch}, \"patchType\": \"\"}}"),
            format!("{invalid}webhook returned invalid response.patchType of \"\""),
        ),
        (
            format!("{{\"allowed\": true, \"patch\": {patch}, \"patchType\": \"MergePatch\"}}"),
            "unsupported patch type \"MergePatch\"".to_owned(),
        ),
        (
            json!({"allowed": true, "patch": "???", "patchType": "JSONPatch"}).to_string(),
            "failed to call webhook: ".to_owned(),
        ),
    ] {
        let object = with(config_map("a"), json!({"data": {"say": say}}));
        failed(&c, &c.api().post(&core(&ns, "configmaps"), object).await, &why);
    }
    let (ns, _webhook) = hooked(&c, "Validating", &["configmaps"], speak).await;
    for (say, why) in [
        (
            format!("{{\"allowed\": true, \"patch\": {patch}, \"patchType\": \"JSONPatch\"}}"),
            "validating webhook may not return response.patch",
        ),
        (
            json!({"allowed": true, "patchType": "JSONPatch"}).to_string(),
            "validating webhook may not return response.patchType",
        ),
    ] {
        let object = with(config_map("a"), json!({"data": {"say": say}}));
        failed(
            &c,
            &c.api().post(&core(&ns, "configmaps"), object).await,
            &format!("{invalid}{why}"),
        );
    }
}

async fn a_patch_that_is_none(c: Cluster) {
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], |_| {
        Said::Response(json!({"allowed": true, "patch": "e30=", "patchType": "JSONPatch"}))
    })
    .await;
    let reply = c.api().post(&core(&ns, "configmaps"), config_map("a")).await;
    failed(&c, &reply, "received undecodable patch in webhook response: ");
}

async fn a_failure_that_is_ignored(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let ns = c.namespace().await;
        let webhook = Webhook::start(|path, _| match path.split('?').next() {
            Some("/hangs") => Said::Nothing,
            Some("/closes") => Said::Close,
            Some("/fails") => Said::Raw(500, String::new()),
            _ => Said::Response(json!({"allowed": true, "uid": "wrong"})),
        })
        .await;
        let hooks = ["hangs", "closes", "fails", "lies"].map(|name| {
            let mut hook = webhook.hook(
                &format!("{name}.example.com"),
                &format!("/{name}"),
                &["configmaps"],
            );
            hook["failurePolicy"] = "Ignore".into();
            hook["timeoutSeconds"] = 1.into();
            hook
        });
        webhook.install(&c, &ns, kind, &ns, hooks.to_vec()).await;
        c.api()
            .post(&core(&ns, "configmaps"), config_map("a"))
            .await
            .expect(201);
        assert!(webhook.requests().len() >= 4, "{kind}");
    }
}

/// A refusal is no failure, and a patch that cannot be applied is not the caller's to ignore.
async fn what_is_ignored_is_not_believed(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, request| {
        if request["name"] == "refused" {
            coxswain_tests::webhook::deny(&json!({"message": "no"}))
        } else {
            coxswain_tests::webhook::change(&json!([{"op": "remove", "path": "/nowhere"}]))
        }
    })
    .await;
    let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
    hook["failurePolicy"] = "Ignore".into();
    webhook.install(&c, &ns, "Mutating", &ns, vec![hook]).await;
    let path = core(&ns, "configmaps");
    assert_eq!(c.api().post(&path, config_map("refused")).await.status, 400);
    c.api()
        .post(&path, config_map("broken"))
        .await
        .expect_error(500, "InternalError");
}

/// While somebody waits for a webhook, nobody else does: not for the same object, and not for the server.
async fn others_do_not_wait(c: Cluster) {
    let speak = |_: &str, request: &Value| {
        if request["object"]["data"]["k"] == "slow" {
            Said::Nothing
        } else {
            allow()
        }
    };
    let (ns, webhook) = changed(&c, speak, |hook| hook["timeoutSeconds"] = 10.into()).await;
    let all = core(&ns, "configmaps");
    c.api().post(&all, config_map("a")).await.expect(201);
    let path = format!("{all}/a");
    let slow = with(config_map("a"), json!({"data": {"k": "slow"}}));
    let answered = AtomicBool::new(false);
    let waiting = async {
        let reply = c.api().put(&path, slow).await;
        answered.store(true, Ordering::Relaxed);
        reply
    };
    let meanwhile = async {
        time::eventually(time::ANSWER, async || {
            let asked = webhook.asked();
            asked
                .iter()
                .any(|asked| asked.request()["object"]["data"]["k"] == "slow")
                .then_some(())
        })
        .await;
        let quick = with(config_map("a"), json!({"data": {"k": "quick"}}));
        c.api().put(&path, quick).await.expect(200);
        c.api().get(&path).await.expect(200);
        assert!(!answered.load(Ordering::Relaxed), "both waited for the webhook");
    };
    let (reply, ()) = futures_util::future::join(waiting, meanwhile).await;
    failed(&c, &reply, "failed to call webhook: ");
    assert_eq!(
        c.api().get(&path).await.expect(200)["data"],
        json!({"k": "quick"})
    );
}
