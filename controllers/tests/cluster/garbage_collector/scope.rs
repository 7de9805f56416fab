//! Namespaces: an owner is in that of its dependent, or in none.

use coxswain_tests::Test;
use serde_json::{Value, json};

use super::stage::{FOREGROUND, Kind, Stage, Thing, finalizers, owners, text};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(
            an_owner_of_the_cluster_owns_in_all_namespaces,
            [Region, ClusterRole]
        ),
        each!(
            an_owner_of_the_cluster_owns_those_of_the_cluster,
            [Region, ClusterRole]
        ),
        each!(an_owner_in_another_namespace_is_none),
        each!(an_owner_in_another_namespace_is_forgotten_beside_another),
        each!(an_owner_of_the_same_name_in_both_namespaces),
        each!(a_foreign_dependent_does_not_hold_an_owner, Ours),
        each!(what_is_of_the_cluster_is_not_deleted_for_an_owner_in_a_namespace),
        each!(what_is_of_the_cluster_does_not_hold_an_owner_in_a_namespace, Ours),
    ]
    .concat()
}

/// Owned by this, whatever else.
fn owned(references: &[Value]) -> Value {
    json!({"metadata": {"ownerReferences": references}})
}

/// Waits for the event about a dependent whose owner is not in its namespace, and looks at all of it.
async fn told(s: &Stage, thing: &Thing, ns: &str, owner: &Thing) {
    let written = if ns.is_empty() { "default" } else { ns };
    let events = s
        .until("there is an event", async || {
            let events = s.events(thing, written).await;
            (!events.is_empty()).then_some(events)
        })
        .await;
    assert_eq!(events.len(), 1, "{events:#?}");
    let event = &events[0];
    let message = format!(
        "ownerRef [{}/{}, namespace: {ns}, name: {}, uid: {}] does not exist in namespace {ns:?}",
        owner.kind.api_version(),
        owner.kind.name(),
        owner.name,
        owner.uid,
    );
    assert_eq!(event["message"], message, "{event:#}");
    assert_eq!(event["type"], "Warning", "{event:#}");
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace", "{event:#}");
    assert_eq!(event["metadata"]["namespace"], written, "{event:#}");
    for from in [&event["source"]["component"], &event["reportingComponent"]] {
        assert_eq!(from, "garbage-collector-controller", "{event:#}");
    }
    let about = &event["involvedObject"];
    let fields = ["kind", "apiVersion", "namespace", "name", "uid"].map(|it| text(&about[it]));
    let wanted = [
        thing.kind.name(),
        &thing.kind.api_version(),
        ns,
        &thing.name,
        &thing.uid,
    ];
    assert_eq!(fields, wanted, "{event:#}");
}

async fn an_owner_of_the_cluster_owns_in_all_namespaces(s: Stage) {
    let second = s.c.namespace().await;
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = s.thing(&format!("owner-{name}"), &[]).await;
        let mut mine = Vec::new();
        for ns in [&s.ns, &second] {
            for kind in [Kind::ConfigMap, Kind::Widget] {
                let change = owned(&[owner.blocking()]);
                mine.push(s.create(kind, ns, &format!("mine-{name}"), change).await);
            }
        }
        let mine: Vec<_> = mine.iter().collect();
        s.stay(&mine).await;
        for thing in &mine {
            assert!(s.events(thing, &s.ns).await.is_empty());
        }
        s.delete(&owner, policy).await;
        s.gone(&mine).await;
        s.gone(&[&owner]).await;
    }
}

async fn an_owner_of_the_cluster_owns_those_of_the_cluster(s: Stage) {
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = s.thing(&format!("owner-{name}"), &[]).await;
        let mine = s
            .of(Kind::Region, &format!("mine-{name}"), &[owner.blocking()])
            .await;
        let below = s
            .of(Kind::ClusterRole, &format!("below-{name}"), &[mine.blocking()])
            .await;
        let dead = s.never(s.kind);
        let half = s
            .of(Kind::Region, &format!("half-{name}"), &[dead, owner.blocking()])
            .await;
        s.is(&half, "has one owner", |now| owners(now) == [&*owner.uid])
            .await;
        s.stay(&[&mine, &below, &half]).await;
        s.delete(&owner, policy).await;
        s.gone(&[&mine, &below, &half, &owner]).await;
    }
}

