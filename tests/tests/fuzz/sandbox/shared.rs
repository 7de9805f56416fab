//! One sandbox for several inputs of a thread: a start takes longer than an input. Before each input the objects of its
//! resource are those of the corpus again, so that an input does not depend on earlier ones.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;
use steersman_sandbox::ApiService;

use super::{Call, corpus, send};
use crate::block_on;

/// The number of inputs of a sandbox.
const INPUTS: usize = 200;

thread_local! {
    static SHARED: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

struct Shared {
    service: ApiService,
    /// The objects of a new sandbox, as resource and name.
    initial: BTreeSet<(&'static str, String)>,
    inputs: usize,
}

/// Returns the service of a sandbox that has the object of the corpus of one resource, and no others but the initial ones.
pub fn service(resource: &'static str) -> ApiService {
    let shared = SHARED.take().filter(|it| it.inputs < INPUTS);
    let reset = shared.filter(|it| block_on(reset(it, resource)).is_ok());
    let mut shared = reset.unwrap_or_else(|| {
        let shared = block_on(start());
        block_on(self::reset(&shared, resource)).expect("the object of the corpus");
        shared
    });
    shared.inputs += 1;
    let service = shared.service.clone();
    SHARED.set(Some(shared));
    service
}

async fn start() -> Shared {
    let service = corpus::builder().start().expect("a sandbox").service();
    let mut initial = BTreeSet::new();
    for resource in corpus::resources() {
        let list = call(&service, "GET", &corpus::path(resource), "")
            .await
            .expect("a list");
        initial.extend(items(&list).map(|item| (resource, name(item))));
    }
    Shared {
        service,
        initial,
        inputs: 0,
    }
}

/// Deletes the objects of a resource that are not initial, and creates that of the corpus. Fails if an initial definition was
/// changed.
async fn reset(shared: &Shared, resource: &'static str) -> Result<(), String> {
    let Shared { service, initial, .. } = shared;
    let collection = corpus::path(resource);
    let list = call(service, "GET", &collection, "").await?;
    for item in items(&list) {
        if initial.contains(&(resource, name(item))) {
            if resource == corpus::CRDS && item["metadata"]["generation"] != 1 {
                return Err("a definition was changed".to_owned());
            }
            continue;
        }
        let path = format!("{collection}/{}", name(item));
        if item["metadata"]["finalizers"].is_array() {
            call(service, "PATCH", &path, r#"{"metadata":{"finalizers":null}}"#).await?;
        }
        // A terminating object is deleted already without its finalizers.
        let _ = call(
            service,
            "DELETE",
            &path,
            r#"{"gracePeriodSeconds":0,"propagationPolicy":"Background"}"#,
        )
        .await;
    }
    // The definition is initial, and a webhook would be called.
    if resource != corpus::CRDS && !resource.ends_with("webhookconfigurations") {
        call(
            service,
            "POST",
            &collection,
            &corpus::object(resource).to_string(),
        )
        .await?;
    }
    Ok(())
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn call(service: &ApiService, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let content_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let call = Call::new(method, path).body(content_type, body);
    let answer = send(service, call).await?.ok_or("invalid request")?;
    if answer.code < 300 {
        Ok(answer.value)
    } else {
        Err(answer.value.to_string())
    }
}
