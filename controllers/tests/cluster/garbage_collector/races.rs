//! What happens to an object while the collector is about to delete it.

use coxswain_tests::Test;
use coxswain_tests::fixtures::MERGE;
use serde_json::json;

use super::stage::{Stage, is_marked};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(an_object_that_changes_owners_in_time_stays),
        each!(an_object_that_loses_its_owners_in_time_stays),
        each!(an_object_that_changes_all_the_time_goes),
        each!(an_owner_that_is_there_for_a_moment_leaves_nothing),
    ]
    .concat()
}

/// Its owner goes, and at the same moment it gets these others: who was told that it is so can rely on it.
async fn swapped(s: &Stage, others: impl Fn() -> Vec<serde_json::Value>) {
    let mut kept = Vec::new();
    for round in 0..15 {
        let owner = s.thing(&format!("owner-{round}"), &[]).await;
        let mine = s.thing(&format!("mine-{round}"), &[owner.reference()]).await;
        s.seen().await;
        s.delete(&owner, "Background").await;
        let change = json!({"metadata": {"ownerReferences": others()}});
        let reply = s.c.api().patch(&mine.path, MERGE, change).await;
        reply.check(matches!(reply.status, 200 | 404), "neither changed nor gone");
        if reply.status == 200 && !is_marked(&reply.json()) {
            kept.push(mine);
        }
    }
    s.stay(&kept.iter().collect::<Vec<_>>()).await;
}

async fn an_object_that_changes_owners_in_time_stays(s: Stage) {
    let solid = s.thing("solid", &[]).await;
    swapped(&s, || vec![solid.blocking()]).await;
}

async fn an_object_that_loses_its_owners_in_time_stays(s: Stage) {
    swapped(&s, Vec::new).await;
}

/// Somebody writes to it as fast as the server can take it.
async fn an_object_that_changes_all_the_time_goes(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.thing("mine", &[owner.reference()]).await;
    s.seen().await;
    s.delete(&owner, "Background").await;
    let mut count = 0;
    s.until("it is gone", async || {
        for _ in 0..20 {
            count += 1;
            let change = json!({"metadata": {"annotations": {"example.com/count": count.to_string()}}});
            let reply = s.c.api().patch(&mine.path, MERGE, change).await;
            if reply.status == 404 {
                return Some(());
            }
            reply.expect(200);
        }
        None
    })
    .await;
}

async fn an_owner_that_is_there_for_a_moment_leaves_nothing(s: Stage) {
    let mut all = Vec::new();
    for round in 0..20 {
        let owner = s.thing(&format!("owner-{round}"), &[]).await;
        for index in 0..3 {
            let name = format!("mine-{round}-{index}");
            all.push(s.thing(&name, &[owner.blocking()]).await);
        }
        let policy = ["Background", "Foreground"][round % 2];
        s.delete(&owner, policy).await;
        all.push(owner);
    }
    s.gone(&all.iter().collect::<Vec<_>>()).await;
}