async fn an_owner_in_another_namespace_is_none(s: Stage) {
    let second = s.c.namespace().await;
    let owner = s.thing("owner", &[]).await;
    let good = s.thing("good", &[owner.reference()]).await;
    s.seen().await;
    let bad = s
        .create(s.kind, &second, "bad", owned(&[owner.reference()]))
        .await;
    s.gone(&[&bad]).await;
    told(&s, &bad, &second, &owner).await;
    // The next one as well, and when the owner is known to be fine.
    let bad = s
        .create(s.kind, &second, "bad", owned(&[owner.reference()]))
        .await;
    s.gone(&[&bad]).await;
    told(&s, &bad, &second, &owner).await;
    s.stay(&[&owner, &good]).await;
    assert!(s.events(&good, &s.ns).await.is_empty());
    s.delete(&owner, "Background").await;
    s.gone(&[&good]).await;
}

async fn an_owner_in_another_namespace_is_forgotten_beside_another(s: Stage) {
    let second = s.c.namespace().await;
    let far = s.thing("far", &[]).await;
    s.seen().await;
    let near = s.create(s.kind, &second, "near", json!({})).await;
    let change = owned(&[far.blocking(), near.blocking()]);
    let mine = s.create(s.kind, &second, "mine", change).await;
    let now = s
        .is(&mine, "has one owner", |now| owners(now) == [&*near.uid])
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([near.blocking()]));
    told(&s, &mine, &second, &far).await;
    s.stay(&[&far, &near, &mine]).await;
}

/// The uid tells them apart.
async fn an_owner_of_the_same_name_in_both_namespaces(s: Stage) {
    let second = s.c.namespace().await;
    let first = s.thing("owner", &[]).await;
    let other = s.create(s.kind, &second, "owner", json!({})).await;
    let good = s.thing("good", &[first.reference()]).await;
    let fine = s
        .create(s.kind, &second, "fine", owned(&[other.reference()]))
        .await;
    let bad = s
        .create(s.kind, &second, "bad", owned(&[first.reference()]))
        .await;
    s.gone(&[&bad]).await;
    s.stay(&[&first, &other, &good, &fine]).await;
    s.delete(&first, "Foreground").await;
    s.gone(&[&first, &good]).await;
    s.stay(&[&other, &fine]).await;
}

/// It goes in its own time.
async fn a_foreign_dependent_does_not_hold_an_owner(s: Stage) {
    let second = s.c.namespace().await;
    let owner = s.thing("owner", &[]).await;
    let change = json!({"metadata": {
        "ownerReferences": [owner.blocking()], "finalizers": [super::stage::HOLD],
    }});
    let bad = s.create(s.kind, &second, "bad", change).await;
    s.marked(&bad).await;
    s.delete(&owner, "Foreground").await;
    s.gone(&[&owner]).await;
    s.release(&bad).await;
    s.gone(&[&bad]).await;
}

async fn what_is_of_the_cluster_is_not_deleted_for_an_owner_in_a_namespace(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let good = s.thing("good", &[owner.reference()]).await;
    s.seen().await;
    let dead = s.never(Kind::Region);
    let mine = [
        s.of(Kind::Region, "mine", &[owner.reference()]).await,
        s.of(Kind::ClusterRole, "mine", &[owner.reference()]).await,
        s.of(Kind::Region, "both", &[dead, owner.reference()]).await,
    ];
    let mine: Vec<_> = mine.iter().collect();
    s.stay(&mine).await;
    for thing in &mine {
        told(&s, thing, "", &owner).await;
    }
    s.stay(&[&owner, &good]).await;
    s.delete(&owner, "Background").await;
    s.gone(&[&good]).await;
    s.stay(&mine).await;
    // An owner that never was is no better.
    let never = s.of(Kind::Region, "never", &[s.never(s.kind)]).await;
    s.stay(&[&never]).await;
    for thing in mine.into_iter().chain([&never]) {
        s.delete(thing, "Background").await;
    }
}

async fn what_is_of_the_cluster_does_not_hold_an_owner_in_a_namespace(s: Stage) {
    let owner = s.thing("owner", &[]).await;
    let mine = s.of(Kind::Region, "mine", &[owner.blocking()]).await;
    s.seen().await;
    let answer = s.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&answer), [FOREGROUND]);
    s.gone(&[&owner]).await;
    s.stay(&[&mine]).await;
    s.delete(&mine, "Background").await;
}
