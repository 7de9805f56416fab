//! `kubectl delete --cascade`, as its documentation says.

use coxswain_tests::Test;
use coxswain_tests::kubectl::Kubectl;

use super::stage::{Kind, Stage, Thing, owners};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    [
        each!(cascade_background, Kubectl),
        each!(cascade_by_default, Kubectl),
        each!(cascade_foreground, Kubectl),
        each!(cascade_orphan, Kubectl),
    ]
    .concat()
}

/// An owner and two levels below it.
async fn family(s: &Stage) -> [Thing; 3] {
    let owner = s.thing("owner", &[]).await;
    let mine = s.thing("mine", &[owner.blocking()]).await;
    let below = s.of(Kind::Secret, "below", &[mine.blocking()]).await;
    s.seen().await;
    [owner, mine, below]
}

/// Calls it, which returns when the owner is gone.
async fn delete(s: &Stage, owner: &Thing, flags: &str) {
    let kubectl = Kubectl::new(&s.c, &s.ns);
    let resource = match s.kind {
        Kind::Widget => "widgets.collected.example.com",
        _ => "configmaps",
    };
    let call = format!("delete {resource} {} {flags}", owner.name);
    // On a thread of its own: the collector may run on the same ones as the test.
    let printed = tokio::task::block_in_place(|| kubectl.run(&call));
    assert!(printed.ok().contains("deleted"));
    assert!(s.find(owner).await.is_none(), "it waits until it is gone");
}

async fn cascade_background(s: Stage) {
    let [owner, mine, below] = family(&s).await;
    delete(&s, &owner, "--cascade=background").await;
    s.gone(&[&mine, &below]).await;
}

async fn cascade_by_default(s: Stage) {
    let [owner, mine, below] = family(&s).await;
    delete(&s, &owner, "").await;
    s.gone(&[&mine, &below]).await;
}

async fn cascade_foreground(s: Stage) {
    let [owner, mine, below] = family(&s).await;
    delete(&s, &owner, "--cascade=foreground").await;
    for thing in [&mine, &below] {
        assert!(s.find(thing).await.is_none(), "they are gone before");
    }
}

async fn cascade_orphan(s: Stage) {
    let [owner, mine, below] = family(&s).await;
    delete(&s, &owner, "--cascade=orphan").await;
    assert!(owners(&s.get(&mine).await).is_empty());
    s.stay(&[&mine, &below]).await;
    assert_eq!(owners(&s.get(&below).await), [&*mine.uid]);
}
