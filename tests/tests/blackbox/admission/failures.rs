//! Webhook calls that fail: the write fails or proceeds by the failure policy, and other requests are not delayed.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use coxswain_tests::fixtures::{config_map, core, with};
use coxswain_tests::webhook::{Response, Webhook, allow, change, deny};
use coxswain_tests::{Cluster, Need, Reply, Test, test, time};
use futures_util::future::{Either, join, select};
use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::{NAME, hooked};
use crate::expect::is_1_36;

/// Maximum number of bytes that the sandbox reads of an answer.
const ANSWER_MAX: usize = 8 * 1024 * 1024;

pub fn tests() -> Vec<Test> {
    vec![
        test!(refused_connection_fails_the_write),
        test!(untrusted_certificates_fail_the_write),
        test!(self_signed_certificate_in_the_bundle_is_trusted),
        test!(invalid_ca_bundle_fails_the_write),
        test!(server_without_tls_fails_the_write),
        test!(webhook_timeout_fails_the_write),
        test!(request_timeout_takes_precedence_over_failure_policy).since(1, 30),
        test!(endless_and_oversized_answers_fail_the_write).needs(Need::Sandbox),
        test!(closed_connection_fails_the_write),
        test!(http_errors_fail_the_write),
        test!(malformed_reviews_fail_the_write),
        test!(inconsistent_responses_fail_the_write),
        test!(undecodable_patch_fails_the_write).since(1, 22),
        test!(failure_policy_ignore_allows_the_write),
        test!(failure_policy_ignore_does_not_cover_denials_and_patches),
        test!(slow_webhook_does_not_block_other_requests),
    ]
}

/// Asserts that the call of the webhook failed, with a message that continues with `why`.
#[track_caller]
fn failed(c: &Cluster, reply: &Reply, why: &str) {
    reply.expect_error(500, "InternalError");
    // Older servers do not name the failed operation.
    let why = if is_1_36(c) { why } else { "" };
    let start = format!("Internal error occurred: failed calling webhook {NAME:?}: {why}");
    reply.check(reply.message().starts_with(&start), &format!("expected {start}"));
    let cause = reply.json()["details"]["causes"][0]["message"].clone();
    let message = reply.message();
    let shown = message.trim_start_matches("Internal error occurred: ");
    reply.check(cause == shown, "expected the message as a cause");
}

async fn create(c: &Cluster, ns: &str) -> Reply {
    c.api().post(&core(ns, "configmaps"), config_map("a")).await
}

/// Creates a namespace with one validating webhook whose entry in the configuration is changed.
async fn changed(
    c: &Cluster,
    respond: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
    change: impl FnOnce(&mut Value),
) -> (String, Webhook) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(respond).await;
    let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
    change(&mut hook);
    webhook.install(c, &ns, "Validating", &ns, vec![hook]).await;
    (ns, webhook)
}

/// Creates a namespace with one validating webhook that allows everything, with a changed `clientConfig`.
async fn with_client(c: &Cluster, client: Value) -> (String, Webhook) {
    changed(
        c,
        |_, _| allow(),
        |hook| hook["clientConfig"] = with(hook["clientConfig"].take(), client),
    )
    .await
}

