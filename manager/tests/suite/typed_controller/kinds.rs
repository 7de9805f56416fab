//! Kinds that the API server does not serve, or serves with other fields than the type.

use steersman_harness::Log;
use steersman_manager::client::{Delete, Patch};
use steersman_manager::source::Trigger;
use tracing::level_filters::LevelFilter;

use super::*;

const CRDS: Resource = Resource::cluster(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
);

/// Returns the definition of boats with these versions. Their schemas allow any field.
fn crd(versions: &[(&str, bool)]) -> Value {
    let mut crd = serde_json::to_value(Boat::crd()).expect("a CRD");
    let mut version = crd["spec"]["versions"][0].take();
    version["schema"] =
        json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = versions.iter().map(|(name, served)| {
        let mut version = version.clone();
        version["name"] = json!(name);
        version["served"] = json!(served);
        version["storage"] = json!(*name == "v1");
        version
    });
    crd["spec"]["versions"] = versions.collect();
    crd
}

/// Asserts that the health check of the controller names the kind that it waits for.
#[track_caller]
fn assert_waiting(f: &Fixture) {
    let health = f.health("boat");
    assert!(
        matches!(&health, Health::Note(why) if why.starts_with("waiting for boats.example.com (unavailable")),
        "{health:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn controller_of_an_unserved_kind_starts_when_it_is_served() {
    let (f, seen) = (Fixture::with_crds(""), Seen::default());
    f.observe(Controller::<Boat>::new("boat").reconcile(record(&seen)));
    f.env.clock.sleep(HOUR).await;
    assert_waiting(&f);
    let body = crd(&[("v1", true)]).to_string();
    let created = f.user.create::<Value>(&CRDS, "", body.into()).await;
    created.expect("created");
    f.env.clock.sleep(10 * SECOND).await;
    assert_eq!(f.health("boat"), Health::Ok);
    f.boat("a").await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
}

#[tokio::test(start_paused = true)]
async fn controller_of_an_unserved_version_waits_and_treats_no_object_as_deleted() {
    let served = |v1, v2| crd(&[("v1", v1), ("v2", v2)]);
    let f = Fixture::with_crds(&served(true, true).to_string());
    let (seen, trigger) = (Seen::default(), Trigger::new());
    let set_served = async |v1, v2| {
        let patch = json!({"spec": {"versions": served(v1, v2)["spec"]["versions"]}});
        let (name, patch) = (Key::new("", "boats.example.com"), Patch::merge(&patch));
        let patched = f.user.patch::<Value>(&CRDS, &name, patch).await;
        patched.expect("patched");
    };
    for name in ["a", "b", "c"] {
        f.boat(name).await;
    }
    let recorded = seen.clone();
    f.observe(
        Controller::<Boat>::new("boat")
            .triggered_by(&trigger)
            .reconcile(move |ctx: Context<Boat>| {
                let state = ctx.object().map_or("deleted", |_| "exists");
                recorded.add(&format!("{} {state}", ctx.key().name));
                std::future::ready(Ok::<_, ReconcileError>(Action::Done))
            }),
    );
    f.settle().await;
    assert_eq!(seen.take_sorted(), ["a exists", "b exists", "c exists"]);
    for deleted in ["b", "c"] {
        set_served(false, true).await;
        let v2 = Resource::namespaced("example.com", "v2", "boats", "Boat");
        let boat: Value = f.user.get(&v2, &key(deleted)).await.expect("served as v2");
        let uid = boat["metadata"]["uid"].as_str().expect("a uid");
        let delete = Delete::of(uid.into());
        f.user.delete(&v2, &key(deleted), &delete).await.expect("deleted");
        f.env.clock.sleep(HOUR).await;
        assert_waiting(&f);
        trigger.send(key("a"));
        trigger.send(key(deleted));
        f.env.clock.sleep(HOUR).await;
        assert_eq!(seen.take(), [""; 0], "the cached objects may be deleted");
        set_served(true, true).await;
        f.env.clock.sleep(60 * SECOND).await;
        let mut resumed = seen.take_sorted();
        resumed.dedup();
        assert_eq!(resumed, ["a exists".to_owned(), format!("{deleted} deleted")]);
        assert_eq!(f.health("boat"), Health::Ok);
        f.merge(
            &Resource::of::<Boat>(),
            "a",
            json!({"metadata": {"labels": {"after": deleted}}}),
        )
        .await;
        f.settle().await;
        assert_eq!(seen.take(), ["a exists"], "the watch works");
    }
}

#[tokio::test(start_paused = true)]
async fn undecodable_object_is_counted_and_not_reconciled() {
    let log = Log::keep(LevelFilter::WARN);
    let f = Fixture::with_crds(&crd(&[("v1", true)]).to_string());
    let (seen, trigger, boats) = (Seen::default(), Trigger::new(), Resource::of::<Boat>());
    let boat = |name: &str, oars: Value| json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": {"oars": oars}});
    f.create(&boats, boat("bad", json!("many"))).await;
    f.create(&boats, boat("good", json!(8))).await;
    f.observe(
        Controller::<Boat>::new("boat")
            .triggered_by(&trigger)
            .reconcile(record(&seen)),
    );
    let undecodable = || {
        f.metric(
            r#"test_cache_undecodable_objects{group="example.com",name="test",resource="boats",version="v1"}"#,
        )
    };
    f.settle().await;
    assert_eq!(seen.take(), ["default/good"]);
    assert_eq!(undecodable(), 1);
    trigger.send(key("bad"));
    f.settle().await;
    assert_eq!(
        seen.take(),
        [""; 0],
        "it exists, so it is not reconciled as deleted"
    );
    let logged = log.text();
    assert!(
        logged.contains("object=Boat/default/bad") && logged.contains("the object cannot be decoded"),
        "{logged}"
    );
    f.merge(&boats, "bad", json!({"spec": {"oars": 8}})).await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/bad"]);
    assert_eq!(undecodable(), 0);
}
