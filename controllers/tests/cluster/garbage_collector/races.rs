//! Changes of an object that the collector is about to delete.

use serde_json::json;
use steersman_harness::fixtures::MERGE;
use steersman_harness::{Test, time};

use super::fixture::{Fixture, is_terminating};

pub fn tests() -> Vec<Test> {
    [
        each!(object_with_a_new_owner_is_kept),
        each!(object_without_owners_is_kept),
        each!(constantly_changing_garbage_is_deleted),
        each!(dependents_of_short_lived_owners_are_deleted),
    ]
    .concat()
}

/// Replaces the owners of objects just after the deletion of their owner. An object whose patch succeeded must be kept.
async fn replace_owners_of_garbage(f: &Fixture, new_owners: impl Fn() -> Vec<serde_json::Value>) {
    let mut kept = Vec::new();
    for round in 0..15 {
        let owner = f.create(&format!("owner-{round}"), &[]).await;
        let mine = f.create(&format!("mine-{round}"), &[owner.reference()]).await;
        f.delete_observed(&owner, "Background").await;
        let change = json!({"metadata": {"ownerReferences": new_owners()}});
        let reply = f.c.api().patch(&mine.path, MERGE, change).await;
        reply.check(matches!(reply.status, 200 | 404), "neither patched nor not found");
        if reply.status == 200 && !is_terminating(&reply.json()) {
            kept.push(mine);
        }
    }
    f.assert_kept(&kept.iter().collect::<Vec<_>>()).await;
}

async fn object_with_a_new_owner_is_kept(f: Fixture) {
    let solid = f.create("solid", &[]).await;
    replace_owners_of_garbage(&f, || vec![solid.blocking()]).await;
}

async fn object_without_owners_is_kept(f: Fixture) {
    replace_owners_of_garbage(&f, Vec::new).await;
}

async fn constantly_changing_garbage_is_deleted(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create("mine", &[owner.reference()]).await;
    f.delete_observed(&owner, "Background").await;
    let mut count = 0;
    f.until("the object is deleted", async || {
        let from = time::now();
        for _ in 0..20 {
            count += 1;
            let change = json!({"metadata": {"annotations": {"example.com/count": count.to_string()}}});
            let reply = f.c.api().patch(&mine.path, MERGE, change).await;
            if reply.status == 404 {
                return Some(());
            }
            reply.expect(200);
        }
        // The slower the machine, the longer the collector takes between a change and its DELETE.
        time::pause(from.elapsed()).await;
        None
    })
    .await;
}

async fn dependents_of_short_lived_owners_are_deleted(f: Fixture) {
    let mut all = Vec::new();
    for round in 0..20 {
        let owner = f.create(&format!("owner-{round}"), &[]).await;
        for index in 0..3 {
            let name = format!("mine-{round}-{index}");
            all.push(f.create(&name, &[owner.blocking()]).await);
        }
        let policy = ["Background", "Foreground"][round % 2];
        f.delete(&owner, policy).await;
        all.push(owner);
    }
    f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
}
