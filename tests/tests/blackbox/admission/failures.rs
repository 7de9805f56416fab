//! Webhook calls that depend on certificates, sockets and time.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, join, select};
use http::Method;
use serde_json::{Value, json};
use steersman_harness::fixtures::{config_map, core, with};
use steersman_harness::webhook::{Response, Webhook, allow, configuration, configurations, deny};
use steersman_harness::{Api, Cluster, Need, Reply, Test, test, time};
use steersman_sandbox::Sandbox;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::NAME;

/// Maximum number of bytes that the sandbox reads of an answer.
const ANSWER_MAX: usize = 8 * 1024 * 1024;

pub fn tests() -> Vec<Test> {
    vec![
        test!(certificate_for_another_name_fails_the_write),
        test!(only_the_self_signed_certificate_in_the_bundle_is_trusted),
        test!(server_without_tls_fails_the_write),
        test!(webhook_timeout_fails_the_write),
        test!(request_timeout_takes_precedence_over_failure_policy).since(1, 30),
        test!(endless_and_oversized_answers_fail_the_write).needs(Need::Sandbox),
        test!(slow_webhook_does_not_block_other_requests),
        test!(service_client_config_uses_configured_address).needs(Need::Sandbox),
    ]
}

/// Asserts that the call of the webhook failed, with a message that continues with `why`.
#[track_caller]
fn failed(c: &Cluster, reply: &Reply, why: &str) {
    reply.expect_error(500, "InternalError");
    // Older servers do not name the failed operation.
    let why = if c.version() >= (1, 36) { why } else { "" };
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

async fn certificate_for_another_name_fails_the_write(c: Cluster) {
    let other = Webhook::start_as(&["example.com"], |_, _| allow()).await;
    let (ns, _webhook) = with_client(&c, other.client("/")).await;
    let reply = create(&c, &ns).await;
    failed(&c, &reply, "failed to call webhook: Post ");
    reply.check(
        reply.message().contains("x509: "),
        "expected an invalid certificate",
    );
    assert_eq!(other.requests(), Vec::<Value>::new());
}

async fn only_the_self_signed_certificate_in_the_bundle_is_trusted(c: Cluster) {
    let own = Webhook::start_self_signed(|_, _| allow()).await;
    let (ns, _webhook) = with_client(&c, own.client("/")).await;
    create(&c, &ns).await.expect(201);
    assert_eq!(own.requests().len(), 1);
    // The bundle holds another certificate with the same name.
    let recreated = Webhook::start_self_signed(|_, _| allow()).await;
    let client = with(own.client("/"), json!({"url": recreated.url()}));
    let (ns, _webhook) = with_client(&c, client).await;
    failed(&c, &create(&c, &ns).await, "failed to call webhook: Post ");
    assert_eq!(recreated.requests(), Vec::<Value>::new());
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
            Ok(reply) if c.is_sandbox() => drop(reply.expect_error(504, "Timeout")),
            Ok(reply) => assert_eq!(reply.status, 504),
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
        let is_slow =
            |call: &steersman_harness::webhook::Call| call.request()["object"]["data"]["k"] == "slow";
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

/// The certificate must be for the DNS name of the Service.
async fn service_client_config_uses_configured_address(_: Cluster) {
    let webhook = Webhook::start_as(&["hooks.default.svc"], |_, _| deny(&json!({"message": "called"}))).await;
    let services = [("default/hooks:443".to_owned(), webhook.address)];
    let sandbox = Sandbox::builder().services(services).start().expect("a sandbox");
    let api = Api::new(kube::Client::new(sandbox.service(), "default"));
    let configurations = configurations("Validating");
    let configure = async |name: &str, port: Value| {
        let service = json!({"namespace": "default", "name": "hooks", "path": "/p", "port": port});
        let client = with(webhook.client("/"), json!({"url": null, "service": service}));
        let mut hook = webhook.hook(NAME, "/", &["configmaps"]);
        hook["clientConfig"] = client;
        api.post(&configurations, configuration("Validating", name, &[hook]))
            .await
            .expect(201);
    };
    let path = core("default", "configmaps");
    configure("a", Value::Null).await;
    let denied = api.post(&path, config_map("a")).await;
    denied.check(
        denied.message().ends_with("denied the request: called"),
        "expected a denial",
    );
    assert_eq!(webhook.calls()[0].path, "/p?timeout=10s");
    // No address is configured for the other port.
    api.delete(&format!("{configurations}/a"), ()).await.expect(200);
    configure("b", json!(8443)).await;
    let reply = api.post(&path, config_map("a")).await;
    reply.expect_error(500, "InternalError");
    let why = "no address is known for this service; name one with --service default/hooks:8443=ADDRESS";
    reply.check(reply.message().ends_with(why), why);
}
