//! Cycles of ownerReferences.

use serde_json::Value;
use steersman_harness::Test;

use super::fixture::{Fixture, Object, finalizers, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(cycle_without_deletion_is_kept),
        each!(cycle_in_background_deletion_is_deleted),
        each!(cycle_in_foreground_deletion_is_deleted),
        each!(object_that_owns_itself_is_deleted_in_foreground, Ours),
        each!(cycle_with_all_members_in_foreground_deletion_is_deleted, Ours),
        each!(orphan_deletion_opens_a_cycle),
        each!(cycle_member_with_another_owner_is_kept),
        each!(cycle_of_dependents_is_kept),
        each!(cycles_with_a_common_member_are_deleted),
    ]
    .concat()
}

/// Creates a cycle: each member is owned by the previous one.
async fn create_cycle(f: &Fixture, length: usize, reference: fn(&Object) -> Value) -> Vec<Object> {
    let mut all = Vec::new();
    for index in 0..length {
        let owners: Vec<Value> = all.last().map(reference).into_iter().collect();
        all.push(f.create(&format!("member-{length}-{index}"), &owners).await);
    }
    f.set_owners(&all[0], &[reference(&all[length - 1])]).await;
    f.wait_observed().await;
    all
}

async fn cycle_without_deletion_is_kept(f: Fixture) {
    for length in 1..=5 {
        let all = create_cycle(&f, length, Object::blocking).await;
        f.assert_kept(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn cycle_in_background_deletion_is_deleted(f: Fixture) {
    for length in 1..=5 {
        let all = create_cycle(&f, length, Object::blocking).await;
        f.delete(&all[0], "Background").await;
        f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn cycle_in_foreground_deletion_is_deleted(f: Fixture) {
    for length in 2..=5 {
        for reference in [Object::blocking, Object::reference] {
            let all = create_cycle(&f, length, reference).await;
            f.delete(&all[length / 2], "Foreground").await;
            f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
        }
    }
}

/// kube-controller-manager never deletes it: the object blocks itself.
async fn object_that_owns_itself_is_deleted_in_foreground(f: Fixture) {
    let itself = f.create("itself", &[]).await;
    f.set_owners(&itself, &[itself.blocking()]).await;
    let mine = f.create("mine", &[itself.blocking()]).await;
    f.delete_observed(&itself, "Foreground").await;
    f.wait_deleted(&[&mine, &itself]).await;
}

/// In kube-controller-manager the members block each other.
async fn cycle_with_all_members_in_foreground_deletion_is_deleted(f: Fixture) {
    for length in 2..=5 {
        let all = create_cycle(&f, length, Object::blocking).await;
        for thing in &all {
            let options = serde_json::json!({"propagationPolicy": "Foreground"});
            // The collector may have deleted it.
            let reply = f.c.api().delete(&thing.path, options).await;
            reply.check(matches!(reply.status, 200 | 404), "neither deleted nor not found");
        }
        f.wait_deleted(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn orphan_deletion_opens_a_cycle(f: Fixture) {
    for length in 2..=5 {
        let all = create_cycle(&f, length, Object::blocking).await;
        f.delete(&all[0], "Orphan").await;
        f.wait_deleted(&[&all[0]]).await;
        let rest: Vec<_> = all[1..].iter().collect();
        f.assert_kept(&rest).await;
        assert_eq!(owners(&f.get(rest[0]).await), Vec::<String>::new());
    }
}

async fn cycle_member_with_another_owner_is_kept(f: Fixture) {
    for policy in ["Background", "Foreground"] {
        let solid = f.create(&format!("solid-{}", policy.to_lowercase()), &[]).await;
        let all = create_cycle(&f, 4, Object::blocking).await;
        f.set_owners(&all[2], &[all[1].blocking(), solid.blocking()])
            .await;
        f.delete_observed(&all[0], policy).await;
        f.wait_deleted(&[&all[0], &all[1]]).await;
        f.wait_for(&all[2], "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        f.assert_kept(&[&all[2], &all[3], &solid]).await;
        assert!(finalizers(&f.get(&all[3]).await).is_empty());
        f.delete(&solid, "Background").await;
        f.wait_deleted(&[&all[2], &all[3]]).await;
    }
}

/// Its members are live owners of each other.
async fn cycle_of_dependents_is_kept(f: Fixture) {
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = f.create(&format!("owner-{name}"), &[]).await;
        let one = f.create(&format!("one-{name}"), &[owner.blocking()]).await;
        let two = f.create(&format!("two-{name}"), &[one.blocking()]).await;
        f.set_owners(&one, &[owner.blocking(), two.blocking()]).await;
        let itself = f.create(&format!("itself-{name}"), &[owner.blocking()]).await;
        f.set_owners(&itself, &[itself.blocking(), owner.blocking()])
            .await;
        f.delete_observed(&owner, policy).await;
        f.wait_deleted(&[&owner]).await;
        f.wait_for(&one, "has one owner", |now| owners(now) == [&*two.uid])
            .await;
        f.wait_for(&itself, "owns itself", |now| owners(now) == [&*itself.uid])
            .await;
        f.assert_kept(&[&one, &two, &itself]).await;
        f.delete(&itself, "Background").await;
        f.delete(&two, policy).await;
        f.wait_deleted(&[&one, &two, &itself]).await;
    }
}

async fn cycles_with_a_common_member_are_deleted(f: Fixture) {
    for policy in ["Background", "Foreground"] {
        let common = f.create("common", &[]).await;
        let left = f.create("left", &[common.blocking()]).await;
        let right = f.create("right", &[common.blocking()]).await;
        f.set_owners(&common, &[left.blocking(), right.blocking()]).await;
        f.delete_observed(&common, policy).await;
        f.wait_deleted(&[&common, &left, &right]).await;
    }
}
