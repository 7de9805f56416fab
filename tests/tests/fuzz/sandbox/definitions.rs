//! Custom resources of changed definitions: schemas, rules, printer columns and scale paths.

use serde_json::{Value, json};
use steersman_harness::draw::Draw;
use steersman_sandbox::ApiService;

use super::{Answer, Call, check_rewrites, corpus, send, shared};
use crate::{AllocatedMax, Input, Target, block_on, mutate};

pub const TARGET: Target = Target {
    name: "sandbox::definitions",
    inputs: 40,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

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
    let service = &shared::service(corpus::CRDS);
    let crds = &corpus::path(corpus::CRDS);
    block_on(async {
        let Some(Answer {
            code: 201,
            value: crd,
        }) = post(service, crds, &input[0]).await?
        else {
            return Ok(());
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        check_rewrites(service, &format!("{crds}/{}", text(&crd["metadata"]["name"]))).await?;
        let spec = &crd["spec"];
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let version = text(&spec["versions"][0]["name"]);
        send(
            service,
            Call::new("GET", &format!("/openapi/v3/apis/{group}/{version}")),
        )
        .await?;
        let namespace = if spec["scope"] == "Namespaced" {
            "namespaces/default/"
        } else {
            ""
        };
        let collection = format!("/apis/{group}/{version}/{namespace}{plural}");
        let created = post(service, &collection, &input[1]).await?;
        let list = Call::new("GET", &collection)
            .query("fieldSelector=spec.mode=fast")
            .accept(TABLE);
        send(service, list).await?;
        let Some(Answer {
            code: 201,
            value: boat,
        }) = created
        else {
            return Ok(());
        };
        let object = format!("{collection}/{}", text(&boat["metadata"]["name"]));
        for path in [format!("{object}/scale"), format!("{object}/status"), collection] {
            send(service, Call::new("GET", &path).accept(TABLE)).await?;
        }
        check_rewrites(service, &object).await
    })
}

async fn post(service: &ApiService, path: &str, body: &[u8]) -> Result<Option<Answer>, String> {
    send(service, Call::new("POST", path).body("application/json", body)).await
}
