//! Any request gets a well-formed answer, and a written object can be read and written again.

use serde_json::json;
use steersman_harness::draw::Draw;

use super::corpus::{self, REQUESTS};
use super::{Call, check_rewrites, send, shared};
use crate::mutate::{self, protobuf};
use crate::{AllocatedMax, Input, Target, block_on};

pub const TARGET: Target = Target {
    name: "sandbox::requests",
    inputs: 400,
    allocated_max: AllocatedMax::TREE,
    draw,
    check,
};

const JSON: &str = "application/json";

/// Draws method, path, query, content type, Accept header and body.
fn draw(draw: &mut Draw) -> Input {
    let requests = &*REQUESTS;
    let resource = *draw.one(&corpus::resources());
    let (collection, mut object) = (corpus::path(resource), corpus::object(resource));
    let one = format!(
        "{collection}/{}",
        object["metadata"]["name"].as_str().unwrap_or_default()
    );
    let mut query = draw.one(&requests.write_queries).clone();
    let (method, mut path, content_type, body) = match draw.below(16) {
        0..5 => {
            object["metadata"]["name"] = json!("new");
            let content_type = *draw.one(&[JSON, JSON, "application/yaml"]);
            (
                "POST",
                collection,
                content_type,
                mutate::json::json(draw, &object),
            )
        }
        5 => {
            let path = corpus::path("configmaps");
            (
                "POST",
                path,
                "application/yaml",
                mutate::bytes(draw, requests.yaml.as_bytes()),
            )
        }
        6 => {
            let (path, body) = message(draw);
            ("POST", path, "application/vnd.kubernetes.protobuf", body)
        }
        7 | 8 => ("PUT", one, JSON, mutate::json::json(draw, &object)),
        9 | 10 => {
            let (content_type, patch) = draw.one(&requests.patches);
            (
                "PATCH",
                one,
                content_type.as_str(),
                mutate::json::json(draw, patch),
            )
        }
        11 | 12 => {
            let content_type = *draw.one(&[
                "application/apply-patch+yaml",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
            ]);
            ("PATCH", one, content_type, mutate::json::json(draw, &object))
        }
        13 => {
            let (path, body) = draw.one(&requests.subresources);
            (
                *draw.one(&["PUT", "PATCH", "POST"]),
                path.clone(),
                JSON,
                mutate::json::json(draw, body),
            )
        }
        14 => {
            let path = if draw.once_in(3) { collection } else { one };
            ("DELETE", path, JSON, mutate::json::json(draw, &requests.delete))
        }
        _ => {
            query.clone_from(draw.one(&requests.list_queries));
            ("GET", collection, "", Vec::new())
        }
    };
    let (mut content_type, mut accept) = (content_type.to_owned(), draw.one(&requests.accepts).clone());
    let rarity = if method == "GET" { 1 } else { 8 };
    for (part, times) in [
        (&mut query, rarity),
        (&mut accept, 3 * rarity),
        (&mut path, 30),
        (&mut content_type, 30),
    ] {
        if draw.once_in(times) {
            *part = mutate::text(draw, part);
        }
    }
    vec![
        method.into(),
        path.into(),
        query.into(),
        content_type.into(),
        accept.into(),
        body,
    ]
}

/// A path and a protobuf body.
fn message(draw: &mut Draw) -> (String, Vec<u8>) {
    let part = protobuf::part;
    let name = part(1, &part(1, b"new"));
    match draw.below(3) {
        0 => {
            let container = [part(1, b"c"), part(2, b"i"), part(6, &[8, 80])].concat();
            let pod = [name, part(2, &part(2, &container))].concat();
            (corpus::path("pods"), protobuf::mutate(draw, "v1", "Pod", &pod))
        }
        1 => {
            let data = part(2, &[part(1, b"k"), part(2, b"v")].concat());
            let map = [name, data].concat();
            (
                corpus::path("configmaps"),
                protobuf::mutate(draw, "v1", "ConfigMap", &map),
            )
        }
        _ => {
            // The field `not` of a schema is a schema.
            let schema = protobuf::nest(draw, 28, &part(5, b"object"));
            let version = [part(1, b"v1"), vec![16, 1, 24, 1], part(4, &part(1, &schema))].concat();
            let names = [part(1, b"boats"), part(4, b"Boat")].concat();
            let spec = [
                part(1, b"a.example"),
                part(3, &names),
                part(4, b"Namespaced"),
                part(7, &version),
            ]
            .concat();
            let crd = [part(1, &part(1, b"boats.a.example")), part(2, &spec)].concat();
            let kind = "CustomResourceDefinition";
            (
                corpus::path(corpus::CRDS),
                protobuf::mutate(draw, "apiextensions.k8s.io/v1", kind, &crd),
            )
        }
    }
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let [method, path, query, content_type, accept, body] = input else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(path);
    let resources = corpus::resources()
        .into_iter()
        .filter(|it| text.starts_with(&corpus::path(it)));
    let resource = resources
        .max_by_key(|it| corpus::path(it).len())
        .unwrap_or("pods");
    let service = shared::service(resource);
    let call = Call::new(method, path)
        .query(query)
        .accept(accept)
        .body(content_type, body);
    block_on(async {
        let Some(answer) = send(&service, call).await? else {
            return Ok(());
        };
        let is_write = matches!(&**method, b"POST" | b"PUT" | b"PATCH") && matches!(answer.code, 200 | 201);
        let (Some(name), true) = (answer.value["metadata"]["name"].as_str(), is_write) else {
            return Ok(());
        };
        let collection = corpus::path(resource);
        let object = format!("{collection}/{name}");
        let is_dry_run = query.windows(3).any(|it| it == b"dry");
        let is_stored = (text == collection || text == object) && !is_dry_run;
        if is_stored {
            check_rewrites(&service, &object).await
        } else {
            Ok(())
        }
    })
}
