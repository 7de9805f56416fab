//! What becomes of a definition: defaults, conditions, discovery, conflicts of names.

use coxswain_tests::{Cluster, Test, test};
use http::Method;
use serde_json::{Value, json};

use super::{CRDS, Place, condition, install, version};
use crate::support::{MERGE, create, soon, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(defaults_are_filled_in),
        test!(conditions_in_their_order),
        test!(resources_are_in_discovery),
        test!(discovery_says_which_version_is_stored),
        test!(group_is_in_discovery_until_it_goes),
        test!(cluster_scope),
        test!(generation_counts_changes_of_the_spec),
        test!(short_names_may_come_later),
        test!(kind_that_is_taken_is_not_accepted),
        test!(name_is_accepted_once_it_is_free),
        test!(printer_columns),
        test!(definitions_as_a_table),
        test!(scope_is_immutable),
        test!(stored_version_must_stay),
    ]
}

async fn defaults_are_filled_in(c: Cluster) {
    let place = Place::new(&c).await;
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let crd = place.crd_of("Namespaced", &names, &[version("v1", true, true)]);
    let made = create(&c, CRDS, &crd).await;
    assert_eq!(
        made["spec"]["names"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let crd = soon("names are accepted", async || {
        let crd = c.api().get(&place.crd_path("widgets")).await.expect(200);
        (condition(&crd, "NamesAccepted")["status"] == "True").then_some(crd)
    })
    .await;
    assert_eq!(crd["status"]["acceptedNames"], made["spec"]["names"]);
    place.remove(&c).await;
}

async fn conditions_in_their_order(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = install(&c, &place.crd()).await;
    let shown: Vec<_> = crd["status"]["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .map(|c| json!([c["type"], c["status"], c["reason"], c["message"]]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            [
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ],
        ])
    );
    assert_eq!(crd["metadata"]["generation"], 1);
    place.remove(&c).await;
}

async fn discovery_says_which_version_is_stored(c: Cluster) {
    let place = Place::new(&c).await;
    let names = place.crd()["spec"]["names"].clone();
    let versions = [version("v1", true, true), version("v2", true, false)];
    install(&c, &place.crd_of("Namespaced", &names, &versions)).await;
    let hash = async |version: &str| {
        let path = format!("/apis/{}/{version}", place.group);
        soon("both versions are there", async || {
            let reply = c.api().get(&path).await;
            (reply.status == 200).then(|| reply.json()["resources"][0]["storageVersionHash"].clone())
        })
        .await
    };
    let (first, second) = (hash("v1").await, hash("v2").await);
    assert_eq!(first.as_str().map(str::len), Some(12), "{first}");
    assert_eq!(first, second);
    place.remove(&c).await;
}

async fn resources_are_in_discovery(c: Cluster) {
    let place = Place::new(&c).await;
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let v1 = with(
        version("v1", true, true),
        "/subresources",
        json!({"status": {}, "scale": scale}),
    );
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["gadgets"]});
    install(&c, &place.crd_of("Namespaced", &names, &[v1])).await;
    let path = format!("/apis/{}/v1", place.group);
    let mut list = c.api().get(&path).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!(format!("{}/v1", place.group)))
    );
    for row in list["resources"].as_array_mut().expect("resources") {
        let row = row.as_object_mut().expect("a row");
        row.remove("storageVersionHash");
    }
    let all = json!([
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch"
    ]);
    let part = json!(["get", "patch", "update"]);
    assert_eq!(
        list["resources"],
        json!([
            {"name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": all,
             "shortNames": ["wd"], "categories": ["gadgets"]},
            {"name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget", "verbs": part},
            {"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
             "kind": "Scale", "verbs": part},
        ])
    );
    place.remove(&c).await;
}

async fn in_group_list(c: &Cluster, group: &str) -> Option<Value> {
    let list = c.api().get("/apis").await.expect(200);
    let groups = list["groups"].as_array().expect("groups");
    groups.iter().find(|g| g["name"] == group).cloned()
}

