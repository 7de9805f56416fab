//! Admission webhooks: certificates, sockets, timeouts and concurrent writes. Scenarios cover the rest.

mod failures;
mod races;

use serde_json::Value;
use steersman_harness::webhook::{Response, Webhook};
use steersman_harness::{Cluster, Test};

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [failures::tests(), races::tests()].concat()
}

/// Creates a namespace with one webhook of a kind (`Mutating` or `Validating`) that matches all operations on `resources`.
async fn hooked(
    c: &Cluster,
    kind: &str,
    resources: &[&str],
    respond: impl Fn(&Value) -> Response + Send + Sync + 'static,
) -> (String, Webhook) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(move |_, request| respond(request)).await;
    let hook = webhook.hook(NAME, "/", resources);
    webhook.install(c, &ns, kind, &ns, vec![hook]).await;
    (ns, webhook)
}

/// The name of the webhook of most tests.
const NAME: &str = "one.example.com";
