//! One definition, several versions: the same objects under another `apiVersion`.

use coxswain_tests::{Cluster, Test, test};
use serde_json::json;

use super::{Place, install, version};
use crate::support::{MERGE, create, soon, with};

pub fn tests() -> Vec<Test> {
    vec![
        test!(versions_show_the_same_object),
        test!(version_that_is_not_served_is_not_there),
        test!(discovery_orders_versions_by_stability),
        test!(watch_shows_the_version_it_was_asked_for),
        test!(version_can_be_added),
    ]
}

/// Widgets of `v1` (stored), `v2beta1` and `v1alpha1` (not served).
async fn installed(c: &Cluster) -> Place {
    let place = Place::new(c).await;
    let names = place.crd()["spec"]["names"].clone();
    let versions = [
        version("v1alpha1", false, false),
        version("v2beta1", true, false),
        version("v1", true, true),
    ];
    install(c, &place.crd_of("Namespaced", &names, &versions)).await;
    place
}

async fn versions_show_the_same_object(c: Cluster) {
    let place = installed(&c).await;
    let made = create(&c, &place.widgets("v1"), &place.widget("a")).await;
    let beta = format!("{}/v2beta1", place.group);
    let path = format!("{}/a", place.widgets("v2beta1"));
    let read = c.api().get(&path).await.expect(200);
    assert_eq!(read["apiVersion"], json!(beta));
    let metadata = |field: &str| (read["metadata"][field].clone(), made["metadata"][field].clone());
    for field in ["uid", "resourceVersion", "generation"] {
        let (read, made) = metadata(field);
        assert_eq!(read, made);
    }
    let change = json!({"spec": {"x": 1}});
    let changed = c.api().patch(&path, MERGE, change).await.expect(200);
    assert_eq!(changed["apiVersion"], json!(beta));
    let list = c.api().get(&place.widgets("v1")).await.expect(200);
    assert_eq!(list["items"][0]["apiVersion"], made["apiVersion"]);
    assert_eq!(list["items"][0]["spec"]["x"], 1);
    let list = c.api().get(&place.widgets("v2beta1")).await.expect(200);
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!(beta), &json!("WidgetList"))
    );
    assert_eq!(list["items"][0]["apiVersion"], json!(beta));
    // An object of one version is not accepted at the path of another.
    c.api()
        .post(&place.widgets("v2beta1"), place.widget("b"))
        .await
        .expect_error(400, "BadRequest");
    let widget = with(place.widget("b"), "/apiVersion", json!(beta));
    create(&c, &place.widgets("v2beta1"), &widget).await;
    place.remove(&c).await;
}

async fn version_that_is_not_served_is_not_there(c: Cluster) {
    let place = installed(&c).await;
    for path in [
        format!("/apis/{}/v1alpha1", place.group),
        place.widgets("v1alpha1"),
    ] {
        let reply = c.api().get(&path).await;
        reply.check(
            reply.status == 404 && reply.text() == "404 page not found\n",
            "expected the plain 404",
        );
    }
    place.remove(&c).await;
}

/// Not by the order of the definition: the stable one first, and it is preferred.
async fn discovery_orders_versions_by_stability(c: Cluster) {
    let place = installed(&c).await;
    let path = format!("/apis/{}", place.group);
    let group = soon("both versions are in discovery", async || {
        let reply = c.api().get(&path).await;
        let group = (reply.status == 200).then(|| reply.json())?;
        (group["versions"].as_array()?.len() == 2).then_some(group)
    })
    .await;
    let row =
        |version: &str| json!({"groupVersion": format!("{}/{version}", place.group), "version": version});
    assert_eq!(group["versions"], json!([row("v1"), row("v2beta1")]));
    assert_eq!(group["preferredVersion"], row("v1"));
    place.remove(&c).await;
}

async fn watch_shows_the_version_it_was_asked_for(c: Cluster) {
    let place = installed(&c).await;
    create(&c, &place.widgets("v1"), &place.widget("a")).await;
    let query = format!("{}?watch=1", place.widgets("v2beta1"));
    let object = c.api().watch(&query).await.expect("ADDED").await;
    assert_eq!(object["apiVersion"], json!(format!("{}/v2beta1", place.group)));
    place.remove(&c).await;
}

async fn version_can_be_added(c: Cluster) {
    let place = Place::new(&c).await;
    install(&c, &place.crd()).await;
    create(&c, &place.widgets("v1"), &place.widget("a")).await;
    let versions = [version("v1", true, true), version("v2", true, false)];
    let change = json!({"spec": {"versions": versions}});
    let crd = c
        .api()
        .patch(&place.crd_path("widgets"), MERGE, change)
        .await
        .expect(200);
    assert_eq!(crd["metadata"]["generation"], 2);
    let path = format!("{}/a", place.widgets("v2"));
    let read = soon("the new version is served", async || {
        let reply = c.api().get(&path).await;
        (reply.status == 200).then(|| reply.json())
    })
    .await;
    assert_eq!(read["apiVersion"], json!(format!("{}/v2", place.group)));
    place.remove(&c).await;
}
