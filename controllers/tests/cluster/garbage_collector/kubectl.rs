//! `kubectl delete --cascade`.

use steersman_harness::Test;
use steersman_harness::kubectl::Kubectl;

use super::fixture::{Fixture, Kind, Object, owners};

pub fn tests() -> Vec<Test> {
    [
        each!(kubectl_cascade_background_deletes_dependents, Kubectl),
        each!(kubectl_delete_defaults_to_background, Kubectl),
        each!(kubectl_cascade_foreground_returns_after_dependents, Kubectl),
        each!(kubectl_cascade_orphan_keeps_dependents, Kubectl),
    ]
    .concat()
}

/// Creates an owner with two levels of dependents.
async fn create_family(f: &Fixture) -> [Object; 3] {
    let owner = f.create("owner", &[]).await;
    let mine = f.create("mine", &[owner.blocking()]).await;
    let below = f.create_kind(Kind::Secret, "below", &[mine.blocking()]).await;
    f.wait_observed().await;
    [owner, mine, below]
}

/// Runs `kubectl delete`, which returns after the deletion of the owner.
async fn delete(f: &Fixture, owner: &Object, flags: &str) {
    let kubectl = Kubectl::new(&f.c, &f.ns);
    let resource = match f.kind {
        Kind::Widget => "widgets.collected.example.com",
        _ => "configmaps",
    };
    let call = format!("delete {resource} {} {flags}", owner.name);
    // The collector may run on the threads of the test, so they must not block.
    let printed = tokio::task::block_in_place(|| kubectl.run(&call));
    assert!(printed.ok().contains("deleted"));
    assert!(
        f.find(owner).await.is_none(),
        "kubectl returned before the deletion"
    );
}

async fn kubectl_cascade_background_deletes_dependents(f: Fixture) {
    let [owner, mine, below] = create_family(&f).await;
    delete(&f, &owner, "--cascade=background").await;
    f.wait_deleted(&[&mine, &below]).await;
}

async fn kubectl_delete_defaults_to_background(f: Fixture) {
    let [owner, mine, below] = create_family(&f).await;
    delete(&f, &owner, "").await;
    f.wait_deleted(&[&mine, &below]).await;
}

async fn kubectl_cascade_foreground_returns_after_dependents(f: Fixture) {
    let [owner, mine, below] = create_family(&f).await;
    delete(&f, &owner, "--cascade=foreground").await;
    for thing in [&mine, &below] {
        assert!(f.find(thing).await.is_none(), "a dependent outlives its owner");
    }
}

async fn kubectl_cascade_orphan_keeps_dependents(f: Fixture) {
    let [owner, mine, below] = create_family(&f).await;
    delete(&f, &owner, "--cascade=orphan").await;
    assert!(owners(&f.get(&mine).await).is_empty());
    f.assert_kept(&[&mine, &below]).await;
    assert_eq!(owners(&f.get(&below).await), [&*mine.uid]);
}
