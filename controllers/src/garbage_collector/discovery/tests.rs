//! Tests of discovery documents, without an API server.

mod decode;
mod kinds;
mod random;

use serde_json::{Value, json};
use steersman_manager::client::RawResponse;

use super::decode as reading;
use super::documents::{Documents, Root};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn raw(content_type: &str, body: &Value) -> RawResponse {
    RawResponse {
        content_type: content_type.to_owned(),
        body: body.to_string().into(),
    }
}

fn plain(body: &Value) -> RawResponse {
    raw("application/json", body)
}

/// A resource of a plain document: `pods Pod`, with `!` if it cannot be collected.
fn resource(text: &str) -> Value {
    let (text, verbs) = match text.strip_prefix('!') {
        Some(text) => (text, json!(["create", "get"])),
        None => (text, json!(["create", "delete", "get", "list", "watch"])),
    };
    let (name, kind) = text.split_once(' ').expect("name and kind");
    json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs})
}

/// Documents of these versions in the order of `/apis`, the first one of a group preferred: `apps/v1` with its resources, none
/// if they are unknown.
fn documents(versions: &[(&str, Option<&[&str]>)]) -> Documents {
    let mut documents = Documents::default();
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, _) in versions {
        let (group, version) = name.split_once('/').unwrap_or(("", name));
        match groups.iter_mut().find(|(it, _)| *it == group) {
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    let core = groups.iter().find(|(group, _)| group.is_empty());
    if let Some((_, versions)) = core {
        let body = json!({"kind": "APIVersions", "versions": versions});
        let listed = reading::root(Root::Core, &plain(&body)).expect("a root");
        documents.set(Root::Core, listed.groups);
    }
    let named: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| {
            let versions: Vec<_> = versions.iter().map(|it| json!({"version": it})).collect();
            json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
        })
        .collect();
    if !named.is_empty() {
        let body = json!({"kind": "APIGroupList", "groups": named});
        let listed = reading::root(Root::Named, &plain(&body)).expect("a root");
        documents.set(Root::Named, listed.groups);
    }
    for (name, resources) in versions {
        let (group, version) = name.split_once('/').unwrap_or(("", name));
        let Some(resources) = resources else { continue };
        let resources: Vec<_> = resources.iter().map(|it| resource(it)).collect();
        let body = json!({"kind": "APIResourceList", "groupVersion": name, "resources": resources});
        let resources = reading::version(group, version, &plain(&body)).expect("a version");
        documents.fill(group, version, resources);
    }
    documents
}
