//! A storage that was restored from a backup.

use serde_json::{Value, json};

use super::server::{Act, Verb};
use super::*;

/// The list as it was when the map `a` had the value 1, under the present version of the list.
fn first_state(list: &str) -> String {
    let mut list: Value = serde_json::from_str(list).expect("a list");
    for item in list["items"].as_array_mut().expect("items") {
        item["metadata"]["resourceVersion"] = json!("1");
        item["data"]["k"] = json!("1");
    }
    list.to_string()
}

#[tokio::test(start_paused = true)]
async fn restore_with_a_raised_revision_is_noticed_by_the_next_list() {
    let bed = bed();
    create(&bed.sandbox, "a", "1").await;
    let cache = bed.synced().await;
    set(&bed.sandbox, "a", "2").await;
    bed.within(1, "seen", || value(&cache, "a").as_deref() == Some("2"))
        .await;
    let mut subscription = cache.subscribe();
    changes(&mut subscription);
    bed.server.next(Verb::List, 1, || Act::Rewrite(first_state));
    cache.relist();
    bed.within(5, "restored", || value(&cache, "a").as_deref() == Some("1"))
        .await;
    assert_eq!(changes(&mut subscription), ["~a=2>1"]);
    assert_eq!(bed.server.count(Verb::List), 2, "one list is enough");
    set(&bed.sandbox, "a", "3").await;
    bed.within(1, "goes on", || value(&cache, "a").as_deref() == Some("3"))
        .await;
}
