//! Admission reviews: a decision, or a status that leaves it to the failure policy. A patch applies to the object.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use coxswain_harness::draw::Draw;
use serde_json::{Value, json};

use super::reviews::{decided, post};
use crate::sandbox::corpus;
use crate::{Input, Target, mutate};

pub const TARGET: Target = Target {
    name: "https::admission",
    inputs: 120,
    draw,
    check,
};

fn draw(draw: &mut Draw) -> Input {
    let (resource, path) = *draw.one(&[
        ("appservices", "appcontroller-k8s-io-v1alpha1-appservice"),
        ("deployments", "apps-v1-deployment"),
    ]);
    let verb = *draw.one(&["validate", "mutate"]);
    let object = corpus::object(resource);
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or_default();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7f0b2891", "operation": *draw.one(&["CREATE", "UPDATE", "DELETE", "CONNECT"]),
            "kind": {"group": group, "version": version, "kind": object["kind"]},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": "web", "namespace": "default", "subResource": "", "dryRun": false,
            "userInfo": {"username": "me", "uid": "8", "groups": ["a"], "extra": {"scopes": ["b"]}},
            "object": object, "oldObject": object, "options": {"kind": "UpdateOptions"},
        },
    });
    let path = format!("/{verb}-{path}");
    let path = if draw.once_in(50) {
        mutate::text(draw, &path)
    } else {
        path
    };
    vec![path.into_bytes(), mutate::json::json(draw, &review)]
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let answer = post(&input[0], &input[1])?;
    let Some(response) = decided(answer, &input[1], "AdmissionReview")? else {
        return Ok(());
    };
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
    let patch: json_patch::Patch =
        serde_json::from_slice(&patch).map_err(|error| format!("malformed patch: {error}"))?;
    let mut object =
        serde_json::from_slice::<Value>(&input[1]).unwrap_or_default()["request"]["object"].clone();
    json_patch::patch_unsafe(&mut object, &patch)
        .map_err(|error| format!("patch does not apply: {error}, {patch}"))
}
