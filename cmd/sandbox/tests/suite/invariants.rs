//! Random sequences of requests preserve the invariants of the store.

use std::collections::BTreeMap;

use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_sandbox::ApiService;

use crate::client::{delete, get, patch, post, put, sandbox, send, version, watch};

const NAMESPACES: [&str; 2] = ["default", "kube-system"];

#[derive(Debug, Clone)]
enum Action {
    Create {
        finalizers: Vec<&'static str>,
    },
    Put {
        fresh: bool,
        finalizers: Vec<&'static str>,
    },
    Patch {
        data: bool,
        finalizers: Option<Vec<&'static str>>,
    },
    Delete {
        policy: Option<&'static str>,
        uid: Option<bool>,
    },
    DeleteCollection,
}

#[derive(Debug, Clone)]
struct Request {
    namespace: usize,
    name: u8,
    action: Action,
}

fn finalizers() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["example.com/a", "example.com/b"], 0..=2)
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let policy = prop::option::of(prop::sample::select(vec!["Foreground", "Background", "Orphan"]));
    let action = prop_oneof![
        4 => finalizers().prop_map(|finalizers| Action::Create { finalizers }),
        3 => (any::<bool>(), finalizers()).prop_map(|(fresh, finalizers)| Action::Put { fresh, finalizers }),
        4 => (any::<bool>(), prop::option::of(finalizers()))
            .prop_map(|(data, finalizers)| Action::Patch { data, finalizers }),
        4 => (policy, prop::option::of(any::<bool>())).prop_map(|(policy, uid)| Action::Delete { policy, uid }),
        1 => Just(Action::DeleteCollection),
    ];
    let request = (0..NAMESPACES.len(), 0..4_u8, action).prop_map(|(namespace, name, action)| Request {
        namespace,
        name,
        action,
    });
    prop::collection::vec(request, 1..50)
}

async fn perform(service: &ApiService, n: usize, request: &Request) -> (u16, Value) {
    let namespace = NAMESPACES[request.namespace];
    let name = format!("m{}", request.name);
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let path = format!("{collection}/{name}");
    let (_, present) = get(service, &path).await;
    match &request.action {
        Action::Create { finalizers } => {
            let body = json!({"metadata": {"name": name, "finalizers": finalizers}});
            post(service, &collection, &body).await
        }
        Action::Put { fresh, finalizers } => {
            let claimed = if *fresh {
                present["metadata"]["resourceVersion"].clone()
            } else {
                json!("2")
            };
            let metadata = json!({"name": name, "finalizers": finalizers, "resourceVersion": claimed});
            put(
                service,
                &path,
                &json!({"metadata": metadata, "data": {"n": n.to_string()}}),
            )
            .await
        }
        Action::Patch { data, finalizers } => {
            let mut merge = json!({});
            if *data {
                merge["data"] = json!({"n": n.to_string()});
            }
            if let Some(finalizers) = finalizers {
                merge["metadata"] = json!({"finalizers": finalizers});
            }
            patch(service, &path, &merge).await
        }
        Action::Delete { policy, uid } => {
            let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            if let Some(policy) = policy {
                options["propagationPolicy"] = json!(policy);
            }
            if let Some(right) = uid {
                let uid = if *right {
                    present["metadata"]["uid"].clone()
                } else {
                    json!("other")
                };
                options["preconditions"] = json!({"uid": uid});
            }
            send(service, Method::DELETE, &path, &options).await
        }
        Action::DeleteCollection => delete(service, &collection).await,
    }
}

/// All objects by key, and the version of the list.
async fn state(service: &ApiService) -> (BTreeMap<String, Value>, u64) {
    let (_, list) = get(service, "/api/v1/configmaps").await;
    let items = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| (key(item), item.clone()))
        .collect();
    (items, version(&list))
}

fn key(object: &Value) -> String {
    format!(
        "{}/{}",
        object["metadata"]["namespace"], object["metadata"]["name"]
    )
}

fn check_object(object: &Value) -> Result<(), TestCaseError> {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_string() {
        let held = metadata["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        prop_assert!(held, "terminating without a finalizer: {object}");
    }
    Ok(())
}

async fn scenario(requests: Vec<Request>) -> Result<(), TestCaseError> {
    let sandbox = sandbox();
    let service = sandbox.service();
    let (start, from) = state(&service).await;
    prop_assert!(start.is_empty());
    let mut events = watch(
        &service,
        &format!("/api/v1/configmaps?watch=1&timeoutSeconds=5&resourceVersion={from}"),
    )
    .await;
    for (n, request) in requests.iter().enumerate() {
        let (before, revision) = state(&service).await;
        let (status, answer) = perform(&service, n, request).await;
        prop_assert!(status < 500, "{request:?}: {answer}");
        let (after, newer) = state(&service).await;
        if status >= 400 {
            prop_assert_eq!(
                &before,
                &after,
                "a request that fails changes nothing: {:?}",
                request
            );
            prop_assert_eq!(revision, newer);
        }
        prop_assert_eq!(
            before == after,
            revision == newer,
            "the revision increases with each change only"
        );
        for (key, object) in &after {
            check_object(object)?;
            let old = before.get(key);
            let same_version = old.is_some_and(|o| version(o) == version(object));
            prop_assert_eq!(
                old == Some(object),
                same_version,
                "a version identifies one state"
            );
            prop_assert!(version(object) <= newer);
        }
    }
    let (end, _) = state(&service).await;
    let mut replayed: BTreeMap<String, Value> = BTreeMap::new();
    let mut last = from;
    while let Some(event) = events.next().await {
        let mut object = event["object"].clone();
        prop_assert!(version(&object) > last, "versions increase");
        last = version(&object);
        let key = key(&object);
        if let Some(map) = object.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
        match event["type"].as_str() {
            Some("ADDED") => prop_assert!(replayed.insert(key, object).is_none()),
            Some("MODIFIED") => prop_assert!(replayed.insert(key, object).is_some()),
            Some("DELETED") => prop_assert!(replayed.remove(&key).is_some()),
            other => prop_assert!(false, "an event of type {other:?}"),
        }
    }
    prop_assert_eq!(replayed, end, "the replayed events equal the list");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn random_requests_preserve_store_invariants(requests in requests()) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(scenario(requests))?;
    }
}
