//! An owner that waits for its dependents.

use coxswain_manager::client::Propagation;

use super::*;

#[test]
fn an_owner_in_foreground_deletion_goes_after_its_dependents() {
    let set = thing(&SET, "set");
    let pod = thing(&POD, "pod").refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set, &pod]);
    let set = set.deleting(&["a", FOREGROUND, "b"]).at(2);
    assert_eq!(scene.see(&set), look(&[pod.object(), set.object()]));
    assert_eq!(scene.judge(&set), Judgement::Nothing);
    assert_eq!(scene.judge(&pod), ask(&set));
    scene.answer(&set, Live::Waiting);
    assert_eq!(scene.deed(&pod), Deed::Delete(Propagation::Background));
    assert_eq!(scene.lose(&pod), look(&[set.object()]));
    let rest = ["a".into(), "b".into()].into();
    let finalizer = FOREGROUND;
    assert_eq!(scene.deed(&set), Deed::RemoveFinalizer { finalizer, rest });
}
