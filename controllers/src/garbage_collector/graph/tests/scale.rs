//! Owners with many dependents, and slices of the graph.

use super::*;

#[test]
fn large_number_of_dependents_is_processed_one_by_one() {
    const MANY: usize = 20_000;
    let set = object(&SET, "set");
    let pod = |n: usize| object(&POD, &format!("pod-{n}")).refers(&[set.blocking()]);
    let mut case = Fixture::with(&[&set]);
    for n in 0..MANY {
        assert_eq!(case.observe(&pod(n)), Effects::default());
    }
    // Each change costs as much as in a small graph.
    for n in 0..MANY {
        let _ = case.observe(&pod(n).at(2));
    }
    let deleted = set.clone().deleting(&[FOREGROUND]).at(3);
    assert_eq!(case.observe(&deleted).attempt_to_delete.len(), MANY + 1);
    case.answer(&set, LiveState::Waiting);
    for n in 0..MANY {
        assert!(matches!(case.evaluate(&pod(n)), Decision::Act(_)));
        let free = if n + 1 == MANY {
            items(&[set.item()])
        } else {
            Effects::default()
        };
        assert_eq!(case.delete(&pod(n)), free);
    }
    assert_eq!(case.graph.links.len(), 0);
}

#[test]
fn many_references_have_linear_cost() {
    const MANY: usize = 10_000;
    let set = object(&SET, "set");
    let owners: Vec<Object> = (0..MANY).map(|n| object(&SET, &format!("set-{n}"))).collect();
    let references: Vec<OwnerRef> = owners.iter().map(Object::blocking).collect();
    let pod = object(&POD, "pod").refers(&references);
    let mut case = Fixture::with(&[&set, &pod]);
    for owner in &owners {
        let _ = case.graph.absent(&owner.identity(), Proof::NotFound);
    }
    assert_eq!(case.action(&pod).reasons.len(), MANY);
    let wrong = |n: usize| set.clone().named(&format!("wrong-{n}")).reference();
    for n in 0..MANY {
        let _ = case.observe(&object(&POD, &format!("bad-{n}")).refers(&[wrong(n)]));
    }
    for version in 2..10_000 {
        assert_eq!(case.observe(&set.clone().at(version)), Effects::default());
    }
    assert_eq!(case.delete(&set).attempt_to_delete.len(), MANY);
}

/// Installing CRDs, one after the other, does not visit the objects of other kinds.
#[test]
fn new_kind_visits_no_objects_of_other_kinds() {
    const MANY: usize = 20_000;
    let mut case = Fixture::synced();
    for n in 0..MANY {
        let set = object(&SET, &format!("set-{n}"));
        let _ = case.observe(&object(&POD, &format!("pod-{n}")).refers(&[set.reference()]));
        let _ = case.observe(&set);
    }
    let (mut all, mut watched) = (ALL.to_vec(), WATCHED.to_vec());
    let visits = case.graph.visits.take();
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
        assert!(case.graph.kinds.changed(&kinds)["example.com"].len() == 1);
        assert_eq!(case.graph.set_kinds(kinds, case.now), Effects::default());
    }
    assert_eq!(case.graph.visits.take(), 0);
    assert_eq!(case.graph.by_kind[&POD].len(), MANY);
}

#[test]
fn nodes_can_be_read_in_slices() {
    // Virtual owners may have the same uid.
    let owner = |n: usize| object(&SET, &format!("{n:02}s")).uid(&format!("uid-{:02}s", n / 10));
    let objects: Vec<Object> = (0..50)
        .map(|n| object(&POD, &format!("{n:02}")).refers(&[owner(n).reference()]))
        .collect();
    let case = Fixture::with(&objects.iter().collect::<Vec<_>>());
    let all: Vec<_> = case.graph.nodes(None).map(|it| it.identity).collect();
    assert_eq!(all.len(), 100);
    for (n, identity) in all.iter().enumerate() {
        let rest: Vec<_> = case.graph.nodes(Some(identity)).map(|it| it.identity).collect();
        assert_eq!(rest, all[n..]);
    }
}

#[test]
fn nodes_include_virtual_owners() {
    let (b, d) = (object(&SET, "b"), object(&SET, "d"));
    let a = object(&POD, "a").refers(&[b.reference()]);
    let c = object(&POD, "c").refers(&[d.reference()]).deleting(&[FOREGROUND]);
    let lone = object(&POD, "e");
    let case = Fixture::with(&[&a, &c, &d, &lone]);
    let views: Vec<_> = case.graph.nodes(None).collect();
    let names: Vec<(&str, bool)> = views.iter().map(|it| (&*it.identity.name, it.observed)).collect();
    assert_eq!(
        names,
        [("a", true), ("b", false), ("c", true), ("d", true), ("e", true)]
    );
    assert!(views[2].deleting && views[2].foreground && !views[0].deleting);
    assert_eq!(views[0].owners, [b.reference()]);
    let uids = |objects: &[&Object]| {
        objects
            .iter()
            .map(|it| it.meta.uid.clone())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        case.graph.component(std::slice::from_ref(&b.meta.uid)),
        uids(&[&a, &b])
    );
    assert_eq!(
        case.graph.component(&[c.meta.uid.clone(), "unknown".into()]),
        uids(&[&c, &d])
    );
}
