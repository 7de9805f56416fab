//! Randomized tests: any document is decoded or rejected, and decoded documents are valid.

use serde_json::{Value, json};
use steersman_harness::seeds;
use steersman_manager::client::RawResponse;
use steersman_manager::env::Rng;

use super::reading;
use super::{AGGREGATED, Documents, Root, resource};

const RUNS: u64 = 400;

fn samples() -> Vec<(&'static str, Value)> {
    let resources = json!([resource("xs X"), resource("xs/status X"), resource("!ys Y")]);
    let discovered =
        json!([{"resource": "xs", "responseKind": {"kind": "X"}, "scope": "Cluster", "verbs": ["delete"]}]);
    vec![
        (
            AGGREGATED,
            json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "a"}, "versions": [
                {"version": "v1", "freshness": "Current", "resources": discovered},
                {"version": "v2", "freshness": "Stale", "resources": discovered}]},
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": discovered}]}]}),
        ),
        ("", json!({"kind": "APIVersions", "versions": ["v1", "v2"]})),
        (
            "",
            json!({"kind": "APIGroupList", "groups": [{"name": "a", "versions":
            [{"version": "v1"}, {"version": "v2"}], "preferredVersion": {"version": "v1"}}]}),
        ),
        (
            "",
            json!({"kind": "APIResourceList", "groupVersion": "a/v1", "resources": resources}),
        ),
    ]
}

fn index(rng: &Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap_or_default()
}

/// Changes one value at random.
fn mutate(value: &mut Value, rng: &Rng) {
    let deeper = rng.below(4) != 0;
    match value {
        Value::Array(items) if deeper && !items.is_empty() => {
            let at = index(rng, items.len());
            mutate(&mut items[at], rng);
        }
        Value::Object(fields) if deeper && !fields.is_empty() => {
            let at = index(rng, fields.len());
            if let Some(field) = fields.values_mut().nth(at) {
                mutate(field, rng);
            }
        }
        _ => {
            let odd = [
                Value::Null,
                json!(true),
                json!(-1),
                json!(""),
                json!("../../x?y#z"),
                json!("ä\u{0}\n"),
                json!("x".repeat(10_000)),
                json!([]),
                json!({}),
                json!([null, [[]], {"a": null}]),
                value.clone(),
                json!([value.clone(), value.clone()]),
            ];
            *value = odd[index(rng, odd.len())].clone();
        }
    }
}

fn read(raw: &RawResponse) {
    let mut documents = Documents::default();
    for root in Root::ALL {
        if let Ok(listed) = reading::root(root, raw) {
            assert!(!listed.groups.is_empty());
            documents.set(root, listed.groups);
        }
    }
    for (group, version) in [("a", "v1"), ("", "v1")] {
        if let Ok(resources) = reading::version(group, version, raw) {
            documents.fill(group, version, resources);
        }
    }
    documents.keep(&Documents::default());
    for kind in documents.kinds().collected() {
        let path = kind.resource.collection("default");
        let segments = path.split('/').skip(1);
        for segment in segments {
            assert!(!segment.is_empty() && !segment.starts_with('.'), "{path:?}");
            assert!(segment.bytes().all(|it| it.is_ascii_graphic()), "{path:?}");
            assert!(!segment.contains(['?', '#', '%']), "{path:?}");
        }
    }
}

#[test]
fn random_documents_do_not_panic() {
    for seed in seeds::of(RUNS) {
        let rng = Rng::from_seed(seed);
        for (content_type, mut body) in samples() {
            for _ in 0..rng.below(4) {
                mutate(&mut body, &rng);
            }
            let mut bytes = body.to_string().into_bytes();
            match rng.below(8) {
                0 => bytes.truncate(index(&rng, bytes.len())),
                1 if !bytes.is_empty() => {
                    let at = index(&rng, bytes.len());
                    bytes[at] ^= 1 << rng.below(8);
                }
                _ => {}
            }
            read(&RawResponse {
                content_type: content_type.to_owned(),
                body: bytes.into(),
            });
        }
    }
    let deep = "[".repeat(100_000);
    read(&RawResponse {
        content_type: AGGREGATED.to_owned(),
        body: deep.into(),
    });
}
