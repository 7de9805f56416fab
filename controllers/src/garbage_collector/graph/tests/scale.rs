//! Large families, and the view of them.

use super::*;

#[test]
fn a_large_family_is_handled_one_by_one() {
    const MANY: usize = 20_000;
    let set = thing(&SET, "set");
    let pod = |n: usize| thing(&POD, &format!("pod-{n}")).refers(&[set.blocking()]);
    let mut scene = Scene::with(&[&set]);
    for n in 0..MANY {
        assert_eq!(scene.see(&pod(n)), Effects::default());
    }
    // Each of these costs as much as in a small one.
    for n in 0..MANY {
        let _ = scene.see(&pod(n).at(2));
    }
    let deleted = set.clone().deleting(&[FOREGROUND]).at(3);
    assert_eq!(scene.see(&deleted).look.len(), MANY + 1);
    scene.answer(&set, Live::Waiting);
    for n in 0..MANY {
        assert!(matches!(scene.judge(&pod(n)), Judgement::Act(_)));
        let free = if n + 1 == MANY {
            look(&[set.object()])
        } else {
            Effects::default()
        };
        assert_eq!(scene.lose(&pod(n)), free);
    }
    assert_eq!(scene.graph.links.len(), 0);
}

#[test]
fn many_references_and_many_wrong_ones_cost_little() {
    const MANY: usize = 10_000;
    let set = thing(&SET, "set");
    let owners: Vec<Thing> = (0..MANY).map(|n| thing(&SET, &format!("set-{n}"))).collect();
    let references: Vec<OwnerRef> = owners.iter().map(Thing::blocking).collect();
    let pod = thing(&POD, "pod").refers(&references);
    let mut scene = Scene::with(&[&set, &pod]);
    for owner in &owners {
        let _ = scene.graph.absent(&owner.identity(), Proof::NotFound);
    }
    assert_eq!(scene.act(&pod).because.len(), MANY);
    let wrong = |n: usize| set.clone().named(&format!("wrong-{n}")).reference();
    for n in 0..MANY {
        let _ = scene.see(&thing(&POD, &format!("bad-{n}")).refers(&[wrong(n)]));
    }
    for version in 2..10_000 {
        assert_eq!(scene.see(&set.clone().at(version)), Effects::default());
    }
    assert_eq!(scene.lose(&set).look.len(), MANY);
}

/// Installing CRDs, one after the other, does not visit the objects of other kinds.
#[test]
fn new_kind_visits_no_objects_of_other_kinds() {
    const MANY: usize = 20_000;
    let mut scene = Scene::settled();
    for n in 0..MANY {
        let set = thing(&SET, &format!("set-{n}"));
        let _ = scene.see(&thing(&POD, &format!("pod-{n}")).refers(&[set.reference()]));
        let _ = scene.see(&set);
    }
    let (mut all, mut watched) = (ALL.to_vec(), WATCHED.to_vec());
    let visits = scene.graph.visits.take();
    assert!(visits >= 2 * MANY, "{visits}");
    for n in 0..300 {
        let resource = Resource {
            plural: format!("new{n}").into(),
            kind: format!("New{n}").into(),
            ..WIDGET
        };
        all.push(resource.clone());
        watched.push(resource);
        let kinds = kinds(&all, &watched);
        assert!(scene.graph.kinds.changed(&kinds)["example.com"].len() == 1);
        assert_eq!(scene.graph.serve(kinds, scene.now), Effects::default());
    }
    assert_eq!(scene.graph.visits.take(), 0);
    assert_eq!(scene.graph.by_kind[&POD].len(), MANY);
}

#[test]
fn view_can_be_read_in_slices() {
    let things: Vec<Thing> = (0..50)
        .map(|n| thing(&POD, &format!("{n:02}")).refers(&[thing(&SET, &format!("{n:02}s")).reference()]))
        .collect();
    let scene = Scene::with(&things.iter().collect::<Vec<_>>());
    let all: Vec<_> = scene.graph.nodes(None).map(|it| it.identity.uid).collect();
    assert_eq!(all.len(), 100);
    for (n, uid) in all.iter().enumerate() {
        let rest: Vec<_> = scene.graph.nodes(Some(uid)).map(|it| it.identity.uid).collect();
        assert_eq!(rest, all[n..]);
    }
}

#[test]
fn the_view_shows_owners_that_are_not_seen() {
    let (b, d) = (thing(&SET, "b"), thing(&SET, "d"));
    let a = thing(&POD, "a").refers(&[b.reference()]);
    let c = thing(&POD, "c").refers(&[d.reference()]).deleting(&[FOREGROUND]);
    let lone = thing(&POD, "e");
    let scene = Scene::with(&[&a, &c, &d, &lone]);
    let views: Vec<_> = scene.graph.nodes(None).collect();
    let names: Vec<(&str, bool)> = views.iter().map(|it| (&*it.identity.name, it.seen)).collect();
    assert_eq!(
        names,
        [("a", true), ("b", false), ("c", true), ("d", true), ("e", true)]
    );
    assert!(views[2].deleting && views[2].foreground && !views[0].deleting);
    assert_eq!(views[0].owners, [b.reference()]);
    let uids = |things: &[&Thing]| {
        things
            .iter()
            .map(|it| it.meta.uid.clone())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        scene.graph.component(std::slice::from_ref(&b.meta.uid)),
        uids(&[&a, &b])
    );
    assert_eq!(
        scene.graph.component(&[c.meta.uid.clone(), "nobody".into()]),
        uids(&[&c, &d])
    );
}
