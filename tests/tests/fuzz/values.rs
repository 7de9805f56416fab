//! Small values: resourceVersions, uids, metadata, quantities and label selectors. Selectors and quantities are compared with the
//! sandbox, which has its own implementation.

use std::sync::LazyLock;

use serde_json::{Value, json};
use steersman_controllers::support::{pod::Pod, pod_template, quantity};
use steersman_harness::draw::Draw;
use steersman_manager::object::{MetaObject, StringMap, Uid, Version};
use steersman_manager::selector::{LabelSelector, Selector};
use steersman_sandbox::{ApiService, Sandbox};

use crate::sandbox::{Call, corpus, send};
use crate::{AllocatedMax, Input, Target, block_on, mutate};

pub const TARGET: Target = Target {
    name: "values::values",
    inputs: 300,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    corpus::builder()
        .objects(corpus::stream(&["configmaps"]))
        .start()
        .expect("a sandbox")
});

/// Draws a text, a selector with labels, and an object.
fn draw(draw: &mut Draw) -> Input {
    let texts = [
        "123",
        "11111111-1111-1111-1111-111111111111",
        "1.5Gi",
        "100m",
        "12e6",
        "0.5",
    ];
    let text = *draw.one(&texts);
    let selector = json!({
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": *draw.one(&["app", "tier", "x.io/y"]), "operator": *draw.one(&["In", "NotIn"]), "values": ["web", "b"]},
                {"key": "tier", "operator": *draw.one(&["Exists", "DoesNotExist"])},
            ],
        },
        "labels": {"app": "web", "x.io/y": "b"},
    });
    let object = corpus::object(draw.one::<&str>(&["pods", "deployments"]));
    vec![
        mutate::bytes(draw, text.as_bytes()),
        mutate::json::json(draw, &selector),
        mutate::json::json(draw, &object),
    ]
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let text = String::from_utf8_lossy(&input[0]);
    let (version, uid) = (Version::from(&*text), Uid::from(&*text));
    if version.to_string() != text || uid.to_string() != text {
        return Err(format!("text changes: {version} {uid}"));
    }
    let five = Version::from("5");
    if version.partial_cmp(&five).map(std::cmp::Ordering::reverse) != five.partial_cmp(&version) {
        return Err("order is not symmetric".to_owned());
    }
    let object = String::from_utf8_lossy(&input[2]);
    let _ = (
        serde_json::from_str::<MetaObject>(&object),
        serde_json::from_str::<Pod>(&object),
    );
    let (from, to) = (pod_template::normalized("{}"), pod_template::normalized(&object));
    if !pod_template::is_unchanged(&to, &to, None) {
        return Err("template differs from itself".to_owned());
    }
    let _ = (
        pod_template::difference(&from, &to),
        pod_template::Canonical::of(&object),
    );
    let service = SANDBOX.service();
    block_on(async {
        check_quantity(&service, &text).await?;
        match serde_json::from_slice::<Value>(&input[1]) {
            Ok(value) => check_selector(&service, &value).await,
            Err(_) => Ok(()),
        }
    })
}

/// The canonical form of a quantity has the same value.
async fn check_quantity(service: &ApiService, text: &str) -> Result<(), String> {
    let mut quota = corpus::object("resourcequotas");
    quota["spec"] = json!({"hard": {"requests.example.com/a": text, "limits.memory": text}});
    let path = corpus::path("resourcequotas");
    let quota = quota.to_string();
    let call = Call::new("POST", &path)
        .query("dryRun=All")
        .body("application/json", &quota);
    let answer = send(service, call).await?.filter(|it| it.code == 201);
    let Some(value) = quantity::billionths(text).zip(answer) else {
        return Ok(());
    };
    let canonical = value.1.value["spec"]["hard"]["limits.memory"]
        .as_str()
        .unwrap_or_default();
    // Resource lists are rounded up to thousandths.
    let rounded = quantity::billionths(canonical);
    let difference = rounded.map(|rounded| (rounded - value.0).abs());
    if difference.is_none_or(|it| it >= 1_000_000) && value.0.abs() < 1 << 90 {
        return Err(format!("quantities differ: {text} {canonical}"));
    }
    Ok(())
}

/// The selector matches the labels exactly if the sandbox lists the object by the text of the selector.
async fn check_selector(service: &ApiService, value: &Value) -> Result<(), String> {
    let selector = serde_json::from_value::<LabelSelector>(value["selector"].clone());
    let labels = serde_json::from_value::<StringMap>(value["labels"].clone());
    let (Ok(selector), Ok(labels)) = (selector, labels) else {
        return Ok(());
    };
    let Ok(valid) = Selector::new(&selector) else {
        return Ok(());
    };
    let text = valid.to_string();
    let values = selector.match_expressions.iter().flat_map(|it| it.values.iter());
    let values = values.chain(selector.match_labels.iter().map(|(_, value)| value));
    let keys = selector.match_expressions.iter().map(|it| &it.key);
    let keys = keys.chain(selector.match_labels.iter().map(|(key, _)| key));
    // The text of a selector with other values is not defined.
    if !values.into_iter().all(|it| is_label(it))
        || !keys.into_iter().all(|it| *it == "x.io/y" || is_label(it))
    {
        return Ok(());
    }
    let path = format!("{}/web", corpus::path("configmaps"));
    let operations = json!([{"op": "add", "path": "/metadata/labels", "value": value["labels"]}]).to_string();
    let call = Call::new("PATCH", &path).body("application/json-patch+json", &operations);
    if send(service, call).await?.is_none_or(|it| it.code != 200) {
        return Ok(());
    }
    let query = format!(
        "fieldSelector=metadata.name%3Dweb&labelSelector={}",
        text.replace('=', "%3D")
    );
    let path = corpus::path("configmaps");
    let call = Call::new("GET", &path).query(&query);
    let Some(list) = send(service, call).await? else {
        return Ok(());
    };
    let listed = list.value["items"].as_array().map(|items| !items.is_empty());
    if listed != Some(valid.matches(&labels)) {
        return Err(format!(
            "selectors differ: {text:?} and {labels:?}, listed {listed:?} {}",
            list.value["message"]
        ));
    }
    Ok(())
}

/// Whether a text is a valid label value, and as a key a valid name.
fn is_label(text: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 60
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
