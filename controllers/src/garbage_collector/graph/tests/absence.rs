//! When an owner counts as gone.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn what_its_owner_leaves_behind_is_deleted() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.reference()]).at(7);
    let mut scene = Scene::with(&[&set, &pod]);
    assert_eq!(scene.judge(&pod), Judgement::Nothing);
    assert_eq!(scene.lose(&set), look(&[pod.object()]));
    let act = scene.act(&pod);
    assert_eq!(act.deed, Deed::Delete(Propagation::Background));
    assert_eq!(
        (act.key, act.uid, act.version),
        (pod.meta.key(), pod.meta.uid.clone(), "7".into())
    );
    let verdict = Verdict::Absent(Proof::Watched);
    assert_eq!(
        act.because,
        [Reason {
            owner: set.identity(),
            verdict
        }]
    );
}

#[test]
fn an_owner_that_no_cache_shows_is_asked_for_once() {
    let set = thing(&SET, "set");
    let first = thing(&POD, "first").refers(&[set.reference()]);
    let second = thing(&POD, "second").refers(&[set.reference()]);
    let mut scene = Scene::settled();
    assert_eq!(scene.see(&first), look(&[set.owner()]));
    assert_eq!(scene.see(&second), Effects::default());
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), ask(&set));
    assert_eq!(scene.judge(&first), ask(&set));
    scene.answer(&set, Live::Solid);
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), Judgement::Poll);
    assert_eq!(scene.judge(&first), Judgement::Nothing);
    scene.pass(FRESH);
    assert_eq!(scene.judge(&first), Judgement::Nothing);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.judge(&first), ask(&set), "a second is over");
    let effects = scene.graph.absent(&set.identity(), Proof::NotFound);
    assert_eq!(effects, look(&[first.object(), second.object()]));
    assert_eq!(scene.deed(&second), Deed::Delete(Propagation::Background));
    assert_eq!(scene.graph.judge(&set.owner(), scene.now), Judgement::Nothing);
}
