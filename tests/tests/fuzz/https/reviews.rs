//! Admission and conversion reviews for the hooks of the product, typed hooks, and a conversion. The server decides, or leaves it to
//! the failure policy by a status that is not 500. A patch applies to the object, and a conversion keeps the metadata.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use steersman_controllers::appservice;
use steersman_harness::draw::Draw;
use steersman_manager::health::Checks;
use steersman_manager::object::Resource;
use steersman_manager::serve::CertificateMetrics;
use steersman_manager::webhook::{
    self, AdmissionRequest, CONVERSION_PATH, Certificates, ConversionError, Hooks, Source,
};

use super::{Server, response};
use crate::sandbox::corpus;
use crate::{AllocatedMax, Input, Target, mutate};

pub const TARGET: Target = Target {
    name: "https::reviews",
    inputs: 150,
    // Most of it is allocated by the converter and the comparison of this target, which decode objects to trees. For the
    // product see `review_memory`.
    allocated_max: AllocatedMax {
        base: 1 << 20,
        per_byte: 1 << 10,
    },
    draw,
    check,
};

const BOATS: Resource = Resource::namespaced("harbour.example", "v1", "boats", "Boat");

thread_local! {
    static SERVER: Server = Server::start(async |env, registry, folder| {
        let metrics = CertificateMetrics::register(registry).expect("metrics");
        let certificates = Certificates::new(Source::Folder(folder), &metrics, &Checks::new());
        let certificates = certificates.expect("a certificate");
        let local = "127.0.0.1:0".parse().expect("an address");
        let server = webhook::Server::bind(local, certificates, registry).await.expect("a free port");
        let address = server.address();
        env.tasks.spawn(server.serve(env.clone(), hooks(), std::future::pending()));
        address
    });
}

fn hooks() -> Hooks {
    appservice::hooks(Hooks::new(), true)
        .with_defaulter(|deployment: &mut Deployment, _: &AdmissionRequest| {
            let spec = deployment.spec.get_or_insert_default();
            spec.min_ready_seconds = Some(spec.min_ready_seconds.unwrap_or_default().wrapping_add(1));
            let containers = spec.template.spec.get_or_insert_default().containers.iter_mut();
            containers.for_each(|it| it.image = Some("fuzz".to_owned()));
            Ok(())
        })
        .with_validator(|_: &Deployment, _: &AdmissionRequest| Ok(vec!["seen".to_owned()]))
        .converting(&BOATS, |object: &RawValue, desired: &str| {
            let mut object: Value = serde_json::from_str(object.get()).unwrap_or_default();
            let oars = object["oars"].as_u64();
            let oars = oars.ok_or_else(|| ConversionError::new("the boat has no oars"))?;
            object["apiVersion"] = json!(desired);
            object["oars"] = json!(oars / 2);
            to_raw_value(&object).map_err(|_| ConversionError::new("the boat cannot be encoded"))
        })
}

/// Returns a function that sends a review on a connection of its own, and returns the response.
pub fn post(path: &str, body: &[u8]) -> impl FnOnce() -> Result<Vec<u8>, String> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let request = [head.as_bytes(), body].concat();
    move || SERVER.with(|server| server.exchange(&request))
}

/// Draws a path and a review.
fn draw(draw: &mut Draw) -> Input {
    // The start of the server is not the work of an input.
    SERVER.with(|_| ());
    let hooks = [
        ("appservices", "appcontroller-k8s-io-v1alpha1-appservice"),
        ("deployments", "apps-v1-deployment"),
    ];
    let (resource, name) = *draw.one(&hooks);
    let (path, review) = if draw.once_in(4) {
        (CONVERSION_PATH.to_owned(), conversion())
    } else {
        let verb = *draw.one(&["validate", "mutate"]);
        let operation = *draw.one(&["CREATE", "UPDATE", "DELETE", "CONNECT"]);
        (format!("/{verb}-{name}"), admission(resource, operation))
    };
    let path = if draw.once_in(50) {
        mutate::text(draw, &path)
    } else {
        path
    };
    vec![path.into_bytes(), mutate::json::json(draw, &review)]
}

