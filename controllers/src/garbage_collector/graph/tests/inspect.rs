//! The part of the graph around one object.

use super::*;

#[test]
fn lineage_is_owners_and_dependents_without_siblings() {
    let widget = object(&WIDGET, "widget");
    let set = object(&SET, "set").refers(&[widget.reference()]);
    let pods: Vec<Object> = (0..3)
        .map(|number| object(&POD, &format!("pod-{number}")).refers(&[set.reference()]))
        .collect();
    let other = object(&SET, "other").refers(&[widget.reference()]);
    let objects: Vec<&Object> = [&widget, &set, &other].into_iter().chain(&pods).collect();
    let graph = Fixture::with(&objects).graph;
    let lineage = |uid: &str, max| {
        let (order, left_out) = graph.lineage(&uid.into(), max);
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        (order.join(" "), left_out)
    };
    assert_eq!(
        lineage("uid-pod-1", 10),
        ("uid-pod-1 uid-set uid-widget".to_owned(), 0)
    );
    let all = "uid-set uid-widget uid-pod-0 uid-pod-1 uid-pod-2";
    assert_eq!(lineage("uid-set", 10), (all.to_owned(), 0));
    assert_eq!(
        lineage("uid-set", 3),
        ("uid-set uid-widget uid-pod-0".to_owned(), 2)
    );
    assert_eq!(lineage("uid-none", 10), (String::new(), 0));
}

#[test]
fn lineage_of_a_cycle_ends() {
    let (a, b) = (object(&SET, "a"), object(&SET, "b"));
    let (a, b) = (a.clone().refers(&[b.reference()]), b.refers(&[a.reference()]));
    let graph = Fixture::with(&[&a, &b]).graph;
    assert_eq!(graph.lineage(&"uid-a".into(), 10).0.len(), 2);
}

#[test]
fn sizes_count_observed_objects_virtual_and_absent_owners() {
    let (set, other) = (object(&SET, "set"), object(&SET, "other"));
    let pod = object(&POD, "pod").refers(&[set.reference(), other.reference()]);
    let mut case = Fixture::with(&[&set, &pod]);
    let sizes = |case: &Fixture| {
        let Sizes {
            observed,
            virtual_owners,
            absent,
        } = case.graph.sizes();
        (observed, virtual_owners, absent)
    };
    assert_eq!(sizes(&case), (2, 1, 0));
    let _ = case.delete(&set);
    assert_eq!(sizes(&case), (1, 1, 1));
    let _ = case.graph.absent(&other.identity(), Proof::NotFound);
    assert_eq!(sizes(&case), (1, 0, 2));
    let _ = case.delete(&pod);
    assert_eq!(
        sizes(&case),
        (0, 0, 0),
        "an absent owner without dependents is forgotten"
    );
}
