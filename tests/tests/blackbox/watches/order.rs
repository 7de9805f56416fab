//! Events are ordered by version, equal for every watcher, and reproduce the list.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steersman_harness::{Cluster, Test, test};

use crate::support::{MERGE, config_map, core, name, names, version};

pub fn tests() -> Vec<Test> {
    vec![test!(watchers_receive_same_events_in_order)]
}

const WRITES: usize = 100;

/// Sends creations, patches and deletions of ten names until [`WRITES`] of them have succeeded.
async fn write(c: &Cluster, path: &str) {
    let mut done = 0;
    let mut random = 7_u64;
    while done < WRITES {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (name, what) = (format!("n{}", (random >> 33) % 10), (random >> 40) % 4);
        let object = format!("{path}/{name}");
        let reply = match what {
            0 => c.api().delete(&object, ()).await,
            1 => c.api().post(path, config_map(&name)).await,
            _ => {
                let change = json!({"data": {"k": random.to_string()}});
                c.api().patch(&object, MERGE, change).await
            }
        };
        done += usize::from(reply.status < 300);
    }
}

async fn watchers_receive_same_events_in_order(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut newest = version(&c.read(&path).await);
    let query = format!("{path}?watch=1&resourceVersion={newest}");
    let mut early = c.api().watch(&query).await;
    write(&c, &path).await;
    let list = c.read(&path).await;
    let mut late = c.api().watch(&query).await;
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    for _ in 0..WRITES {
        let event = early.event().await;
        assert_eq!(event, late.event().await);
        let (key, object) = (name(&event["object"]).to_owned(), event["object"].clone());
        assert!(version(&object) > newest);
        newest = version(&object);
        let known = state.contains_key(&key);
        match event["type"].as_str() {
            Some("ADDED") if !known => state.insert(key, object),
            Some("MODIFIED") if known => state.insert(key, object),
            Some("DELETED") if known => state.remove(&key),
            _ => panic!("unexpected event: {event:#}"),
        };
    }
    assert_eq!(state.keys().collect::<Vec<_>>(), names(&list));
    for item in list["items"].as_array().expect("items is a list") {
        let replayed = &state[name(item)];
        assert_eq!(
            (&replayed["metadata"], &replayed["data"]),
            (&item["metadata"], &item["data"])
        );
    }
}
