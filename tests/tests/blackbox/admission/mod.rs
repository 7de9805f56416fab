//! Admission webhooks: who is asked about a write, what they are told, and what their answers do.
//!
//! Every configuration here is limited to the namespace of its test, or by labels, so that tests do not meet.

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

/// What is registered of this surface.
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

/// A namespace with one webhook of a kind (`Mutating` or `Validating`) that is asked about all that is done to `resources`
/// in it, and says what `speak` says.
async fn hooked(
    c: &Cluster,
    kind: &str,
    resources: &[&str],
    speak: impl Fn(&Value) -> Response + Send + Sync + 'static,
) -> (String, Webhook) {
    let ns = c.namespace().await;
    let webhook = Webhook::start(move |_, request| speak(request)).await;
    let hook = webhook.hook(NAME, "/", resources);
    webhook.install(c, &ns, kind, &ns, vec![hook]).await;
    (ns, webhook)
}

/// The name of the webhook of most tests.
const NAME: &str = "one.example.com";

/// Allows everything.
fn yes(_: &Value) -> Response {
    allow()
}

/// `OPERATION name` of each request, in their order.
fn lines(requests: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    requests
        .iter()
        .map(|request| format!("{} {}", text(&request["operation"]), text(&request["name"])))
        .collect()
}
