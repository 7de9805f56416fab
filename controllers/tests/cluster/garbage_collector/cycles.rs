//! Objects that own each other: nothing hangs, and nothing goes that nobody asked to go.

use coxswain_tests::Test;
use serde_json::Value;

use super::stage::{Stage, Thing, finalizers, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(a_cycle_stays_if_nobody_is_deleted),
        each!(a_cycle_goes_in_the_background),
        each!(a_cycle_goes_in_the_foreground),
        each!(what_owns_itself_goes_in_the_foreground, Ours),
        each!(a_cycle_goes_in_the_foreground_from_all_ends, Ours),
        each!(a_cycle_is_opened_by_orphaning),
        each!(a_cycle_stops_at_one_that_another_keeps),
        each!(a_cycle_below_an_owner_keeps_itself),
        each!(two_cycles_with_a_common_member_go),
    ]
    .concat()
}

/// A ring of so many, of which each is owned by the one before it.
async fn ring(s: &Stage, length: usize, reference: fn(&Thing) -> Value) -> Vec<Thing> {
    let mut all = Vec::new();
    for index in 0..length {
        let owners: Vec<Value> = all.last().map(reference).into_iter().collect();
        all.push(s.thing(&format!("ring-{length}-{index}"), &owners).await);
    }
    s.own(&all[0], &[reference(&all[length - 1])]).await;
    s.seen().await;
    all
}

async fn a_cycle_stays_if_nobody_is_deleted(s: Stage) {
    for length in 1..=5 {
        let all = ring(&s, length, Thing::blocking).await;
        s.stay(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn a_cycle_goes_in_the_background(s: Stage) {
    for length in 1..=5 {
        let all = ring(&s, length, Thing::blocking).await;
        s.delete(&all[0], "Background").await;
        s.gone(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn a_cycle_goes_in_the_foreground(s: Stage) {
    for length in 2..=5 {
        for reference in [Thing::blocking, Thing::reference] {
            let all = ring(&s, length, reference).await;
            s.delete(&all[length / 2], "Foreground").await;
            s.gone(&all.iter().collect::<Vec<_>>()).await;
        }
    }
}

/// kube-controller-manager has it wait for itself.
async fn what_owns_itself_goes_in_the_foreground(s: Stage) {
    let own = s.thing("own", &[]).await;
    s.own(&own, &[own.blocking()]).await;
    let mine = s.thing("mine", &[own.blocking()]).await;
    s.seen().await;
    s.delete(&own, "Foreground").await;
    s.gone(&[&mine, &own]).await;
}

/// In kube-controller-manager they wait for each other.
async fn a_cycle_goes_in_the_foreground_from_all_ends(s: Stage) {
    for length in 2..=5 {
        let all = ring(&s, length, Thing::blocking).await;
        for thing in &all {
            let options = serde_json::json!({"propagationPolicy": "Foreground"});
            // The collector may have been here before.
            let reply = s.c.api().delete(&thing.path, options).await;
            reply.check(matches!(reply.status, 200 | 404), "neither deleted nor gone");
        }
        s.gone(&all.iter().collect::<Vec<_>>()).await;
    }
}

async fn a_cycle_is_opened_by_orphaning(s: Stage) {
    for length in 2..=5 {
        let all = ring(&s, length, Thing::blocking).await;
        s.delete(&all[0], "Orphan").await;
        s.gone(&[&all[0]]).await;
        let rest: Vec<_> = all[1..].iter().collect();
        s.stay(&rest).await;
        assert_eq!(owners(&s.get(rest[0]).await), Vec::<String>::new());
    }
}

async fn a_cycle_stops_at_one_that_another_keeps(s: Stage) {
    for policy in ["Background", "Foreground"] {
        let solid = s.thing(&format!("solid-{}", policy.to_lowercase()), &[]).await;
        let all = ring(&s, 4, Thing::blocking).await;
        s.own(&all[2], &[all[1].blocking(), solid.blocking()]).await;
        s.seen().await;
        s.delete(&all[0], policy).await;
        s.gone(&[&all[0], &all[1]]).await;
        s.is(&all[2], "has one owner", |now| owners(now) == [&*solid.uid])
            .await;
        s.stay(&[&all[2], &all[3], &solid]).await;
        assert!(finalizers(&s.get(&all[3]).await).is_empty());
        s.delete(&solid, "Background").await;
        s.gone(&[&all[2], &all[3]]).await;
    }
}

/// Its members are owners that are there, whatever becomes of the owner above.
async fn a_cycle_below_an_owner_keeps_itself(s: Stage) {
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = s.thing(&format!("owner-{name}"), &[]).await;
        let one = s.thing(&format!("one-{name}"), &[owner.blocking()]).await;
        let two = s.thing(&format!("two-{name}"), &[one.blocking()]).await;
        s.own(&one, &[owner.blocking(), two.blocking()]).await;
        let own = s.thing(&format!("own-{name}"), &[owner.blocking()]).await;
        s.own(&own, &[own.blocking(), owner.blocking()]).await;
        s.seen().await;
        s.delete(&owner, policy).await;
        s.gone(&[&owner]).await;
        s.is(&one, "has one owner", |now| owners(now) == [&*two.uid])
            .await;
        s.is(&own, "has itself", |now| owners(now) == [&*own.uid]).await;
        s.stay(&[&one, &two, &own]).await;
        s.delete(&own, "Background").await;
        s.delete(&two, policy).await;
        s.gone(&[&one, &two, &own]).await;
    }
}

async fn two_cycles_with_a_common_member_go(s: Stage) {
    for policy in ["Background", "Foreground"] {
        let common = s.thing("common", &[]).await;
        let left = s.thing("left", &[common.blocking()]).await;
        let right = s.thing("right", &[common.blocking()]).await;
        s.own(&common, &[left.blocking(), right.blocking()]).await;
        s.seen().await;
        s.delete(&common, policy).await;
        s.gone(&[&common, &left, &right]).await;
    }
}
