//! Conversion reviews: all objects are converted, in order, or the result is a failure.

use coxswain_harness::draw::Draw;
use coxswain_manager::webhook::CONVERSION_PATH;
use serde_json::{Value, json};

use super::reviews::{decided, post};
use crate::{Input, Target, mutate};

pub const TARGET: Target = Target {
    name: "https::conversion",
    inputs: 60,
    draw,
    check,
};

fn draw(draw: &mut Draw) -> Input {
    let boat = |name: &str, version: &str| {
        json!({
            "apiVersion": format!("harbour.example/{version}"), "kind": "Boat", "oars": 8,
            "metadata": {"name": name, "namespace": "default", "uid": "1", "labels": {"a": "b"}},
        })
    };
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {
            "uid": "7f0b2891", "desiredAPIVersion": "harbour.example/v2",
            "objects": [boat("a", "v1"), boat("b", "v2"), boat("c", "v1")],
        },
    });
    vec![mutate::json::json(draw, &review)]
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let answer = post(CONVERSION_PATH.as_bytes(), &input[0])?;
    let Some(response) = decided(answer, &input[0], "ConversionReview")? else {
        return Ok(());
    };
    let request: Value = serde_json::from_slice(&input[0]).unwrap_or_default();
    let sent = request["request"]["objects"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let converted = response["convertedObjects"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let is_same = |(sent, converted): (&Value, &Value)| {
        sent["metadata"] == converted["metadata"]
            && converted["apiVersion"] == request["request"]["desiredAPIVersion"]
    };
    let holds = match response["result"]["status"].as_str() {
        Some("Success") => sent.len() == converted.len() && sent.iter().zip(converted).all(is_same),
        Some("Failure") => converted.is_empty() && response["result"]["message"].is_string(),
        _ => false,
    };
    if holds {
        Ok(())
    } else {
        Err(format!("malformed conversion: {response}"))
    }
}