async fn refused_connection_fails_the_write(c: Cluster) {
    // No process can listen on port 1.
    let (ns, webhook) = with_client(&c, json!({"url": "https://127.0.0.1:1/x"})).await;
    let url = "\"https://127.0.0.1:1/x?timeout=10s\"";
    let why =
        format!("failed to call webhook: Post {url}: dial tcp 127.0.0.1:1: connect: connection refused");
    failed(&c, &create(&c, &ns).await, &why);
    c.expect_absent(&core(&ns, "configmaps/a")).await;
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

async fn untrusted_certificates_fail_the_write(c: Cluster) {
    let other = Webhook::start(|_, _| allow()).await;
    let other_name = Webhook::start_as(&["example.com"], |_, _| allow()).await;
    let (own, recreated) = (
        Webhook::start_self_signed(|_, _| allow()).await,
        Webhook::start_self_signed(|_, _| allow()).await,
    );
    for (webhook, client, why) in [
        (
            &other,
            json!({"caBundle": other.client("/")["caBundle"]}),
            "x509: certificate signed by unknown authority",
        ),
        (&other_name, other_name.client("/"), "x509: "),
        // The bundle holds another certificate with the same name.
        (
            &recreated,
            with(own.client("/"), json!({"url": recreated.client("/")["url"]})),
            "x509: ",
        ),
    ] {
        let (ns, default) = with_client(&c, client).await;
        let reply = create(&c, &ns).await;
        failed(&c, &reply, "failed to call webhook: Post ");
        reply.check(reply.message().contains(why), why);
        assert_eq!((webhook.requests(), default.requests()), (vec![], vec![]));
    }
}

async fn self_signed_certificate_in_the_bundle_is_trusted(c: Cluster) {
    let own = Webhook::start_self_signed(|_, _| allow()).await;
    let (ns, _webhook) = with_client(&c, own.client("/")).await;
    create(&c, &ns).await.expect(201);
    assert_eq!(own.requests().len(), 1);
}

async fn invalid_ca_bundle_fails_the_write(c: Cluster) {
    let (ns, webhook) = with_client(&c, json!({"caBundle": "bm90IGEgY2VydGlmaWNhdGU="})).await;
    let why =
        "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block";
    failed(&c, &create(&c, &ns).await, why);
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

async fn listener() -> (TcpListener, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("a bound port"));
    (listener, json!({"url": url}))
}

async fn server_without_tls_fails_the_write(c: Cluster) {
    let (listener, client) = listener().await;
    let (ns, _webhook) = with_client(&c, client).await;
    let serve = async {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    };
    let (reply, ()) = join(create(&c, &ns), serve).await;
    failed(&c, &reply, "failed to call webhook: Post ");
}

/// Sends the same request to two namespaces. The reply of the first, whose webhook times out after one second, must arrive
/// before that of the second, whose webhook times out after 30.
async fn webhook_timeout_fails_the_write(c: Cluster) {
    // A listener that never accepts ends neither the handshake nor the call.
    let (_listener, client) = listener().await;
    for client in [json!({}), client] {
        let change = |seconds: u32| {
            let change = json!({"timeoutSeconds": seconds, "clientConfig": client});
            move |hook: &mut Value| *hook = with(hook.take(), change)
        };
        let (first, _one) = changed(&c, |_, _| Response::Never, change(1)).await;
        let (second, _other) = changed(&c, |_, _| Response::Never, change(30)).await;
        let start = time::now();
        let reply = match select(pin!(create(&c, &first)), pin!(create(&c, &second))).await {
            Either::Left((reply, _)) => reply,
            Either::Right((reply, _)) => panic!("a timeout of 30 s ended before one of 1 s: {reply}"),
        };
        println!(
            "reply after a webhook timeout of one second: {:?}",
            start.elapsed()
        );
        failed(&c, &reply, "failed to call webhook: Post ");
        let deadline = reply
            .message()
            .contains("?timeout=1s\": context deadline exceeded");
        reply.check(deadline || client["url"].is_string(), "expected a deadline");
        c.expect_absent(&core(&first, "configmaps/a")).await;
    }
}

/// The timeout of the request covers all webhooks. Without it, the failure policy would let the write proceed.
async fn request_timeout_takes_precedence_over_failure_policy(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let ns = c.namespace().await;
        let webhook = Webhook::start(|_, _| Response::Never).await;
        let hook = with(
            webhook.hook(NAME, "/", &["configmaps"]),
            json!({"failurePolicy": "Ignore"}),
        );
        webhook.install(&c, &ns, kind, &ns, vec![hook]).await;
        let path = core(&ns, "configmaps?timeout=2s");
        let start = time::now();
        match c
            .api()
            .try_request(Method::POST, &path, &[], config_map("a"))
            .await
        {
            Ok(reply) => {
                reply.expect_error(504, "Timeout");
            }
            // The real server can close the connection when both timeouts end at the same moment.
            Err(error) => assert!(!c.is_sandbox(), "no answer: {error}"),
        }
        println!(
            "reply to a request with a timeout of two seconds: {:?}",
            start.elapsed()
        );
        c.expect_absent(&core(&ns, "configmaps/a")).await;
    }
}