async fn group_is_in_discovery_until_it_goes(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let v1 = json!({"groupVersion": format!("{}/v1", place.group), "version": "v1"});
    let listed = soon("the group is listed", async || {
        in_group_list(&c, &place.group).await
    })
    .await;
    let expected = json!({"name": place.group, "versions": [v1], "preferredVersion": v1});
    assert_eq!(listed, expected);
    place.remove(&c).await;
    soon("the group is not listed any more", async || {
        in_group_list(&c, &place.group).await.is_none().then_some(())
    })
    .await;
    let path = format!("/apis/{}", place.group);
    soon("the group is gone", async || {
        (c.api().get(&path).await.status == 404).then_some(())
    })
    .await;
}

async fn cluster_scope(c: Cluster) {
    let place = Place::new(&c).await;
    let names = place.crd()["spec"]["names"].clone();
    let crd = place.crd_of("Cluster", &names, &[version("v1", true, true)]);
    install(&c, &crd).await;
    let path = format!("/apis/{}/v1/widgets", place.group);
    let made = create(&c, &path, &place.widget("a")).await;
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    c.api().get(&format!("{path}/a")).await.expect(200);
    // The namespace of an object that has none is dropped.
    let stray = with(place.widget("b"), "/metadata/namespace", json!(place.ns));
    let made = create(&c, &path, &stray).await;
    assert_eq!(made["metadata"]["namespace"], Value::Null);
    let wrong = place.widgets("v1");
    for reply in [
        c.api().get(&wrong).await,
        c.api().post(&wrong, place.widget("c")).await,
        c.api().get(&format!("{wrong}/a")).await,
    ] {
        reply.check(reply.text() == "404 page not found\n", "expected the plain 404");
    }
    place.remove(&c).await;
}

async fn generation_counts_changes_of_the_spec(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let path = place.crd_path("widgets");
    let labels = json!({"metadata": {"labels": {"l": "1"}}});
    let crd = c.api().patch(&path, MERGE, labels).await.expect(200);
    assert_eq!(crd["metadata"]["generation"], 1);
    let names = json!({"spec": {"names": {"shortNames": ["wx"]}}});
    let crd = c.api().patch(&path, MERGE, names).await.expect(200);
    assert_eq!(crd["metadata"]["generation"], 2);
    place.remove(&c).await;
}

async fn short_names_may_come_later(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let change = json!({"spec": {"names": {"shortNames": ["wy", "wz"]}}});
    c.api()
        .patch(&place.crd_path("widgets"), MERGE, change)
        .await
        .expect(200);
    let path = format!("/apis/{}/v1", place.group);
    soon("the short names are in discovery", async || {
        let list = c.api().get(&path).await.expect(200);
        (list["resources"][0]["shortNames"] == json!(["wy", "wz"])).then_some(())
    })
    .await;
    place.remove(&c).await;
}

/// Two definitions in one group with the same kind: installs the first, creates the second, returns its judged state.
async fn conflict(c: &Cluster, place: &Place) -> Value {
    install(c, &place.crd()).await;
    let names = json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget"});
    let second = place.crd_of("Namespaced", &names, &[version("v1", true, true)]);
    create(c, CRDS, &second).await;
    soon("the conflict is found", async || {
        let crd = c.api().get(&place.crd_path("gadgets")).await.expect(200);
        (!condition(&crd, "NamesAccepted").is_null()).then_some(crd)
    })
    .await
}

async fn kind_that_is_taken_is_not_accepted(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = conflict(&c, &place).await;
    let names = condition(&crd, "NamesAccepted");
    // Of kind and list kind, the last one that conflicts is named.
    assert_eq!(
        json!([names["status"], names["reason"], names["message"]]),
        json!(["False", "ListKindConflict", "\"WidgetList\" is already in use"])
    );
    let established = condition(&crd, "Established");
    assert_eq!(
        json!([
            established["status"],
            established["reason"],
            established["message"]
        ]),
        json!(["False", "NotAccepted", "not all names are accepted"])
    );
    let accepted = json!({"plural": "gadgets", "singular": "gadget", "kind": ""});
    assert_eq!(crd["status"]["acceptedNames"], accepted);
    let list = c
        .api()
        .get(&format!("/apis/{}/v1", place.group))
        .await
        .expect(200);
    assert_eq!(list["resources"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["resources"][0]["name"], "widgets");
    c.api().delete(&place.crd_path("gadgets"), ()).await.expect(200);
    place.remove(&c).await;
}

async fn name_is_accepted_once_it_is_free(c: Cluster) {
    let place = Place::new(&c).await;
    conflict(&c, &place).await;
    place.remove(&c).await;
    soon("the second one is established", async || {
        let crd = c.api().get(&place.crd_path("gadgets")).await.expect(200);
        (condition(&crd, "Established")["status"] == "True").then_some(())
    })
    .await;
    let path = format!("/apis/{}/v1/gadgets", place.group);
    soon("the second one is served", async || {
        (c.api().get(&path).await.status == 200).then_some(())
    })
    .await;
    c.api().delete(&place.crd_path("gadgets"), ()).await.expect(200);
}

const TABLE: &[(&str, &str)] = &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];

