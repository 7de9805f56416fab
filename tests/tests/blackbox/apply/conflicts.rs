//! Conflicts: who has what, and who takes it.

use coxswain_tests::{
    Cluster, Reply, Test,
    fixtures::{MERGE, core},
    test,
};
use serde_json::{Value, json};

use super::{apply, fields, managers, map};
use crate::expect::{speaks_1_36, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(a_conflict_names_the_manager_and_the_field),
        test!(several_conflicts_are_all_named),
        test!(what_is_forced_changes_hands),
        test!(who_updates_takes_without_asking),
        test!(the_same_value_is_no_conflict),
        test!(a_change_by_an_update_is_a_conflict_for_the_applier),
    ]
}

/// The causes of a conflict, as `field: message`, sorted: the server has them in any order.
#[track_caller]
fn causes(reply: &Reply) -> Vec<String> {
    reply.expect_error(409, "Conflict");
    let causes = reply.causes();
    assert!(
        causes.iter().all(|cause| cause.reason == "FieldManagerConflict"),
        "{reply}"
    );
    let mut causes: Vec<String> = causes
        .iter()
        .map(|c| format!("{}: {}", c.field, c.message))
        .collect();
    causes.sort();
    causes
}

async fn a_conflict_names_the_manager_and_the_field(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "one", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    let refused = apply(&c, &path, "two", "", &map(&json!({"k": "2"}))).await;
    assert_eq!(causes(&refused), [".data.k: conflict with \"one\""]);
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"one\": .data.k"
    );
    unchanged(&c, &path, &made).await;
}

async fn several_conflicts_are_all_named(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "one", "", &map(&json!({"k": "1", "l": "1"})))
        .await
        .expect(201);
    let theirs = format!("{path}?fieldManager=two");
    let made = c
        .api()
        .patch(&theirs, MERGE, json!({"data": {"m": "1"}}))
        .await
        .expect(200);
    let refused = apply(
        &c,
        &path,
        "three",
        "",
        &map(&json!({"k": "2", "l": "2", "m": "2"})),
    )
    .await;
    let all = causes(&refused);
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], ".data.k: conflict with \"one\"");
    assert!(
        all[2].starts_with(".data.m: conflict with \"two\" using v1"),
        "{all:?}"
    );
    if speaks_1_36(&c) {
        let text = "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l\nconflicts with \
                    \"two\" using v1:\n- .data.m";
        assert_eq!(refused.message(), text);
        assert_eq!(
            refused.json()["details"].as_object().map(serde_json::Map::len),
            Some(1),
            "{refused}"
        );
    }
    unchanged(&c, &path, &made).await;
}

async fn what_is_forced_changes_hands(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "one", "", &map(&json!({"k": "1", "l": "1"})))
        .await
        .expect(201);
    let taken = apply(&c, &path, "two", "&force=true", &map(&json!({"k": "2"})))
        .await
        .expect(200);
    assert_eq!(taken["data"], json!({"k": "2", "l": "1"}));
    assert_eq!(fields(&taken, "one", "Apply")["f:data"]["f:k"], Value::Null);
    assert_eq!(fields(&taken, "two", "Apply")["f:data"]["f:k"], json!({}));
    // What it no longer has it does not remove.
    let left = apply(&c, &path, "one", "", &map(&json!({"l": "1"})))
        .await
        .expect(200);
    assert_eq!(left["data"], json!({"k": "2", "l": "1"}));
    // All of it taken, there is no entry left.
    let taken = apply(
        &c,
        &path,
        "two",
        "&force=true",
        &map(&json!({"k": "2", "l": "2"})),
    )
    .await
    .expect(200);
    assert_eq!(fields(&taken, "one", "Apply")["f:data"]["f:l"], Value::Null);
}

async fn who_updates_takes_without_asking(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "one", "", &map(&json!({"k": "1", "l": "1"})))
        .await
        .expect(201);
    let other = format!("{path}?fieldManager=two");
    let changed = c
        .api()
        .patch(&other, MERGE, json!({"data": {"k": "2"}}))
        .await
        .expect(200);
    assert_eq!(managers(&changed), ["one", "two"]);
    assert_eq!(fields(&changed, "one", "Apply")["f:data"]["f:k"], Value::Null);
    assert_eq!(fields(&changed, "two", "Update"), json!({"f:data": {"f:k": {}}}));
}

async fn the_same_value_is_no_conflict(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let other = core(&ns, "configmaps?fieldManager=other");
    c.api().post(&other, map(&json!({"k": "1"}))).await.expect(201);
    let shared = apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(200);
    assert_eq!(managers(&shared), ["m", "other"]);
    assert_eq!(fields(&shared, "other", "Update")["f:data"]["f:k"], json!({}));
}

async fn a_change_by_an_update_is_a_conflict_for_the_applier(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    let other = format!("{path}?fieldManager=other");
    c.api().put(&other, map(&json!({"k": "2"}))).await.expect(200);
    let refused = apply(&c, &path, "m", "", &map(&json!({"k": "1"}))).await;
    let all = causes(&refused);
    assert!(
        all[0].starts_with(".data.k: conflict with \"other\" using v1"),
        "{all:?}"
    );
    let taken = apply(&c, &path, "m", "&force=true", &map(&json!({"k": "1"})))
        .await
        .expect(200);
    assert_eq!(fields(&taken, "other", "Update")["f:data"]["f:k"], Value::Null);
}
