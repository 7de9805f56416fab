//! An owner is in the namespace of its dependent, or cluster-scoped.

use serde_json::{Value, json};
use steersman_harness::Test;

use super::fixture::{FOREGROUND, Fixture, Kind, Object, finalizers, owners, text};

pub fn tests() -> Vec<Test> {
    [
        each!(
            cluster_scoped_owner_has_dependents_in_all_namespaces,
            [Region, ClusterRole]
        ),
        each!(
            cluster_scoped_owner_has_cluster_scoped_dependents,
            [Region, ClusterRole]
        ),
        each!(owner_in_another_namespace_is_absent),
        each!(reference_to_an_owner_in_another_namespace_is_removed),
        each!(owners_of_the_same_name_are_distinguished_by_uid),
        each!(dependent_in_another_namespace_does_not_block, Ours),
        each!(cluster_scoped_dependent_of_a_namespaced_owner_is_kept),
        each!(
            cluster_scoped_dependent_of_a_namespaced_owner_does_not_block,
            Ours
        ),
    ]
    .concat()
}

fn owned(references: &[Value]) -> Value {
    json!({"metadata": {"ownerReferences": references}})
}

/// Waits for the event about a dependent whose owner is not in its namespace, and checks its fields.
async fn assert_event(f: &Fixture, thing: &Object, ns: &str, owner: &Object) {
    let event_ns = if ns.is_empty() { "default" } else { ns };
    let events = f
        .until("an event exists", async || {
            let events = f.events(thing, event_ns).await;
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
    assert_eq!(event["metadata"]["namespace"], event_ns, "{event:#}");
    for from in [&event["source"]["component"], &event["reportingComponent"]] {
        assert_eq!(from, "garbage-collector-controller", "{event:#}");
    }
    let about = &event["involvedObject"];
    let fields = ["kind", "apiVersion", "namespace", "name", "uid"].map(|it| text(&about[it]));
    let expected = [
        thing.kind.name(),
        &thing.kind.api_version(),
        ns,
        &thing.name,
        &thing.uid,
    ];
    assert_eq!(fields, expected, "{event:#}");
}

async fn cluster_scoped_owner_has_dependents_in_all_namespaces(f: Fixture) {
    let second = f.c.namespace().await;
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = f.create(&format!("owner-{name}"), &[]).await;
        let mut mine = Vec::new();
        for ns in [&f.ns, &second] {
            for kind in [Kind::ConfigMap, Kind::Widget] {
                let change = owned(&[owner.blocking()]);
                mine.push(f.create_with(kind, ns, &format!("mine-{name}"), change).await);
            }
        }
        let mine: Vec<_> = mine.iter().collect();
        f.assert_kept(&mine).await;
        for thing in &mine {
            assert!(f.events(thing, &f.ns).await.is_empty());
        }
        f.delete(&owner, policy).await;
        f.wait_deleted(&mine).await;
        f.wait_deleted(&[&owner]).await;
    }
}

async fn cluster_scoped_owner_has_cluster_scoped_dependents(f: Fixture) {
    for policy in ["Background", "Foreground"] {
        let name = policy.to_lowercase();
        let owner = f.create(&format!("owner-{name}"), &[]).await;
        let mine = f
            .create_kind(Kind::Region, &format!("mine-{name}"), &[owner.blocking()])
            .await;
        let below = f
            .create_kind(Kind::ClusterRole, &format!("below-{name}"), &[mine.blocking()])
            .await;
        let dead = f.absent_owner(f.kind);
        let half = f
            .create_kind(Kind::Region, &format!("half-{name}"), &[dead, owner.blocking()])
            .await;
        f.wait_for(&half, "has one owner", |now| owners(now) == [&*owner.uid])
            .await;
        f.assert_kept(&[&mine, &below, &half]).await;
        f.delete(&owner, policy).await;
        f.wait_deleted(&[&mine, &below, &half, &owner]).await;
    }
}

async fn owner_in_another_namespace_is_absent(f: Fixture) {
    let second = f.c.namespace().await;
    let owner = f.create("owner", &[]).await;
    let good = f.create("good", &[owner.reference()]).await;
    f.wait_observed().await;
    let bad = f
        .create_with(f.kind, &second, "bad", owned(&[owner.reference()]))
        .await;
    f.wait_deleted(&[&bad]).await;
    assert_event(&f, &bad, &second, &owner).await;
    // The next one too, when the owner is in the graph.
    let bad = f
        .create_with(f.kind, &second, "bad", owned(&[owner.reference()]))
        .await;
    f.wait_deleted(&[&bad]).await;
    assert_event(&f, &bad, &second, &owner).await;
    f.assert_kept(&[&owner, &good]).await;
    assert!(f.events(&good, &f.ns).await.is_empty());
    f.delete(&owner, "Background").await;
    f.wait_deleted(&[&good]).await;
}

async fn reference_to_an_owner_in_another_namespace_is_removed(f: Fixture) {
    let second = f.c.namespace().await;
    let far = f.create("far", &[]).await;
    f.wait_observed().await;
    let near = f.create_with(f.kind, &second, "near", json!({})).await;
    let change = owned(&[far.blocking(), near.blocking()]);
    let mine = f.create_with(f.kind, &second, "mine", change).await;
    let now = f
        .wait_for(&mine, "has one owner", |now| owners(now) == [&*near.uid])
        .await;
    assert_eq!(now["metadata"]["ownerReferences"], json!([near.blocking()]));
    assert_event(&f, &mine, &second, &far).await;
    f.assert_kept(&[&far, &near, &mine]).await;
}

async fn owners_of_the_same_name_are_distinguished_by_uid(f: Fixture) {
    let second = f.c.namespace().await;
    let first = f.create("owner", &[]).await;
    let other = f.create_with(f.kind, &second, "owner", json!({})).await;
    let good = f.create("good", &[first.reference()]).await;
    let fine = f
        .create_with(f.kind, &second, "fine", owned(&[other.reference()]))
        .await;
    let bad = f
        .create_with(f.kind, &second, "bad", owned(&[first.reference()]))
        .await;
    f.wait_deleted(&[&bad]).await;
    f.assert_kept(&[&first, &other, &good, &fine]).await;
    f.delete(&first, "Foreground").await;
    f.wait_deleted(&[&first, &good]).await;
    f.assert_kept(&[&other, &fine]).await;
}

async fn dependent_in_another_namespace_does_not_block(f: Fixture) {
    let second = f.c.namespace().await;
    let owner = f.create("owner", &[]).await;
    let change = json!({"metadata": {
        "ownerReferences": [owner.blocking()], "finalizers": [super::fixture::HOLD],
    }});
    let bad = f.create_with(f.kind, &second, "bad", change).await;
    f.wait_terminating(&bad).await;
    f.delete(&owner, "Foreground").await;
    f.wait_deleted(&[&owner]).await;
    f.remove_hold(&bad).await;
    f.wait_deleted(&[&bad]).await;
}

async fn cluster_scoped_dependent_of_a_namespaced_owner_is_kept(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let good = f.create("good", &[owner.reference()]).await;
    f.wait_observed().await;
    let dead = f.absent_owner(Kind::Region);
    let mine = [
        f.create_kind(Kind::Region, "mine", &[owner.reference()]).await,
        f.create_kind(Kind::ClusterRole, "mine", &[owner.reference()])
            .await,
        f.create_kind(Kind::Region, "both", &[dead, owner.reference()])
            .await,
    ];
    let mine: Vec<_> = mine.iter().collect();
    f.assert_kept(&mine).await;
    for thing in &mine {
        assert_event(&f, thing, "", &owner).await;
    }
    f.assert_kept(&[&owner, &good]).await;
    f.delete(&owner, "Background").await;
    f.wait_deleted(&[&good]).await;
    f.assert_kept(&mine).await;
    // The same holds for an absent owner.
    let never = f
        .create_kind(Kind::Region, "never", &[f.absent_owner(f.kind)])
        .await;
    f.assert_kept(&[&never]).await;
    for thing in mine.into_iter().chain([&never]) {
        f.delete(thing, "Background").await;
    }
}

async fn cluster_scoped_dependent_of_a_namespaced_owner_does_not_block(f: Fixture) {
    let owner = f.create("owner", &[]).await;
    let mine = f.create_kind(Kind::Region, "mine", &[owner.blocking()]).await;
    f.wait_observed().await;
    let deleted = f.delete(&owner, "Foreground").await;
    assert_eq!(finalizers(&deleted), [FOREGROUND]);
    f.wait_deleted(&[&owner]).await;
    f.assert_kept(&[&mine]).await;
    f.delete(&mine, "Background").await;
}
