//! `Table`: what `kubectl get` shows.

use coxswain_tests::{Cluster, Reply, Test, test};
use http::Method;
use serde_json::{Value, json};

use crate::support::{
    MERGE, bound_pod, config_map, core, create, deployment, object, of, pod, template, with,
};

pub fn tests() -> Vec<Test> {
    vec![
        test!(pods),
        test!(deployments),
        test!(replica_sets),
        test!(services),
        test!(nodes),
        test!(kinds_without_columns_have_name_and_creation),
        test!(rows_carry_metadata_unless_told_otherwise),
        test!(unknown_include_object_is_a_bad_request),
        test!(table_of_one_object),
        test!(table_of_pages),
        test!(table_of_nothing_has_columns),
        test!(missing_object_is_a_status),
        test!(older_version_of_tables),
    ]
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn ask(c: &Cluster, path: &str) -> Reply {
    c.api().request(Method::GET, path, &[("accept", TABLE)], ()).await
}

async fn table(c: &Cluster, path: &str) -> Value {
    let table = ask(c, path).await.expect(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert!(table["metadata"]["resourceVersion"].is_string(), "{table:#}");
    table
}

/// The columns as `name:type`, those of wide output in brackets.
fn columns(table: &Value) -> Vec<String> {
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let text = |column: &Value, field: &str| column[field].as_str().unwrap_or_default().to_owned();
    columns
        .iter()
        .map(|column| {
            let shown = format!("{}:{}", text(column, "name"), text(column, "type"));
            let format = if text(column, "name") == "Name" {
                "name"
            } else {
                ""
            };
            assert_eq!(text(column, "format"), format, "{column:#}");
            assert!(!text(column, "description").is_empty(), "{column:#}");
            if column["priority"] == 0 {
                shown
            } else {
                format!("({shown})")
            }
        })
        .collect()
}

/// The cells of a row but the age, which is the cell at `age` and a text such as `3s`.
#[track_caller]
fn cells(table: &Value, row: usize, age: usize) -> Vec<Value> {
    let mut cells = table["rows"][row]["cells"].as_array().expect("cells").clone();
    let shown = cells.remove(age);
    let shown = shown.as_str().expect("the age is a text");
    assert!(shown.ends_with('s') || shown.ends_with('m'), "{shown}");
    cells
}

fn list(value: Value) -> Vec<Value> {
    serde_json::from_value(value).expect("a list")
}

async fn pods(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    for pod in [pod("a"), bound_pod("b")] {
        create(&c, &path, &pod).await;
    }
    let statuses = json!([{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 3,
                           "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}]);
    let change = json!({"status": {"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": statuses}});
    c.api()
        .patch(&format!("{path}/b/status"), MERGE, change)
        .await
        .expect(200);
    let table = table(&c, &path).await;
    let (restarts, none, three) = if c.version() < (1, 22) {
        ("Restarts:integer", json!(0), json!(3))
    } else {
        ("Restarts:string", json!("0"), json!("3"))
    };
    assert_eq!(
        columns(&table),
        [
            "Name:string",
            "Ready:string",
            "Status:string",
            restarts,
            "Age:string",
            "(IP:string)",
            "(Node:string)",
            "(Nominated Node:string)",
            "(Readiness Gates:string)"
        ]
    );
    assert_eq!(
        cells(&table, 0, 4),
        list(json!([
            "a", "0/1", "Pending", none, "<none>", "<none>", "<none>", "<none>"
        ]))
    );
    assert_eq!(
        cells(&table, 1, 4),
        list(json!([
            "b", "1/1", "Running", three, "10.1.2.3", "node-1", "<none>", "<none>"
        ]))
    );
    c.api().delete(&format!("{path}/b"), ()).await.expect(200);
    let reply = ask(&c, &format!("{path}/b")).await.expect(200);
    assert_eq!(reply["rows"][0]["cells"][2], "Terminating");
}

async fn deployments(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "deployments");
    create(&c, &path, &deployment("a")).await;
    let status =
        json!({"status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}});
    c.api()
        .patch(&format!("{path}/a/status"), MERGE, status)
        .await
        .expect(200);
    let table = table(&c, &path).await;
    assert_eq!(
        columns(&table),
        [
            "Name:string",
            "Ready:string",
            "Up-to-date:string",
            "Available:string",
            "Age:string",
            "(Containers:string)",
            "(Images:string)",
            "(Selector:string)"
        ]
    );
    assert_eq!(
        cells(&table, 0, 4),
        list(json!(["a", "1/2", 2, 1, "c", "i", "a=b"]))
    );
}

async fn replica_sets(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("apps/v1", &ns, "replicasets");
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template()});
    create(
        &c,
        &path,
        &with(object("apps/v1", "ReplicaSet", "a"), "/spec", spec),
    )
    .await;
    let table = table(&c, &path).await;
    assert_eq!(
        columns(&table),
        [
            "Name:string",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Age:string",
            "(Containers:string)",
            "(Images:string)",
            "(Selector:string)"
        ]
    );
    assert_eq!(cells(&table, 0, 4), list(json!(["a", 2, 0, 0, "c", "i", "a=b"])));
}

async fn services(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "services");
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let spec = json!({"ports": ports, "selector": {"a": "b"}});
    let made = create(&c, &path, &with(object("v1", "Service", "a"), "/spec", spec)).await;
    let headless = json!({"clusterIP": "None", "ports": [{"port": 80}]});
    create(&c, &path, &with(object("v1", "Service", "b"), "/spec", headless)).await;
    let table = table(&c, &path).await;
    assert_eq!(
        columns(&table),
        [
            "Name:string",
            "Type:string",
            "Cluster-IP:string",
            "External-IP:string",
            "Port(s):string",
            "Age:string",
            "(Selector:string)"
        ]
    );
    let ip = &made["spec"]["clusterIP"];
    assert_eq!(
        cells(&table, 0, 5),
        list(json!(["a", "ClusterIP", ip, "<none>", "80/TCP,53/UDP", "a=b"]))
    );
    assert_eq!(
        cells(&table, 1, 5),
        list(json!(["b", "ClusterIP", "None", "<none>", "80/TCP", "<none>"]))
    );
}

async fn nodes(c: Cluster) {
    let name = format!("node-of-{}", c.namespace().await);
    let node = with(
        object("v1", "Node", &name),
        "/metadata/labels",
        json!({"node-role.kubernetes.io/worker": ""}),
    );
    create(&c, "/api/v1/nodes", &node).await;
    let path = format!("/api/v1/nodes/{name}");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.9.8.7"}],
        "nodeInfo": {"kubeletVersion": "v1.2.3", "osImage": "os", "kernelVersion": "6.1", "containerRuntimeVersion": "x://1",
                     "architecture": "", "bootID": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "systemUUID": ""}}});
    c.api()
        .patch(&format!("{path}/status"), MERGE, status)
        .await
        .expect(200);
    let table = table(&c, &path).await;
    assert_eq!(
        columns(&table),
        [
            "Name:string",
            "Status:string",
            "Roles:string",
            "Age:string",
            "Version:string",
            "(Internal-IP:string)",
            "(External-IP:string)",
            "(OS-Image:string)",
            "(Kernel-Version:string)",
            "(Container-Runtime:string)"
        ]
    );
    assert_eq!(
        cells(&table, 0, 3),
        list(json!([
            name, "Ready", "worker", "v1.2.3", "10.9.8.7", "<none>", "os", "6.1", "x://1"
        ]))
    );
    c.api().delete(&path, ()).await.expect(200);
}

