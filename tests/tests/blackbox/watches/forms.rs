//! Watches of `Table` and `PartialObjectMetadata`.

use coxswain_tests::{Cluster, Test, Watch, test};
use serde_json::{Value, json};

use crate::support::{MERGE, core, create, pod, until_end, version};

pub fn tests() -> Vec<Test> {
    vec![
        test!(tables),
        test!(objects_in_tables),
        test!(metadata),
        test!(bookmarks_of_metadata),
        test!(unknown_form_is_not_acceptable),
        test!(stream_parameter_is_accepted),
    ]
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Creates a pod, changes its status, removes it, and returns a watch of that.
async fn watched(c: &Cluster, accept: &str, query: &str) -> Watch {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let list = c.api().get(&path).await.expect(200);
    create(c, &path, &pod("a")).await;
    let change = json!({"status": {"phase": "Running"}});
    c.api()
        .patch(&format!("{path}/a/status"), MERGE, change)
        .await
        .expect(200);
    c.api()
        .delete(&format!("{path}/a?gracePeriodSeconds=0"), ())
        .await
        .expect(200);
    let query = format!("{path}?watch=1&resourceVersion={}{query}", version(&list));
    c.api().watch_with(&query, &[("accept", accept)]).await
}

/// Each event is a table of one row; only the first has columns.
async fn tables(c: Cluster) {
    let mut watch = watched(&c, TABLE, "").await;
    let mut last = 0;
    for (kind, status) in [
        ("ADDED", "Pending"),
        ("MODIFIED", "Running"),
        ("MODIFIED", "Terminating"),
        ("DELETED", "Terminating"),
    ] {
        let table = watch.expect(kind).await;
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        let columns = table["columnDefinitions"].as_array().map(Vec::len);
        let expected = if kind == "ADDED" { Some(9) } else { None };
        assert_eq!(columns, expected, "{table:#}");
        let rows = table["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (&rows[0]["cells"][0], &rows[0]["cells"][2]),
            (&json!("a"), &json!(status))
        );
        assert_eq!(rows[0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(version(&table), version(&rows[0]["object"]));
        assert!(version(&table) > last);
        last = version(&table);
    }
}

async fn objects_in_tables(c: Cluster) {
    let mut watch = watched(&c, TABLE, "&includeObject=Object").await;
    let table = watch.expect("ADDED").await;
    let object = &table["rows"][0]["object"];
    assert_eq!(
        (&object["kind"], &object["spec"]["containers"][0]["name"]),
        (&json!("Pod"), &json!("c"))
    );
    let mut watch = watched(&c, TABLE, "&includeObject=None").await;
    assert_eq!(watch.expect("ADDED").await["rows"][0]["object"], Value::Null);
}

async fn metadata(c: Cluster) {
    let mut watch = watched(&c, METADATA, "").await;
    let mut last = 0;
    for kind in ["ADDED", "MODIFIED", "MODIFIED", "DELETED"] {
        let object = watch.expect(kind).await;
        let fields: Vec<_> = object.as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["apiVersion", "kind", "metadata"]);
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!(object["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(object["metadata"]["name"], "a");
        assert!(version(&object) > last);
        last = version(&object);
    }
}

async fn bookmarks_of_metadata(c: Cluster) {
    let (ns, other) = (c.namespace().await, c.namespace().await);
    let path = core(&ns, "pods");
    let state = c.api().get(&path).await.expect(200);
    let query = format!(
        "{path}?watch=1&timeoutSeconds=6&allowWatchBookmarks=true&resourceVersion={}",
        version(&state)
    );
    let mut watch = c.api().watch_with(&query, &[("accept", METADATA)]).await;
    // There are four seconds for it until a bookmark comes.
    let made = create(&c, &core(&other, "pods"), &pod("x")).await;
    let events = until_end(&mut watch).await;
    let last = events.last().expect("a bookmark");
    assert_eq!(
        (&last["type"], &last["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("PartialObjectMetadata"))
    );
    assert!(version(&last["object"]) >= version(&made));
}

async fn unknown_form_is_not_acceptable(c: Cluster) {
    let ns = c.namespace().await;
    let headers = [("accept", "application/json;as=Nope;v=v1;g=meta.k8s.io")];
    let path = core(&ns, "pods?watch=1");
    let reply = c.api().request(http::Method::GET, &path, &headers, ()).await;
    reply.expect_error(406, "NotAcceptable");
}

async fn stream_parameter_is_accepted(c: Cluster) {
    let mut watch = watched(&c, "application/json;stream=watch", "").await;
    assert_eq!(watch.header("content-type"), Some("application/json"));
    assert_eq!(watch.expect("ADDED").await["kind"], "Pod");
}
