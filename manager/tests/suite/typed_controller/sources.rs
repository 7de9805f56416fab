//! The sources of a controller: its own objects, owned and watched objects, triggers and resyncs.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use steersman_manager::object::{Meta, MetadataOf};
use steersman_manager::predicate::Predicate;
use steersman_manager::source::Trigger;
use steersman_sandbox::faults::Matcher;

use super::*;

/// A projection without `data`: a change of the data enqueues nothing.
#[derive(Debug, PartialEq, Deserialize)]
struct Immutable {
    metadata: Meta,
    #[serde(default)]
    immutable: bool,
}

steersman_manager::projection!(Immutable of ConfigMap, annotations: ["kept"]);

#[tokio::test(start_paused = true)]
async fn sources_enqueue_by_owner_and_by_function() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let (a, b) = (f.boat("a").await, f.boat("b").await);
    f.run(
        Controller::<Boat>::new("boat")
            .owns::<MetadataOf<ConfigMap>>()
            .owns_shared::<Secret>()
            .watches::<Immutable>(|map| {
                let boat = map.metadata.annotations.get("kept");
                boat.map(|name| key(name)).into_iter().collect()
            })
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take_sorted(), ["default/a", "default/b"]);
    let owner = |boat: &Boat, controller: bool| {
        json!({"apiVersion": "example.com/v1", "kind": "Boat", "name": boat.name_any(), "uid": boat.uid(),
            "controller": controller})
    };
    f.map(json!({"name": "owned", "ownerReferences": [owner(&a, true), owner(&b, false)]}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"], "the controller only");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata":
        {"name": "shared", "ownerReferences": [owner(&a, true), owner(&b, false)]}});
    f.create(&Resource::of::<Secret>(), secret).await;
    f.settle().await;
    assert_eq!(seen.take_sorted(), ["default/a", "default/b"]);
    f.map(json!({"name": "mapped", "annotations": {"kept": "b", "dropped": "a"}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/b"]);
    let maps = Resource::of::<ConfigMap>();
    f.merge(&maps, "mapped", json!({"data": {"x": "y"}})).await;
    f.settle().await;
    assert_eq!(seen.take(), [""; 0], "the projection has not changed");
    f.merge(&maps, "mapped", json!({"immutable": true})).await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/b"]);
}

#[tokio::test(start_paused = true)]
async fn projections_of_one_resource_share_its_watch() {
    let (f, seen) = (Fixture::new(), Seen::default());
    f.run(
        Controller::<Boat>::new("boat")
            .owns::<ConfigMap>()
            .owns::<MetadataOf<ConfigMap>>()
            .watches::<Immutable>(|_| Vec::new())
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(f.faults.open_watches(&Matcher::any().resource("configmaps")), 1);
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_watched_for_its_metadata_only_is_requested_as_metadata() {
    let (f, seen) = (Fixture::new(), Seen::default());
    f.run(
        Controller::<Boat>::new("boat")
            .owns::<MetadataOf<ConfigMap>>()
            .reconcile(record(&seen)),
    );
    f.settle().await;
    for verb in ["list", "watch"] {
        let sent = f.faults.requests(&Matcher::verb(verb).resource("configmaps"));
        assert!(!sent.is_empty(), "{verb}");
        let partial = |accept: &str| accept.starts_with("application/json;as=PartialObjectMetadata");
        assert!(sent.iter().all(|it| partial(it.header("accept"))), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn filter_applies_to_the_own_objects() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let boats = Resource::of::<Boat>();
    f.boat("a").await;
    let filter = Predicate::generation_changed().or(Predicate::annotations_changed());
    f.run(
        Controller::<Boat>::new("boat")
            .filter(filter)
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
    f.merge(&boats, "a", json!({"metadata": {"labels": {"x": "y"}}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), [""; 0]);
    f.merge(&boats, "a", json!({"metadata": {"annotations": {"x": "y"}}}))
        .await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
    f.merge(&boats, "a", json!({"spec": {"oars": 4}})).await;
    f.settle().await;
    assert_eq!(seen.take(), ["default/a"]);
}

#[tokio::test(start_paused = true)]
async fn trigger_enqueues_keys_from_outside() {
    let (f, seen, trigger) = (Fixture::new(), Seen::default(), Trigger::new());
    trigger.send(key("early"));
    trigger.send(key("early"));
    f.run(
        Controller::<Boat>::new("boat")
            .triggered_by(&trigger)
            .reconcile(record(&seen)),
    );
    f.settle().await;
    assert_eq!(seen.take(), ["default/early"], "sent before the term, once");
    trigger.send(key("late"));
    f.settle().await;
    assert_eq!(seen.take(), ["default/late"]);
}

#[tokio::test(start_paused = true)]
async fn existing_object_is_resynced() {
    let (f, seen) = (Fixture::new(), Seen::default());
    f.boat("a").await;
    f.run(
        Controller::<Boat>::new("boat")
            .resync(HOUR)
            .reconcile(record(&seen)),
    );
    // The jitter is up to a tenth.
    f.env.clock.sleep(3 * HOUR + HOUR / 2).await;
    assert_eq!(seen.take(), ["default/a"; 4]);
    let boats = f.user.api::<Boat>();
    let boat = boats.get(&key("a")).await.expect("an answer").expect("a boat");
    assert!(boats.delete(&boat).await.expect("deleted"));
    f.env.clock.sleep(5 * HOUR).await;
    assert_eq!(seen.take().len(), 1, "for the deletion");
}
