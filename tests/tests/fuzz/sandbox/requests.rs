//! Any request gets a well-formed answer, and a written object can be read and written again.

use coxswain_harness::draw::Draw;
use serde_json::json;

use super::{Call, check_rewrites, corpus, send, shared};
use crate::mutate::{self, protobuf};
use crate::{Input, Target, block_on};

pub const TARGET: Target = Target {
    name: "sandbox::requests",
    inputs: 400,
    draw,
    check,
};

/// Draws method, path, query, content type, Accept header and body.
fn draw(draw: &mut Draw) -> Input {
    let resources = corpus::resources();
    let resource = *draw.one(&resources);
    let (collection, mut object) = (corpus::path(resource), corpus::object(resource));
    let one = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
    let json = "application/json";
    let query = (*draw.one(&corpus::WRITE_QUERIES)).to_owned();
    let (method, path, content_type, body) = match draw.below(16) {
        0..5 => {
            object["metadata"]["name"] = json!("new");
            let content_type = *draw.one(&[json, json, "application/yaml"]);
            ("POST", collection, content_type, mutate::json::json(draw, &object))
        }
        5 => ("POST", collection, "application/yaml", mutate::bytes(draw, yaml().as_bytes())),
        6 => {
            let (path, body) = message(draw);
            ("POST", path, "application/vnd.kubernetes.protobuf", body)
        }
        7 | 8 => ("PUT", one, json, mutate::json::json(draw, &object)),
        9 | 10 => {
            let patches = corpus::patches();
            let (content_type, patch) = draw.one(&patches);
            ("PATCH", one, *content_type, mutate::json::json(draw, patch))
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
            let (path, body) = subresource(draw, &one);
            (*draw.one(&["PUT", "PATCH", "POST"]), path, json, mutate::json::json(draw, &body))
        }
        14 => {
            let options = json!({
                "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Foreground",
                "preconditions": {"uid": "1", "resourceVersion": "1"}, "dryRun": ["All"], "orphanDependents": false,
            });
            let path = if draw.once_in(3) { collection } else { one };
            ("DELETE", path, json, mutate::json::json(draw, &options))
        }
        _ => return list(draw, collection),
    };
    let query = if draw.once_in(8) { mutate::text(draw, &query) } else { query };
    let path = if draw.once_in(30) { mutate::text(draw, &path) } else { path };
    let content_type = if draw.once_in(30) { mutate::text(draw, content_type) } else { content_type.to_owned() };
    let accept = draw.one(&corpus::ACCEPTS).as_bytes().to_vec();
    vec![method.into(), path.into(), query.into(), content_type.into(), accept, body]
}

/// Draws a read. The query is changed in all of them.
fn list(draw: &mut Draw, collection: String) -> Input {
    let query = *draw.one(&corpus::LIST_QUERIES);
    let query = mutate::bytes(draw, query.as_bytes());
    let accept = *draw.one(&corpus::ACCEPTS);
    let accept = if draw.once_in(3) { mutate::bytes(draw, accept.as_bytes()) } else { accept.into() };
    vec![b"GET".to_vec(), collection.into(), query, Vec::new(), accept, Vec::new()]
}

/// A subresource of an object with a body.
fn subresource(draw: &mut Draw, one: &str) -> (String, serde_json::Value) {
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 2},
    });
    let pod = format!("{}/web", corpus::path("pods"));
    let status = json!({"status": corpus::object("pods")["status"], "metadata": {"name": "web"}});
    let eviction = json!({
        "kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 5},
    });
    let binding = json!({
        "kind": "Binding", "apiVersion": "v1", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"},
    });
    let token = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"audiences": ["a"], "expirationSeconds": 600},
    });
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    draw.one(&[
        (format!("{one}/scale"), scale),
        (format!("{one}/status"), status.clone()),
        (format!("{pod}/status"), status),
        (format!("{pod}/eviction"), eviction),
        (format!("{pod}/binding"), binding),
        (format!("{pod}/ephemeralcontainers"), json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}})),
        (format!("{account}/token"), token),
        ("/api/v1/namespaces/team/finalize".to_owned(), corpus::object("namespaces")),
    ])
    .clone()
}

/// YAML that is not JSON: anchors, merges, block scalars, octal numbers.
fn yaml() -> String {
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: new\n  labels: {<<: &l {a: b}, c: !!str 010}\n";
    format!("{head}  annotations:\n    <<: [*l, *l]\ndata:\n  a: |-\n    x\n     y\n  ? b\n  : >+\n    z\n\n  c: \"\\u00e9\\x41\"\n...\n---\n")
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
            (corpus::path("configmaps"), protobuf::mutate(draw, "v1", "ConfigMap", &map))
        }
        _ => {
            // The field `not` of a schema is a schema.
            let schema = protobuf::nest(draw, 28, &part(5, b"object"));
            let version = [part(1, b"v1"), vec![16, 1, 24, 1], part(4, &part(1, &schema))].concat();
            let names = [part(1, b"boats"), part(4, b"Boat")].concat();
            let spec = [part(1, b"a.example"), part(3, &names), part(4, b"Namespaced"), part(7, &version)].concat();
            let crd = [part(1, &part(1, b"boats.a.example")), part(2, &spec)].concat();
            let kind = "CustomResourceDefinition";
            (corpus::path(corpus::CRDS), protobuf::mutate(draw, "apiextensions.k8s.io/v1", kind, &crd))
        }
    }
}

fn check(input: &[Vec<u8>]) -> Result<(), String> {
    let [method, path, query, content_type, accept, body] = input else { return Ok(()) };
    let text = String::from_utf8_lossy(path);
    let resources = corpus::resources().into_iter().filter(|it| text.starts_with(&corpus::path(it)));
    let resource = resources.max_by_key(|it| corpus::path(it).len()).unwrap_or("pods");
    let service = shared::service(resource);
    let call = Call {
        method,
        path,
        query,
        content_type,
        accept,
        body: body.clone(),
    };
    block_on(async {
        let Some(answer) = send(&service, call).await? else { return Ok(()) };
        let is_write = matches!(&**method, b"POST" | b"PUT" | b"PATCH") && matches!(answer.code, 200 | 201);
        let (Some(name), true) = (answer.value["metadata"]["name"].as_str(), is_write) else { return Ok(()) };
        let collection = corpus::path(resource);
        let object = format!("{collection}/{name}");
        let is_dry_run = query.windows(3).any(|it| it == b"dry");
        let is_stored = (text == collection || text == object) && !is_dry_run;
        if is_stored { check_rewrites(&service, &object).await } else { Ok(()) }
    })
}
