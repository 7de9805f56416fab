//! An owner that lets its dependents go.

use super::super::orphan::ORPHANED_OWNERS_MAX;
use super::*;

#[test]
fn dependents_are_let_go_before_the_owner_goes() {
    let set = thing(&SET, "set");
    let other = thing(&SET, "other");
    let pod = thing(&POD, "pod")
        .refers(&[set.reference(), other.reference()])
        .at(5);
    let wrong = thing(&POD, "wrong").within("b").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set, &other, &pod, &wrong]);
    assert_eq!(scene.graph.releases(&set.meta.uid), []);
    assert_eq!(scene.graph.finish_orphaning(&set.meta.uid), None);
    let set = set.deleting(&["a", ORPHAN, "b"]).at(6);
    let effects = scene.see(&set);
    assert_eq!(
        (effects.look, effects.orphan),
        (vec![], vec![set.meta.uid.clone()])
    );
    let acts = scene.graph.releases(&set.meta.uid);
    let uids = vec![set.meta.uid.clone()];
    let remaining = [other.reference()].into();
    assert_eq!(acts.len(), 2, "whoever has its uid");
    assert_eq!(acts[0].deed, Deed::RemoveOwners { uids, remaining });
    assert_eq!(
        (acts[0].uid.clone(), acts[0].version.clone()),
        (pod.meta.uid.clone(), "5".into())
    );
    let act = scene
        .graph
        .finish_orphaning(&set.meta.uid)
        .expect("it is orphaning");
    let rest = ["a".into(), "b".into()].into();
    let finalizer = ORPHAN;
    assert_eq!(act.deed, Deed::RemoveFinalizer { finalizer, rest });
    assert_eq!(act.version, "6".into());
}

#[test]
fn who_comes_to_an_owner_that_is_orphaning_is_let_go_too() {
    let set = thing(&SET, "set").deleting(&[ORPHAN]);
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&set]);
    assert_eq!(scene.see(&pod).orphan, std::slice::from_ref(&set.meta.uid));
}

#[test]
fn who_comes_too_late_is_let_go_not_deleted() {
    let (set, dead) = (thing(&SET, "set").deleting(&[ORPHAN]), thing(&SET, "dead"));
    let mut scene = Scene::with(&[&set, &dead]);
    scene.graph.let_go(&set.meta.uid);
    let _ = scene.lose(&set);
    let _ = scene.lose(&dead);
    let pod = thing(&POD, "pod").refers(&[set.reference(), dead.reference()]);
    assert_eq!(scene.see(&pod), look(&[pod.object(), dead.owner(), set.owner()]));
    let _ = scene.graph.absent(&dead.identity(), Proof::NotFound);
    let act = scene.act(&pod);
    let uids = vec![dead.meta.uid.clone(), set.meta.uid.clone()];
    let remaining = [].into();
    assert_eq!(act.deed, Deed::RemoveOwners { uids, remaining });
    assert_eq!(act.because[0].verdict, Verdict::Orphaning);
}

#[test]
fn a_finalizer_alone_lets_nobody_go() {
    let set = thing(&SET, "set").finalizers(&[ORPHAN]);
    let pod = thing(&POD, "pod").refers(&[set.reference()]);
    let mut scene = Scene::with(&[&pod]);
    assert_eq!(scene.see(&set), Effects::default());
    assert_eq!(scene.graph.releases(&set.meta.uid), []);
    assert_eq!(scene.graph.finish_orphaning(&set.meta.uid), None);
    assert_eq!(scene.see(&set.clone().deleting(&[ORPHAN]).at(2)).orphan.len(), 1);
}

#[test]
fn orphaned_owners_outlive_the_graph_and_are_bounded() {
    let mut scene = Scene::settled();
    for n in 0..=ORPHANED_OWNERS_MAX {
        scene.graph.let_go(&Uid::from(&*format!("uid-{n}")));
    }
    let next = Graph::new(scene.graph.orphaning());
    let knows = |n: usize| next.let_go.contains(&Uid::from(&*format!("uid-{n}")));
    assert!(!knows(0) && knows(1) && knows(ORPHANED_OWNERS_MAX));
}
