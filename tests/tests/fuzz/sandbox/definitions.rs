//! Custom resources of changed definitions: schemas, rules, printer columns and scale paths.

use coxswain_harness::draw::Draw;
use coxswain_sandbox::ApiService;
use serde_json::{Value, json};

use super::{Answer, Call, check_rewrites, corpus, send, shared};
use crate::{Input, Target, block_on, mutate};

pub const TARGET: Target = Target {
    name: "sandbox::definitions",
    inputs: 40,
    draw,
    check,
};

const TABLE: &[u8] = b"application/json;as=Table;v=v1;g=meta.k8s.io";

/// Draws a definition and an object.
fn draw(draw: &mut Draw) -> Input {
    let mut crd = corpus::object(corpus::CRDS);
    crd["metadata"]["name"] = json!("boats.harbour.example");
    crd["spec"]["group"] = json!("harbour.example");
    crd["spec"]["names"] = json!({"plural": "boats", "kind": "Boat", "singular": "boat", "shortNames": ["bo"], "categories": ["all"]});
    let version = &mut crd["spec"]["versions"][0];
    version["additionalPrinterColumns"] = json!([
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Items", "type": "integer", "jsonPath": ".spec.items[?(@.id>0)].v", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    version["selectableFields"] = json!([{"jsonPath": ".spec.mode"}]);
    // Most changes of whole definitions are rejected: change a property or a rule only.
    let definition = match draw.below(4) {
        0 => mutate::json::json(draw, &crd),
        1 => {
            let text = crd.to_string();
            let rule = "self.low <= self.high";
            let other = mutate::text(draw, rule);
            text.replace(rule, Value::String(other).to_string().trim_matches('"'))
                .into_bytes()
        }
        _ => {
            let properties = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
            let names: Vec<String> = properties
                .as_object()
                .into_iter()
                .flat_map(|it| it.keys().cloned())
                .collect();
            let name = draw.one(&names);
            let changed = mutate::json::json(draw, &properties[name]);
            properties[name] = json!("\u{1}");
            let changed = String::from_utf8_lossy(&changed);
            crd.to_string().replace("\"\\u0001\"", &changed).into_bytes()
        }
    };
    let mut boat = corpus::object("widgets");
    boat["apiVersion"] = json!("harbour.example/v1");
    boat["kind"] = json!("Boat");
    let boat = if draw.once_in(2) {
        mutate::json::json(draw, &boat)
    } else {
        boat.to_string().into()
    };
    vec![definition, boat]
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let service = shared::service(corpus::CRDS);
    block_on(async {
        let created = post(&service, &corpus::path(corpus::CRDS), &input[0]).await?;
        let Some(Answer { code: 201, value }) = created else {
            return Ok(());
        };
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        check_rewrites(&service, &format!("{}/{name}", corpus::path(corpus::CRDS))).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (
            text(&value["spec"]["group"]),
            text(&value["spec"]["names"]["plural"]),
        );
        let version = text(&value["spec"]["versions"][0]["name"]);
        let path = format!("/openapi/v3/apis/{group}/{version}");
        let document = Call {
            method: b"GET",
            path: path.as_bytes(),
            accept: b"application/json",
            ..Call::default()
        };
        send(&service, document).await?;
        let is_namespaced = value["spec"]["scope"] == "Namespaced";
        let namespace = if is_namespaced { "namespaces/default/" } else { "" };
        let collection = format!("/apis/{group}/{version}/{namespace}{plural}");
        let created = post(&service, &collection, &input[1]).await?;
        let table = Call {
            method: b"GET",
            path: collection.as_bytes(),
            query: b"fieldSelector=spec.mode=fast",
            accept: TABLE,
            ..Call::default()
        };
        send(&service, table).await?;
        let Some(Answer { code: 201, value }) = created else {
            return Ok(());
        };
        let object = format!(
            "{collection}/{}",
            value["metadata"]["name"].as_str().unwrap_or_default()
        );
        for path in [
            &format!("{object}/scale"),
            &format!("{object}/status"),
            &collection,
        ] {
            let get = Call {
                method: b"GET",
                path: path.as_bytes(),
                accept: TABLE,
                ..Call::default()
            };
            send(&service, get).await?;
        }
        check_rewrites(&service, &object).await
    })
}

async fn post(service: &ApiService, path: &str, body: &[u8]) -> Result<Option<Answer>, String> {
    let call = Call {
        method: b"POST",
        path: path.as_bytes(),
        content_type: b"application/json",
        body: body.to_vec(),
        ..Call::default()
    };
    send(service, call).await
}