fn columns(table: &Value) -> Value {
    let columns = table["columnDefinitions"].as_array().expect("columns");
    columns
        .iter()
        .map(|c| json!([c["name"], c["type"], c["priority"]]))
        .collect()
}

async fn printer_columns(c: Cluster) {
    let place = Place::new(&c).await;
    let own = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "description": "its colour", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
    ]);
    let v1 = with(version("v1", true, true), "/additionalPrinterColumns", own);
    let names = place.crd()["spec"]["names"].clone();
    let versions = [v1, version("v2", true, false)];
    install(&c, &place.crd_of("Namespaced", &names, &versions)).await;
    let conditions = json!([{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]);
    let a = with(place.widget("a"), "/spec/size", json!(5));
    let a = with(a, "/status/conditions", conditions);
    create(&c, &place.widgets("v1"), &a).await;
    create(&c, &place.widgets("v1"), &place.widget("b")).await;
    let table = c
        .api()
        .request(Method::GET, &place.widgets("v1"), TABLE, ())
        .await
        .expect(200);
    assert_eq!(
        columns(&table),
        json!([
            ["Name", "string", 0],
            ["Size", "integer", 0],
            ["Colour", "string", 1],
            ["Age", "date", 0],
            ["Ready", "string", 0]
        ])
    );
    assert_eq!(table["columnDefinitions"][2]["description"], "its colour");
    assert_eq!(
        table["columnDefinitions"][1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.size"
    );
    let mut cells = table["rows"][0]["cells"].clone();
    assert!(cells[3].is_string(), "an age: {cells}");
    cells[3] = json!("age");
    assert_eq!(cells, json!(["a", 5, null, "age", "True"]));
    let mut cells = table["rows"][1]["cells"].clone();
    cells[3] = json!("age");
    assert_eq!(cells, json!(["b", null, null, "age", null]));
    let table = c
        .api()
        .request(Method::GET, &place.widgets("v2"), TABLE, ())
        .await
        .expect(200);
    assert_eq!(
        columns(&table),
        json!([["Name", "string", 0], ["Age", "date", 0]])
    );
    place.remove(&c).await;
}

async fn definitions_as_a_table(c: Cluster) {
    let place = Place::new(&c).await;
    let crd = install(&c, &place.crd()).await;
    let table = c
        .api()
        .request(Method::GET, &place.crd_path("widgets"), TABLE, ())
        .await
        .expect(200);
    assert_eq!(
        columns(&table),
        json!([["Name", "string", 0], ["Created At", "date", 0]])
    );
    assert_eq!(
        table["rows"][0]["cells"],
        json!([crd["metadata"]["name"], crd["metadata"]["creationTimestamp"]])
    );
    place.remove(&c).await;
}

async fn scope_is_immutable(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let change = json!({"spec": {"scope": "Cluster"}});
    let reply = c.api().patch(&place.crd_path("widgets"), MERGE, change).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(
        (&*cause.field, &*cause.message),
        ("spec.scope", "Invalid value: \"Cluster\": field is immutable")
    );
    place.remove(&c).await;
}

async fn stored_version_must_stay(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    let change = json!({"spec": {"versions": [version("v2", true, true)]}});
    let reply = c.api().patch(&place.crd_path("widgets"), MERGE, change).await;
    reply.expect_error(422, "Invalid");
    let cause = reply.causes().swap_remove(0);
    assert_eq!(cause.field, "status.storedVersions[0]");
    // Older servers end here.
    let start = "Invalid value: \"v1\": ";
    assert!(cause.message.starts_with(start), "{cause:?}");
    place.remove(&c).await;
}
