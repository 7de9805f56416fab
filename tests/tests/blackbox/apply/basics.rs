//! What applying does to an object when nobody is in the way.

use coxswain_tests::{Cluster, Test, fixtures::core, test};
use serde_json::{Value, json};

use super::{APPLY, apply, fields, managers, map};
use crate::expect::{not_found, unchanged};

/// What is registered of this part.
pub fn tests() -> Vec<Test> {
    vec![
        test!(applying_creates),
        test!(applying_the_same_changes_nothing).since(1, 27),
        test!(what_is_no_longer_applied_goes),
        test!(what_two_apply_stays_until_both_give_it_up),
        test!(what_others_wrote_stays),
        test!(giving_up_everything_leaves_no_entry),
        test!(a_dry_run_changes_nothing),
        test!(yaml_and_json_are_the_same),
        test!(a_name_is_needed_only_to_create).since(1, 36),
        test!(what_the_server_sets_nobody_has),
    ]
}

async fn applying_creates(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    assert_eq!(made["data"], json!({"k": "1"}));
    let entries = made["metadata"]["managedFields"].as_array().expect("a list");
    assert_eq!(entries.len(), 1);
    let entry = &entries[0];
    assert_eq!(
        (
            &entry["manager"],
            &entry["operation"],
            &entry["apiVersion"],
            &entry["fieldsType"]
        ),
        (&json!("m"), &json!("Apply"), &json!("v1"), &json!("FieldsV1"))
    );
    assert!(
        entry["time"].as_str().is_some_and(|time| time.ends_with('Z')),
        "{entry}"
    );
    let data = fields(&made, "m", "Apply")["f:data"].clone();
    assert_eq!(data["f:k"], json!({}));
    unchanged(&c, &path, &made).await;
}

/// Before, the time of an entry alone was reason enough for a new version.
async fn applying_the_same_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let made = apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    let again = apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(200);
    assert_eq!(again, made);
    unchanged(&c, &path, &made).await;
}

async fn what_is_no_longer_applied_goes(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "m", "", &map(&json!({"k": "1", "l": "2"})))
        .await
        .expect(201);
    let left = apply(&c, &path, "m", "", &map(&json!({"l": "2"})))
        .await
        .expect(200);
    assert_eq!(left["data"], json!({"l": "2"}));
    assert_eq!(fields(&left, "m", "Apply"), json!({"f:data": {"f:l": {}}}));
}

async fn what_two_apply_stays_until_both_give_it_up(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "one", "", &map(&json!({"k": "1", "l": "2"})))
        .await
        .expect(201);
    let shared = apply(&c, &path, "two", "", &map(&json!({"k": "1"})))
        .await
        .expect(200);
    assert_eq!(fields(&shared, "one", "Apply")["f:data"]["f:k"], json!({}));
    assert_eq!(fields(&shared, "two", "Apply")["f:data"]["f:k"], json!({}));
    let left = apply(&c, &path, "one", "", &map(&json!({"l": "2"})))
        .await
        .expect(200);
    assert_eq!(left["data"], json!({"k": "1", "l": "2"}));
    let left = apply(&c, &path, "two", "", &map(&json!({}))).await.expect(200);
    assert_eq!(left["data"], json!({"l": "2"}));
    assert_eq!(fields(&left, "two", "Apply")["f:data"]["f:k"], Value::Null);
}

async fn what_others_wrote_stays(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let other = core(&ns, "configmaps?fieldManager=other");
    c.api()
        .post(&other, map(&json!({"theirs": "1"})))
        .await
        .expect(201);
    let both = apply(&c, &path, "m", "", &map(&json!({"mine": "1"})))
        .await
        .expect(200);
    assert_eq!(both["data"], json!({"mine": "1", "theirs": "1"}));
    let left = apply(&c, &path, "m", "", &map(&json!({}))).await.expect(200);
    assert_eq!(left["data"], json!({"theirs": "1"}));
    assert_eq!(fields(&left, "other", "Update")["f:data"]["f:theirs"], json!({}));
}

async fn giving_up_everything_leaves_no_entry(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    let mut bare = map(&json!({}));
    bare.as_object_mut().expect("an object").remove("data");
    let left = apply(&c, &path, "m", "", &bare).await.expect(200);
    assert_eq!(left.get("data"), None);
    assert_eq!(managers(&left), Vec::<&str>::new());
}

async fn a_dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let shown = apply(&c, &path, "m", "&dryRun=All", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    assert_eq!(managers(&shown), ["m"]);
    not_found(&c.api().get(&path).await, "configmaps", "a");
    let made = apply(&c, &path, "m", "", &map(&json!({"k": "1"})))
        .await
        .expect(201);
    let shown = apply(&c, &path, "m", "&dryRun=All", &map(&json!({"k": "2"})))
        .await
        .expect(200);
    assert_eq!(shown["data"], json!({"k": "2"}));
    unchanged(&c, &path, &made).await;
}

async fn yaml_and_json_are_the_same(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a?fieldManager=m");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    two\n    lines\n  l: 'yes'\n";
    let made = c.api().patch(&path, APPLY, text).await.expect(201);
    assert_eq!(made["data"], json!({"k": "two\nlines\n", "l": "yes"}));
    let same = map(&json!({"k": "two\nlines\n", "l": "yes"}));
    let again = c.api().patch(&path, APPLY, same).await.expect(200);
    assert_eq!(again["data"], made["data"]);
    assert_eq!(fields(&again, "m", "Apply"), fields(&made, "m", "Apply"));
}

/// Before, a name was needed always.
async fn a_name_is_needed_only_to_create(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps/a");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "1"}});
    let refused = apply(&c, &path, "m", "", &nameless).await;
    refused.expect_error(400, "BadRequest");
    not_found(&c.api().get(&path).await, "configmaps", "a");
    apply(&c, &path, "m", "", &map(&json!({"k": "2"})))
        .await
        .expect(201);
    let changed = apply(&c, &path, "m", "", &nameless).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "1"}));
}

async fn what_the_server_sets_nobody_has(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods/a");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": ns},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let made = apply(&c, &path, "m", "", &pod).await.expect(201);
    assert_eq!(made["spec"]["restartPolicy"], "Always", "with defaults");
    let container = json!({"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}}});
    assert_eq!(
        fields(&made, "m", "Apply"),
        json!({"f:spec": {"f:containers": container}})
    );
}
