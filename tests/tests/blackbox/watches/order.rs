//! Events are ordered by version, equal for every watcher, and reproduce the list.

use std::collections::BTreeMap;

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{MERGE, config_map, core, name, names, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(events_are_ordered_by_version),
        test!(watchers_receive_same_events),
        test!(replayed_events_equal_list),
    ]
}

const WRITES: usize = 100;

/// Sends creations, patches and deletions of ten names until [`WRITES`] of them have succeeded. Returns their number.
async fn write(c: &Cluster, path: &str) -> usize {
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
    done
}

async fn events_are_ordered_by_version(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let mut watch = c.api().watch(&format!("{path}?watch=1")).await;
    let writes = async {
        for index in 0..WRITES {
            c.create(&path, &config_map(&format!("n{index:03}"))).await;
        }
    };
    let events = async {
        let mut last = 0;
        for index in 0..WRITES {
            let object = watch.expect("ADDED").await;
            assert_eq!(name(&object), format!("n{index:03}"));
            assert!(version(&object) > last);
            last = version(&object);
        }
    };
    futures_util::future::join(writes, events).await;
}

async fn watchers_receive_same_events(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let from = version(&c.read(&path).await);
    let query = format!("{path}?watch=1&resourceVersion={from}");
    let mut early = c.api().watch(&query).await;
    write(&c, &path).await;
    let mut late = c.api().watch(&query).await;
    for _ in 0..WRITES {
        assert_eq!(early.event().await, late.event().await);
    }
}

async fn replayed_events_equal_list(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let from = version(&c.read(&path).await);
    let writes = write(&c, &path).await;
    let list = c.read(&path).await;
    let mut watch = c
        .api()
        .watch(&format!("{path}?watch=1&resourceVersion={from}"))
        .await;
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    for _ in 0..writes {
        let event = watch.event().await;
        let (key, object) = (name(&event["object"]).to_owned(), event["object"].clone());
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
