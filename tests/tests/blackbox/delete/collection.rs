//! DELETE of a collection: the same per object, and a list of what was there.

use coxswain_tests::{Cluster, Test, test};
use serde_json::{Value, json};

use crate::support::{
    HOLD, bound_pod, config_map, core, create, escaped, finalizers, held, is_marked, labelled, names, pod,
    with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(empty_collection_is_an_empty_list),
        test!(answers_the_objects_as_they_were),
        test!(selectors_choose),
        test!(finalizers_hold),
        test!(policy_counts_for_each),
        test!(limit_deletes_one_page),
        test!(dry_run_deletes_nothing),
        test!(refusals_delete_nothing),
        test!(wrong_uid_is_a_conflict),
        // 1.20 counts the shortened period of the first pod for all that follow.
        test!(pods_go_gracefully_each).since(1, 36),
        test!(collections_that_cannot_be_deleted),
    ]
}

/// Creates `ConfigMap`s `a`, `b` and `c` (labels `x=1`) and `d` (`x=2`) and returns their path.
async fn four(c: &Cluster) -> String {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    for (name, x) in [("a", "1"), ("b", "1"), ("c", "1"), ("d", "2")] {
        create(c, &path, &labelled(config_map(name), json!({"x": x}))).await;
    }
    path
}

async fn left(c: &Cluster, path: &str) -> Value {
    c.api().get(path).await.expect(200)
}

async fn empty_collection_is_an_empty_list(c: Cluster) {
    let ns = c.namespace().await;
    let answer = c.api().delete(&core(&ns, "secrets"), ()).await.expect(200);
    assert_eq!(
        (&answer["kind"], &answer["apiVersion"], &answer["items"]),
        (&json!("SecretList"), &json!("v1"), &json!([]))
    );
    assert!(answer["metadata"]["resourceVersion"].is_string(), "{answer:#}");
    let missing = core("no-such-namespace", "secrets");
    let answer = c.api().delete(&missing, ()).await.expect(200);
    assert_eq!(answer["items"], json!([]));
}

async fn answers_the_objects_as_they_were(c: Cluster) {
    let path = four(&c).await;
    create(&c, &path, &held(config_map("e"))).await;
    let before = left(&c, &path).await;
    let answer = c.api().delete(&path, ()).await.expect(200);
    assert_eq!(answer["kind"], "ConfigMapList");
    assert_eq!(answer["items"], before["items"]);
    let after = left(&c, &path).await;
    assert_eq!(names(&after), ["e"]);
    assert!(is_marked(&after["items"][0]));
}

async fn selectors_choose(c: Cluster) {
    let path = four(&c).await;
    let by_field = format!("{path}?fieldSelector={}", escaped("metadata.name=b"));
    let answer = c.api().delete(&by_field, ()).await.expect(200);
    assert_eq!(names(&answer), ["b"]);
    assert_eq!(names(&left(&c, &path).await), ["a", "c", "d"]);
    let by_label = format!("{path}?labelSelector={}", escaped("x=1"));
    let answer = c.api().delete(&by_label, ()).await.expect(200);
    assert_eq!(names(&answer), ["a", "c"]);
    assert_eq!(names(&left(&c, &path).await), ["d"]);
}

async fn finalizers_hold(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    create(&c, &path, &held(config_map("a"))).await;
    create(&c, &path, &config_map("b")).await;
    for _ in 0..2 {
        c.api().delete(&path, ()).await.expect(200);
        let after = left(&c, &path).await;
        assert_eq!(names(&after), ["a"]);
        assert_eq!(finalizers(&after["items"][0]), [HOLD]);
        assert!(is_marked(&after["items"][0]));
    }
}

async fn policy_counts_for_each(c: Cluster) {
    let path = four(&c).await;
    let options = json!({"propagationPolicy": "Foreground"});
    c.api().delete(&path, options).await.expect(200);
    let after = left(&c, &path).await;
    assert_eq!(names(&after), ["a", "b", "c", "d"]);
    let items = after["items"].as_array().expect("items is a list");
    assert!(
        items
            .iter()
            .all(|item| finalizers(item) == ["foregroundDeletion"]),
        "{after:#}"
    );
    let background = format!("{path}?propagationPolicy=Background");
    c.api().delete(&background, ()).await.expect(200);
    assert_eq!(names(&left(&c, &path).await), [""; 0]);
}

async fn limit_deletes_one_page(c: Cluster) {
    let path = four(&c).await;
    let answer = c.api().delete(&format!("{path}?limit=3"), ()).await.expect(200);
    assert_eq!(names(&answer), ["a", "b", "c"]);
    assert!(answer["metadata"]["continue"].is_string(), "{answer:#}");
    assert_eq!(names(&left(&c, &path).await), ["d"]);
}

async fn dry_run_deletes_nothing(c: Cluster) {
    let path = four(&c).await;
    let before = left(&c, &path).await;
    let answer = c
        .api()
        .delete(&format!("{path}?dryRun=All"), ())
        .await
        .expect(200);
    assert_eq!(answer["items"], before["items"]);
    assert_eq!(left(&c, &path).await["items"], before["items"]);
}

async fn refusals_delete_nothing(c: Cluster) {
    let path = four(&c).await;
    for query in [
        format!("labelSelector={}", escaped("!!")),
        format!("fieldSelector={}", escaped("data.x=1")),
        "limit=x".to_owned(),
    ] {
        c.api()
            .delete(&format!("{path}?{query}"), ())
            .await
            .expect_error(400, "BadRequest");
    }
    c.api()
        .delete(&path, json!({"propagationPolicy": "Nope"}))
        .await
        .expect_error(422, "Invalid");
    assert_eq!(names(&left(&c, &path).await), ["a", "b", "c", "d"]);
}

async fn wrong_uid_is_a_conflict(c: Cluster) {
    let path = four(&c).await;
    let options = json!({"preconditions": {"uid": "other"}});
    c.api().delete(&path, options).await.expect_error(409, "Conflict");
    assert_eq!(names(&left(&c, &path).await), ["a", "b", "c", "d"]);
}

async fn pods_go_gracefully_each(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let long = with(bound_pod("c"), "/spec/terminationGracePeriodSeconds", json!(90));
    for pod in [pod("a"), bound_pod("b"), long] {
        create(&c, &path, &pod).await;
    }
    c.api().delete(&path, ()).await.expect(200);
    let after = left(&c, &path).await;
    assert_eq!(names(&after), ["b", "c"]);
    let period = |at: usize| &after["items"][at]["metadata"]["deletionGracePeriodSeconds"];
    assert_eq!((period(0), period(1)), (&json!(30), &json!(90)));
    let forced = format!("{path}?gracePeriodSeconds=0");
    c.api().delete(&forced, ()).await.expect(200);
    assert_eq!(names(&left(&c, &path).await), [""; 0]);
}

async fn collections_that_cannot_be_deleted(c: Cluster) {
    for path in ["/api/v1/namespaces", "/api/v1/configmaps"] {
        c.api()
            .delete(path, ())
            .await
            .expect_error(405, "MethodNotAllowed");
    }
}