async fn endless_and_oversized_answers_fail_the_write(c: Cluster) {
    let respond = |_: &str, request: &Value| {
        let response = json!({"uid": request["uid"], "allowed": true});
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let mut text = review.to_string();
        let size = match request["name"].as_str() {
            Some("endless") => return Response::Endless,
            Some("oversized") => ANSWER_MAX + 1,
            _ => ANSWER_MAX,
        };
        text.push_str(&" ".repeat(size - text.len()));
        Response::Raw(200, text)
    };
    let (ns, _webhook) = changed(&c, respond, |hook| hook["timeoutSeconds"] = 30.into()).await;
    let path = core(&ns, "configmaps");
    for name in ["endless", "oversized"] {
        let why = format!("failed to call webhook: the answer is longer than {ANSWER_MAX} bytes");
        failed(&c, &c.api().post(&path, config_map(name)).await, &why);
    }
    c.create(&path, config_map("large")).await;
}

async fn closed_connection_fails_the_write(c: Cluster) {
    let (ns, _webhook) = changed(&c, |_, _| Response::Close, |_| ()).await;
    let reply = create(&c, &ns).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    reply.check(reply.message().ends_with(": EOF"), "expected EOF");
}

/// Asserts the failure of a write for each answer. The webhook finds its answer in the data of the object.
async fn all_fail(c: &Cluster, ns: &str, answers: &[(&str, &str)]) {
    for (answer, why) in answers {
        let object = with(config_map("a"), json!({"data": {"answer": answer}}));
        failed(c, &c.api().post(&core(ns, "configmaps"), object).await, why);
    }
}

fn requested_answer(request: &Value) -> &str {
    request["object"]["data"]["answer"].as_str().unwrap_or_default()
}

async fn http_errors_fail_the_write(c: Cluster) {
    let respond = |_: &str, request: &Value| {
        Response::Raw(
            requested_answer(request).parse().unwrap_or(200),
            "some text".to_owned(),
        )
    };
    let (ns, _webhook) = changed(&c, respond, |_| ()).await;
    let answers = [
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
    ];
    for (code, why) in answers {
        all_fail(&c, &ns, &[(code, &format!("failed to call webhook: {why}"))]).await;
    }
}

