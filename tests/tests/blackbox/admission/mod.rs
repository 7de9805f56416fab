//! Admission webhooks: matching, reviews, and the effect of their responses.
//!
//! Each configuration selects the namespace of its test, or objects by label, so that tests do not affect each other.

mod configurations;
mod failures;
mod kinds;
mod matching;
mod mutating;
mod races;
mod refusals;
mod reviews;

use coxswain_tests::webhook::{Response, Webhook, allow};
use coxswain_tests::{Cluster, Test};
use serde_json::Value;

/// The tests of this folder.
pub fn tests() -> Vec<Test> {
    [
        configurations::tests(),
        failures::tests(),
        kinds::tests(),
        matching::tests(),
        mutating::tests(),
        races::tests(),
        refusals::tests(),
        reviews::tests(),
    ]
    .concat()
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

/// Allows every request.
fn yes(_: &Value) -> Response {
    allow()
}

/// `OPERATION name` of each request, in order.
fn lines(requests: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    requests
        .iter()
        .map(|request| format!("{} {}", text(&request["operation"]), text(&request["name"])))
        .collect()
}
