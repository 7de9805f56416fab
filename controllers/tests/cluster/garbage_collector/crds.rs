//! CRDs created and deleted while the collector runs.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_harness::fixtures::{self, CRDS};
use steersman_harness::{Test, time};

use super::fixture::{Fixture, GROUP, Kind, NEW_KIND_TIMEOUT, crd, serve, text};
use crate::controllers::WAIT_MAX;

pub fn tests() -> Vec<Test> {
    [
        each!(objects_of_a_new_kind_are_collected, [ConfigMap]),
        each!(every_new_kind_is_collected, [ConfigMap], Ours),
        each!(dependents_of_a_deleted_kind_are_collected, [ConfigMap]),
        each!(recreated_kind_is_collected, [ConfigMap], Ours),
    ]
    .concat()
}

/// A CRD of one test.
struct CustomKind {
    kind: String,
    plural: String,
}

impl CustomKind {
    async fn create_crd(f: &Fixture, name: &str) -> Self {
        let kind = format!("{name}{}", f.ns.replace('-', ""));
        serve(&f.c, &crd(&kind, "Namespaced", &[("v1", true)])).await;
        let plural = format!("{}s", kind.to_lowercase());
        Self { kind, plural }
    }

    fn path(&self, f: &Fixture) -> String {
        fixtures::group(&format!("{GROUP}/v1"), &f.ns, &self.plural)
    }

    /// Creates an object and returns an ownerReference to it.
    async fn create(&self, f: &Fixture, name: &str, owners: &[Value]) -> Value {
        let change = json!({"metadata": {"ownerReferences": owners}});
        let object = fixtures::with(fixtures::named(&format!("{GROUP}/v1"), &self.kind, name), change);
        let created = f.c.api().post(&self.path(f), object).await.expect(201);
        let uid = text(&created["metadata"]["uid"]);
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": self.kind, "name": name, "uid": uid,
            "blockOwnerDeletion": true,
        })
    }

    /// Waits until an object is deleted and returns the duration.
    async fn wait_deleted(&self, f: &Fixture, name: &str, limit: Duration) -> Duration {
        let path = format!("{}/{name}", self.path(f));
        let from = time::now();
        let deleted = time::eventually(limit, async || {
            (f.c.api().get(&path).await.status == 404).then_some(())
        });
        assert!(deleted.await.is_some(), "{path} exists after {limit:?}");
        from.elapsed()
    }

    async fn delete_crd(&self, f: &Fixture) {
        let path = format!("{CRDS}/{}.{GROUP}", self.plural);
        f.c.api().delete(&path, ()).await.expect(200);
        // A lagging API server serves the old CRD and rejects objects of a recreated one.
        let objects = self.path(f);
        for path in [path, objects] {
            f.wait_path_deleted(&path).await;
        }
    }
}

/// Objects created before and after the discovery of the kind.
async fn objects_of_a_new_kind_are_collected(f: Fixture) {
    let custom = CustomKind::create_crd(&f, "Fresh").await;
    let owner = custom.create(&f, "owner", &[]).await;
    custom.create(&f, "mine", std::slice::from_ref(&owner)).await;
    let map = f.create_kind(Kind::ConfigMap, "map", &[owner]).await;
    custom
        .create(&f, "garbage", &[f.absent_owner(Kind::ConfigMap)])
        .await;
    custom.wait_deleted(&f, "garbage", NEW_KIND_TIMEOUT).await;
    f.assert_kept(&[&map]).await;
    let path = format!("{}/owner", custom.path(&f));
    f.c.api()
        .get(&format!("{}/mine", custom.path(&f)))
        .await
        .expect(200);
    f.c.api()
        .delete(&path, json!({"propagationPolicy": "Foreground"}))
        .await
        .expect(200);
    custom.wait_deleted(&f, "owner", WAIT_MAX).await;
    custom.wait_deleted(&f, "mine", WAIT_MAX).await;
    f.wait_deleted(&[&map]).await;
    custom.delete_crd(&f).await;
}

/// Another suite asserts the limit of a second on a paused clock; here the durations are printed.
async fn every_new_kind_is_collected(f: Fixture) {
    // Excludes the startup of the collector.
    f.create_kind(Kind::Widget, "first", &[]).await;
    f.wait_observed().await;
    let mut times = Vec::new();
    for round in 0..5 {
        let custom = CustomKind::create_crd(&f, &format!("Quick{round}")).await;
        custom
            .create(&f, "garbage", &[f.absent_owner(Kind::ConfigMap)])
            .await;
        times.push(custom.wait_deleted(&f, "garbage", NEW_KIND_TIMEOUT).await);
        custom.delete_crd(&f).await;
    }
    times.sort();
    println!("garbage of a new kind was collected after {times:?}");
}

/// The objects of a CRD are deleted with it, and then their dependents.
async fn dependents_of_a_deleted_kind_are_collected(f: Fixture) {
    let custom = CustomKind::create_crd(&f, "Leaving").await;
    custom
        .create(&f, "garbage", &[f.absent_owner(Kind::ConfigMap)])
        .await;
    custom.wait_deleted(&f, "garbage", NEW_KIND_TIMEOUT).await;
    let owner = custom.create(&f, "owner", &[]).await;
    let map = f
        .create_kind(Kind::ConfigMap, "map", std::slice::from_ref(&owner))
        .await;
    let solid = f.create_kind(Kind::ConfigMap, "solid", &[]).await;
    let both = f
        .create_kind(Kind::ConfigMap, "both", &[owner, solid.reference()])
        .await;
    f.assert_kept(&[&map, &both]).await;
    custom.delete_crd(&f).await;
    f.wait_deleted(&[&map]).await;
    f.wait_for(&both, "has one owner", |now| {
        super::fixture::owners(now) == [&*solid.uid]
    })
    .await;
    f.assert_kept(&[&both]).await;
}

async fn recreated_kind_is_collected(f: Fixture) {
    for _ in 0..2 {
        let custom = CustomKind::create_crd(&f, "Again").await;
        let owner = custom.create(&f, "owner", &[]).await;
        custom
            .create(&f, "garbage", &[f.absent_owner(Kind::ConfigMap)])
            .await;
        custom.wait_deleted(&f, "garbage", NEW_KIND_TIMEOUT).await;
        let map = f.create_kind(Kind::ConfigMap, "map", &[owner]).await;
        f.assert_kept(&[&map]).await;
        custom.delete_crd(&f).await;
        f.wait_deleted(&[&map]).await;
    }
}
