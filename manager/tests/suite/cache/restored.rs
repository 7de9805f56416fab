//! Restore of the storage from a backup.

use serde_json::{Value, json};

use super::server::{Verb, rewrite};
use super::*;

/// Replaces all items by their first state, under the current version of the list.
fn first_state(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).expect("a list");
    for item in list["items"].as_array_mut().expect("items") {
        item["metadata"]["resourceVersion"] = json!("1");
        item["data"]["k"] = json!("1");
    }
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn restore_with_a_raised_revision_is_detected_by_the_next_list() {
    let f = fixture();
    create(&f.sandbox, "a", "1").await;
    let cache = f.synced().await;
    set(&f.sandbox, "a", "2").await;
    f.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let mut subscription = cache.subscribe();
    changes(&mut subscription);
    f.server.next(Verb::List, 1, rewrite(first_state));
    cache.relist();
    f.within(5, "restored", || value(&cache, "a").as_deref() == Some("1"))
        .await;
    assert_eq!(changes(&mut subscription), ["~a=2>1"]);
    assert_eq!(f.server.count(Verb::List), 2, "one list is sufficient");
    set(&f.sandbox, "a", "3").await;
    f.within(1, "goes on", || value(&cache, "a").as_deref() == Some("3"))
        .await;
}
