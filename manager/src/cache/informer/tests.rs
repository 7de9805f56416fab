//! Stores that are added or dropped during a list.

use super::*;

use serde::Deserialize;

use crate::cache::metrics::CacheMetrics;
use crate::cache::store::Store;
use crate::cache::wire;
use crate::metrics::Registry;
use crate::object::Meta;

/// A second projection.
#[derive(Debug, PartialEq, Deserialize)]
struct Pod {
    metadata: Meta,
}

impl Object for Pod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.metadata
    }
}

const ALL: Partition = Partition(0);

fn informer() -> Informer {
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let counters = CacheMetrics::new("", &Registry::new("test"))
        .expect("metrics")
        .counters(&pods);
    Informer::new(&pods, vec![String::new()], true, &Clock::system(), counters)
}

/// Lists one pod at this version.
fn list(informer: &Informer, start: &ListStart, version: u64) {
    let item = format!(r#"{{"metadata":{{"name":"a","uid":"1","resourceVersion":"{version}"}}}}"#);
    let version = version.to_string().as_str().into();
    let mut list = start.accept(ALL, &version, false).expect("a newer list");
    list.add(&wire::item(&item).expect("an item"));
    informer.apply_list(ALL, start, list);
}

#[tokio::test]
async fn store_receives_nothing_before_a_list_that_started_after_it_was_added() {
    let informer = informer();
    let metadata = informer.store::<MetaObject>(false);
    assert_eq!(informer.view(), View::Metadata);
    list(&informer, &informer.start_list(ALL), 5);
    let start = informer.start_list(ALL);
    let pods = informer.store::<Pod>(true);
    list(&informer, &start, 6);
    let line = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"7"}}}"#;
    let Ok(wire::Event::Put(item)) = wire::event(line) else {
        panic!("an event");
    };
    assert!(informer.put(ALL, &item).is_ok());
    assert!(!pods.is_synced() && pods.read(Store::len) == 0);
    assert_eq!(
        (metadata.version(), informer.position().version),
        ("7".into(), "7".into())
    );
    assert!(
        !informer.has_caught_up(ALL, &"7".into(), 0),
        "a store is not synced"
    );

    assert_eq!(informer.view(), View::Full);
    list(&informer, &informer.start_list(ALL), 8);
    assert!(pods.is_synced() && informer.is_synced());
    assert_eq!((pods.version(), metadata.version()), ("8".into(), "8".into()));
    assert!(informer.has_caught_up(ALL, &"7".into(), 0));
}

#[tokio::test]
async fn list_in_progress_does_not_change_a_forgotten_store() {
    let informer = informer();
    let metadata = informer.store::<MetaObject>(false);
    informer.store::<Pod>(true);
    let start = informer.start_list(ALL);
    assert!(!informer.forget_metadata());
    list(&informer, &start, 5);
    assert!(!metadata.is_synced() && informer.is_synced());
}