fn admission(resource: &str, operation: &str) -> Value {
    let object = corpus::object(resource);
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or_default();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7f0b2891", "operation": operation, "name": "web", "namespace": "default", "subResource": "",
            "kind": {"group": group, "version": version, "kind": object["kind"]}, "dryRun": false,
            "resource": {"group": group, "version": version, "resource": resource},
            "userInfo": {"username": "me", "uid": "8", "groups": ["a"], "extra": {"scopes": ["b"]}},
            "object": object, "oldObject": object, "options": {"kind": "UpdateOptions"},
        },
    })
}

fn conversion() -> Value {
    let boat = |name: &str, version: &str| {
        let metadata = json!({"name": name, "namespace": "default", "uid": "1", "labels": {"a": "b"}});
        json!({"apiVersion": format!("harbour.example/{version}"), "kind": "Boat", "oars": 8, "metadata": metadata})
    };
    let objects = [boat("a", "v1"), boat("b", "v2"), boat("c", "v1")];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "7f0b2891", "desiredAPIVersion": "harbour.example/v2", "objects": objects},
    })
}

/// The request as far as it is compared: fields that a decoder skips may be nested deeper than a value.
#[derive(Deserialize)]
struct Sent {
    request: SentRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentRequest {
    uid: String,
    object: Option<Box<RawValue>>,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(rename = "desiredAPIVersion", default)]
    desired: String,
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let (path, body) = (&input[0], &input[1]);
    let path: String = path
        .iter()
        .filter(|it| it.is_ascii_graphic())
        .map(|it| char::from(*it))
        .collect();
    let answer = post(&path, body)()?;
    let Some(answer) = response(&answer)?.filter(|it| it.code == 200) else {
        return Ok(());
    };
    let review: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let decided = &review["response"];
    let sent = serde_json::from_slice::<Sent>(body).ok().map(|it| it.request);
    if sent.is_none() && serde_json::from_slice::<Value>(body).is_err() {
        // Objects that are nested deeper than a value cannot be compared.
        return Ok(());
    }
    match sent {
        Some(sent) if decided["uid"] == sent.uid && !sent.uid.is_empty() => match review["kind"].as_str() {
            Some("AdmissionReview") => check_decision(decided, &sent),
            _ => check_conversion(decided, &sent),
        },
        _ => Err(format!("malformed review: {review}")),
    }
}

fn check_decision(response: &Value, sent: &SentRequest) -> Result<(), String> {
    let Some(patch) = response["patch"].as_str() else {
        let is_explained = response["allowed"] == true || response["status"]["message"].is_string();
        return if is_explained {
            Ok(())
        } else {
            Err(format!("denial without a message: {response}"))
        };
    };
    let patch = BASE64_STANDARD
        .decode(patch)
        .map_err(|error| format!("malformed patch: {error}"))?;
    let patch = serde_json::from_slice::<json_patch::Patch>(&patch);
    let patch = patch.map_err(|error| format!("malformed patch: {error}"))?;
    let object = sent.object.as_ref().map_or("null", |it| it.get());
    let mut object = serde_json::from_str(object).unwrap_or_default();
    json_patch::patch_unsafe(&mut object, &patch)
        .map_err(|error| format!("patch does not apply: {error}, {patch}"))
}

fn check_conversion(response: &Value, sent: &SentRequest) -> Result<(), String> {
    let converted = response["convertedObjects"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_same = |(sent_object, converted): (&Value, &Value)| {
        sent_object["metadata"] == converted["metadata"] && converted["apiVersion"] == sent.desired
    };
    let holds = match response["result"]["status"].as_str() {
        Some("Success") => {
            sent.objects.len() == converted.len() && sent.objects.iter().zip(converted).all(is_same)
        }
        Some("Failure") => converted.is_empty() && response["result"]["message"].is_string(),
        _ => false,
    };
    if holds {
        Ok(())
    } else {
        Err(format!("malformed conversion: {response}"))
    }
}