/// Not an age, as the server does not count it: the time itself.
async fn kinds_without_columns_have_name_and_creation(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("rbac.authorization.k8s.io/v1", &ns, "roles");
    let made = create(&c, &path, &object("rbac.authorization.k8s.io/v1", "Role", "a")).await;
    let table = table(&c, &path).await;
    assert_eq!(columns(&table), ["Name:string", "Created At:date"]);
    assert_eq!(
        table["rows"][0]["cells"],
        json!(["a", made["metadata"]["creationTimestamp"]])
    );
}

async fn rows_carry_metadata_unless_told_otherwise(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "configmaps");
    let made = create(&c, &path, &with(config_map("a"), "/data", json!({"k": "v"}))).await;
    let metadata = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    for (query, expected) in [
        ("", &metadata),
        ("?includeObject=", &metadata),
        ("?includeObject=Metadata", &metadata),
        ("?includeObject=Object", &made),
        ("?includeObject=None", &Value::Null),
    ] {
        for path in [format!("{path}{query}"), format!("{path}/a{query}")] {
            let table = table(&c, &path).await;
            assert_eq!(&table["rows"][0]["object"], expected, "{path}");
        }
    }
}

async fn unknown_include_object_is_a_bad_request(c: Cluster) {
    let ns = c.namespace().await;
    let reply = ask(&c, &core(&ns, "configmaps?includeObject=Nope")).await;
    reply.expect_error(400, "BadRequest");
    let end = "includeObject: Invalid value: \"Nope\": must be 'Metadata', 'Object', 'None', or empty";
    reply.check(reply.message().ends_with(end), end);
}

async fn table_of_one_object(c: Cluster) {
    let ns = c.namespace().await;
    let path = core(&ns, "pods");
    let made = create(&c, &path, &pod("a")).await;
    let table = table(&c, &format!("{path}/a")).await;
    assert_eq!(
        table["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
}

async fn table_of_pages(c: Cluster) {
    let ns = c.namespace().await;
    let path = of("rbac.authorization.k8s.io/v1", &ns, "roles");
    for name in ["a", "b", "c"] {
        create(&c, &path, &object("rbac.authorization.k8s.io/v1", "Role", name)).await;
    }
    let first = table(&c, &format!("{path}?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    assert_eq!(first["rows"].as_array().map(Vec::len), Some(2));
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let second = table(&c, &format!("{path}?limit=2&continue={token}")).await;
    assert_eq!(second["rows"][0]["cells"][0], "c");
}

async fn table_of_nothing_has_columns(c: Cluster) {
    let ns = c.namespace().await;
    let table = table(&c, &core(&ns, "pods")).await;
    assert_eq!(table["rows"], json!([]));
    assert_eq!(columns(&table).len(), 9);
}

async fn missing_object_is_a_status(c: Cluster) {
    let ns = c.namespace().await;
    ask(&c, &core(&ns, "pods/nope"))
        .await
        .expect_error(404, "NotFound");
}

async fn older_version_of_tables(c: Cluster) {
    let ns = c.namespace().await;
    let accept = [("accept", "application/json;as=Table;v=v1beta1;g=meta.k8s.io")];
    let reply = c
        .api()
        .request(Method::GET, &core(&ns, "pods"), &accept, ())
        .await;
    let table = reply.expect(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1beta1"))
    );
}