async fn malformed_reviews_fail_the_write(c: Cluster) {
    let respond = |_: &str, request: &Value| Response::Raw(200, requested_answer(request).to_owned());
    let (ns, _webhook) = changed(&c, respond, |_| ()).await;
    let review =
        |rest: &str| format!(r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"{rest}}}"#);
    let absent = "received invalid webhook response: webhook response was absent";
    let no_uid = "received invalid webhook response: expected response.uid=";
    let answers = [
        ("", "failed to call webhook: "),
        ("[]", "failed to call webhook: "),
        ("{}", absent),
        (
            r#"{"apiVersion": "v1", "kind": "Pod"}"#,
            "failed to call webhook: no kind \"Pod\" is registered for version \"v1\"",
        ),
        (&review(""), absent),
        (&review(r#", "response": {"allowed": true}"#), no_uid),
        (
            &review(r#", "response": {"allowed": "yes"}"#),
            "failed to call webhook: ",
        ),
        (r#"{"response": {"allowed": true}}"#, no_uid),
    ];
    all_fail(&c, &ns, &answers).await;
}

async fn inconsistent_responses_fail_the_write(c: Cluster) {
    let respond = |request: &Value| {
        Response::Review(serde_json::from_str(requested_answer(request)).unwrap_or_default())
    };
    // A JSON patch that adds a key to the data.
    let patch = "W3sib3AiOiAiYWRkIiwgInBhdGgiOiAiL2RhdGEveCIsICJ2YWx1ZSI6ICJ5In1d";
    let allowed = |change: Value| with(json!({"allowed": true}), change).to_string();
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    for (kind, response, why) in [
        (
            "Mutating",
            json!({"uid": "other"}),
            invalid("expected response.uid="),
        ),
        (
            "Mutating",
            json!({"patch": patch}),
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            "Mutating",
            json!({"patchType": "JSONPatch"}),
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            "Mutating",
            json!({"patch": patch, "patchType": ""}),
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        (
            "Mutating",
            json!({"patch": patch, "patchType": "MergePatch"}),
            "unsupported patch type \"MergePatch\"".to_owned(),
        ),
        (
            "Mutating",
            json!({"patch": "???", "patchType": "JSONPatch"}),
            "failed to call webhook: ".to_owned(),
        ),
        (
            "Validating",
            json!({"patch": patch, "patchType": "JSONPatch"}),
            invalid("validating webhook may not return response.patch"),
        ),
        (
            "Validating",
            json!({"patchType": "JSONPatch"}),
            invalid("validating webhook may not return response.patchType"),
        ),
    ] {
        let (ns, _webhook) = hooked(&c, kind, &["configmaps"], respond).await;
        all_fail(&c, &ns, &[(&allowed(response), &why)]).await;
    }
}

async fn undecodable_patch_fails_the_write(c: Cluster) {
    let respond =
        |_: &Value| Response::Review(json!({"allowed": true, "patch": "e30=", "patchType": "JSONPatch"}));
    let (ns, _webhook) = hooked(&c, "Mutating", &["configmaps"], respond).await;
    failed(
        &c,
        &create(&c, &ns).await,
        "received undecodable patch in webhook response: ",
    );
}

async fn failure_policy_ignore_allows_the_write(c: Cluster) {
    for kind in ["Mutating", "Validating"] {
        let ns = c.namespace().await;
        let webhook = Webhook::start(|path, _| match path.split('?').next() {
            Some("/never") => Response::Never,
            Some("/close") => Response::Close,
            Some("/error") => Response::Raw(500, String::new()),
            _ => Response::Review(json!({"allowed": true, "uid": "wrong"})),
        })
        .await;
        let ignore = json!({"failurePolicy": "Ignore", "timeoutSeconds": 1});
        let hooks = ["never", "close", "error", "invalid"];
        let hooks = hooks.map(|name| with(webhook.path_hook(name, &["configmaps"]), ignore.clone()));
        webhook.install(&c, &ns, kind, &ns, hooks.to_vec()).await;
        create(&c, &ns).await.expect(201);
        assert!(webhook.requests().len() >= 4, "{kind}");
    }
}

async fn failure_policy_ignore_does_not_cover_denials_and_patches(c: Cluster) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(|_, request| match request["name"].as_str() {
        Some("denied") => deny(&json!({"message": "no"})),
        _ => change(&json!([{"op": "remove", "path": "/nowhere"}])),
    })
    .await;
    let hook = with(
        webhook.hook(NAME, "/", &["configmaps"]),
        json!({"failurePolicy": "Ignore"}),
    );
    webhook.install(&c, &ns, "Mutating", &ns, vec![hook]).await;
    let path = core(&ns, "configmaps");
    assert_eq!(c.api().post(&path, config_map("denied")).await.status, 400);
    let patched = c.api().post(&path, config_map("patched")).await;
    patched.expect_error(500, "InternalError");
}

/// Neither requests for the same object nor others wait for the webhook.
async fn slow_webhook_does_not_block_other_requests(c: Cluster) {
    let respond = |_: &str, request: &Value| match request["object"]["data"]["k"].as_str() {
        Some("slow") => Response::Never,
        _ => allow(),
    };
    let (ns, webhook) = changed(&c, respond, |hook| hook["timeoutSeconds"] = 10.into()).await;
    create(&c, &ns).await.expect(201);
    let path = core(&ns, "configmaps/a");
    let object = |value: &str| with(config_map("a"), json!({"data": {"k": value}}));
    let answered = AtomicBool::new(false);
    let slow = async {
        let reply = c.api().put(&path, object("slow")).await;
        answered.store(true, Ordering::Relaxed);
        reply
    };
    let quick = async {
        let is_slow = |call: &coxswain_tests::webhook::Call| call.request()["object"]["data"]["k"] == "slow";
        time::eventually(time::ANSWER, async || {
            webhook.calls().iter().any(is_slow).then_some(())
        })
        .await;
        c.replace(&path, object("quick")).await;
        c.read(&path).await;
        assert!(!answered.load(Ordering::Relaxed), "both waited for the webhook");
    };
    let (reply, ()) = join(slow, quick).await;
    failed(&c, &reply, "failed to call webhook: ");
    assert_eq!(c.read(&path).await["data"], json!({"k": "quick"}));
}
