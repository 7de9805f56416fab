//! Metadata-only lists and responses, and tokens taken in advance.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_manager::client::{ClientError, Delete, ListQuery, Patch, View, WatchQuery};
use steersman_manager::object::{Key, MetaObject, Uid, Version};

use super::{Fixture, LIMIT, MAPS};

#[tokio::test(start_paused = true)]
async fn invalid_item_fails_a_metadata_list() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    let page = async |body: &str| {
        f.server.respond(200, &[], body);
        client.list_metadata(&MAPS, "n", &ListQuery::default()).await
    };
    let good = r#"{"metadata":{"resourceVersion":"7","continue":"x"},
                   "items":[{"metadata":{"name":"a","namespace":"n","uid":"1"}}]}"#;
    let listed = page(good).await.expect("a page");
    assert_eq!(listed.version, Version::from("7"));
    assert_eq!(listed.continue_token.as_deref(), Some("x"));
    assert_eq!(listed.items.len(), 1);
    assert!(
        f.server.requests()[0]
            .header("accept")
            .contains("PartialObjectMetadataList")
    );
    let last = page(r#"{"metadata":{"resourceVersion":"7","continue":""},"items":null}"#);
    let last = last.await.expect("a page");
    assert!(last.continue_token.is_none() && last.items.is_empty());
    for bad in [
        "{}",
        r#"{"metadata":{"resourceVersion":"7"}}"#,
        r#"{"metadata":{"resourceVersion":""},"items":[]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#,
        r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","uid":"1","labels":7}}]}"#,
    ] {
        let error = page(bad).await;
        assert!(
            matches!(error, Err(ClientError::Decode { .. })),
            "{bad} {error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn write_can_return_metadata_only() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", None);
    let key = Key::new("n", "a");
    let delete = Delete::of(Uid::from("1")).at(Version::from("2"));
    let patch = Patch::merge(&json!({}));
    for view in [View::Full, View::Metadata] {
        let delete = delete.clone().returning(view);
        client.delete(&MAPS, &key, &delete).await.expect("deleted");
        let patch = patch.clone().returning(view);
        let _: Value = client.patch(&MAPS, &key, patch).await.expect("patched");
    }
    let accepts: Vec<String> = f
        .server
        .requests()
        .iter()
        .map(|it| it.header("accept").to_owned())
        .collect();
    assert!(
        accepts[..2].iter().all(|it| it == "application/json"),
        "{accepts:?}"
    );
    // A server without that form may return whole objects.
    let partial = |it: &String| it.contains("as=PartialObjectMetadata;") && it.contains(",application/json");
    assert!(accepts[2..].iter().all(partial), "{accepts:?}");
}

#[tokio::test(start_paused = true)]
async fn every_metadata_request_accepts_whole_objects_too() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    let key = Key::new("n", "a");
    let _: Value = client
        .get_as(&MAPS, &key, View::Metadata)
        .await
        .expect("a response");
    client
        .list(&MAPS, "n", &ListQuery::default(), View::Metadata)
        .await
        .expect("a response");
    client
        .watch(&MAPS, "n", &WatchQuery::default(), View::Metadata)
        .await
        .expect("a response");
    for request in f.server.requests() {
        let accept = request.header("accept");
        assert!(accept.starts_with("application/json;as=PartialObjectMetadata"));
        assert!(accept.contains(",application/json"), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn token_taken_in_advance_is_not_taken_again() {
    let f = Fixture::new();
    let client = f.transport.unfenced("a", Some(LIMIT));
    let (key, clock) = (Key::new("n", "a"), f.env.clock.clone());
    let start = clock.now();
    for _ in 0..35 {
        let with_token = client.with_token("GET").await.expect("a token");
        let before = clock.now();
        let _ = with_token.get::<MetaObject>(&MAPS, &key).await;
        assert_eq!(clock.now(), before, "no wait after the decision");
    }
    let took = clock.now() - start;
    assert!(
        took >= Duration::from_millis(250),
        "it was waited before: {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn page_after_a_large_one_is_requested_with_fewer_objects() {
    let f = Fixture::new();
    let client = f.transport.reader("a", None);
    let item = format!(
        r#"{{"metadata":{{"name":"a","uid":"1"}}{}}}"#,
        " ".repeat(4 * 1024 * 1024)
    );
    let items = [&*item; 8].join(",");
    let large = format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"x"}},"items":[{items}]}}"#);
    f.server.respond(200, &[], &large);
    f.server
        .respond(200, &[], r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#);
    let query = ListQuery {
        limit: 500,
        ..ListQuery::default()
    };
    let listed = client.list_all_metadata(&MAPS, "n", query, |_| true).await;
    assert_eq!(listed.expect("a list").len(), 8);
    let limits: Vec<_> = { f.server.requests() }
        .iter()
        .filter_map(|it| it.parameter("limit"))
        .collect();
    assert_eq!(limits, ["500", "3"]);
}
