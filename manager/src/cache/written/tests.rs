use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// One cache, with one object or none.
#[derive(Debug)]
struct View {
    state: ViewState,
    held: Option<(Uid, Version)>,
}

impl Views for View {
    fn view(&self, resource: &Resource) -> Option<ViewState> {
        (*resource == pods()).then(|| self.state.clone())
    }

    fn holds(&self, _resource: &Resource, object: &Key) -> Option<(Uid, Version)> {
        self.held.clone().filter(|_| *object == pod("a"))
    }
}

fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

fn pod(namespace: &str) -> Key {
    Key::new(namespace, "pod")
}

fn owner() -> Key {
    Key::new("a", "owner")
}

fn view(version: &str) -> View {
    View {
        state: ViewState {
            version: version.into(),
            epoch: 0,
            list_begun_at: None,
        },
        held: None,
    }
}

fn identity(uid: &str, version: &str) -> (Uid, Version) {
    (uid.into(), version.into())
}

fn write(version: &str, at: Instant) -> Write {
    Write {
        object: pod("a"),
        uid: "1".into(),
        version: version.into(),
        at,
        seen: false,
    }
}

fn behind(since: Duration) -> Readiness {
    Readiness::Behind {
        resource: pods(),
        since,
    }
}

/// The clock of these tests only moves by adding to it.
fn start() -> Instant {
    crate::env::Clock::system().now()
}

/// What is asked of a view after one write, at version 5 or one that does not compare.
fn after(version: &str, seen: bool, view: &View, change: impl FnOnce(&mut View)) -> Readiness {
    let (written, now) = (Written::default(), start());
    let write = Write {
        seen,
        ..write(version, now)
    };
    written.record(&owner(), &pods(), write, view);
    let mut view = View {
        state: view.state.clone(),
        held: view.held.clone(),
    };
    let first = written.ready(&owner(), now, &view);
    change(&mut view);
    let second = written.ready(&owner(), now + SECOND, &view);
    if first == Readiness::Ready {
        assert_eq!(second, Readiness::Ready, "what is settled stays so");
    }
    second
}

#[test]
fn a_view_that_has_reached_the_version_has_seen_the_write() {
    let no_change = |_: &mut View| ();
    assert_eq!(after("5", false, &view("4"), no_change), behind(SECOND));
    assert_eq!(after("5", false, &view("5"), no_change), Readiness::Ready);
    assert_eq!(
        after("5", false, &view("4"), |view| view.state.version = "10".into()),
        Readiness::Ready
    );
}

#[test]
fn the_object_itself_may_show_more_than_the_view_promises() {
    let shows = |written: &str, uid: &str, version: &str| {
        let shown = Some(identity(uid, version));
        after(written, false, &view("4"), |view| view.held = shown)
    };
    assert_eq!(shows("5", "1", "5"), Readiness::Ready);
    assert_eq!(shows("5", "2", "6"), Readiness::Ready, "a later one in its place");
    assert_eq!(
        shows("5", "2", "3"),
        behind(SECOND),
        "an earlier one in its place"
    );
    assert_eq!(shows("x", "1", "x"), Readiness::Ready);
    assert_eq!(
        shows("x", "1", "y"),
        behind(SECOND),
        "before or after: nobody knows"
    );
    assert_eq!(shows("", "1", ""), behind(SECOND), "no version is not a version");
}

#[test]
fn absence_proves_something_only_after_presence() {
    let none = |view: &mut View| view.held = None;
    let other = |view: &mut View| view.held = Some(identity("2", "y"));
    assert_eq!(
        after("x", false, &view("w"), none),
        behind(SECOND),
        "not there yet"
    );
    assert_eq!(
        after("x", false, &view("w"), other),
        behind(SECOND),
        "the one before"
    );
    assert_eq!(
        after("", true, &view("w"), none),
        Readiness::Ready,
        "it was there before"
    );
    assert_eq!(after("", true, &view("w"), other), Readiness::Ready);
    let present = View {
        held: Some(identity("1", "v")),
        ..view("w")
    };
    assert_eq!(after("x", false, &present, none), Readiness::Ready);
    assert_eq!(after("x", false, &present, other), Readiness::Ready);
    assert_eq!(after("x", true, &present, |_| ()), behind(SECOND), "still there");
}

#[test]
fn a_list_begun_after_the_answer_has_the_write() {
    let (written, now) = (Written::default(), start());
    let mut view = view("w");
    for (begun, settled) in [(now, false), (now + SECOND, true)] {
        view.state.list_begun_at = None;
        written.record(&owner(), &pods(), write("x", now), &view);
        view.state.list_begun_at = Some(begun);
        let ready = written.ready(&owner(), now + SECOND, &view) == Readiness::Ready;
        assert_eq!(ready, settled);
    }
}

#[test]
fn versions_that_began_anew_are_not_waited_for() {
    assert_eq!(
        after("5", false, &view("4"), |view| view.state.epoch += 1),
        Readiness::Ready
    );
}

#[test]
fn a_view_that_stays_behind_is_stuck_in_the_end() {
    let (written, now, view) = (Written::default(), start(), view("4"));
    written.record(&owner(), &pods(), write("5", now), &view);
    assert_eq!(
        written.ready(&owner(), now + 29 * SECOND, &view),
        behind(29 * SECOND)
    );
    let stuck = Readiness::Stuck { resource: pods() };
    assert_eq!(written.ready(&owner(), now + 30 * SECOND, &view), stuck);
}

#[test]
fn there_is_nothing_to_wait_for_without_a_view_or_a_write() {
    let (written, now, view) = (Written::default(), start(), view("4"));
    let maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
    written.record(&owner(), &maps, write("5", now), &view);
    assert_eq!(written.ready(&owner(), now, &view), Readiness::Ready);
    written.record(&owner(), &pods(), write("5", now), &view);
    assert_eq!(
        written.ready(&Key::new("a", "other"), now, &view),
        Readiness::Ready
    );
    assert_eq!(written.ready(&owner(), now, &view), behind(Duration::ZERO));
    written.forget(&owner());
    assert_eq!(written.ready(&owner(), now, &view), Readiness::Ready);
    written.record(&owner(), &pods(), write("5", now), &view);
    written.clear();
    assert_eq!(written.ready(&owner(), now, &view), Readiness::Ready);
}

fn count(written: &Written) -> usize {
    written.records(|owners| {
        let resources = owners.values().flat_map(BTreeMap::values);
        resources.map(Vec::len).sum()
    })
}

#[test]
fn of_versions_that_compare_the_highest_is_kept_for_each_namespace() {
    let (written, now) = (Written::default(), start());
    let mut view = view("4");
    for (version, late) in [("6", 1), ("9", 2), ("7", 3)] {
        for object in [pod("a"), Key::new("a", "second"), pod("b")] {
            let write = Write {
                object,
                ..write(version, now + late * SECOND)
            };
            written.record(&owner(), &pods(), write, &view);
        }
    }
    assert_eq!(count(&written), 2);
    // The watch of one namespace has come that far, the other one has not.
    view.held = Some(identity("1", "9"));
    assert_eq!(written.ready(&owner(), now + 4 * SECOND, &view), behind(SECOND));
    assert_eq!(count(&written), 1);
    // Begun after the highest version was written, but before the last write was.
    view.state.list_begun_at = Some(now + Duration::from_millis(2500));
    assert_eq!(written.ready(&owner(), now + 4 * SECOND, &view), behind(SECOND));
    view.state.version = "8".into();
    assert_ne!(written.ready(&owner(), now + 4 * SECOND, &view), Readiness::Ready);
    view.state.version = "9".into();
    assert_eq!(written.ready(&owner(), now + 4 * SECOND, &view), Readiness::Ready);
    assert!(written.records(|owners| owners.is_empty()), "nothing is left");
}

#[test]
fn of_versions_that_do_not_compare_the_last_of_each_object_is_kept() {
    let (written, now) = (Written::default(), start());
    let mut view = view("w");
    for version in ["x", "y", ""] {
        for object in [pod("a"), pod("b")] {
            let write = Write {
                object,
                ..write(version, now)
            };
            written.record(&owner(), &pods(), write, &view);
        }
    }
    assert_eq!(count(&written), 2);
    // One that compares does not stand for others that do not.
    written.record(&owner(), &pods(), write("5", now), &view);
    assert_eq!(count(&written), 2);
    view.state.version = "5".into();
    assert_eq!(written.ready(&owner(), now, &view), behind(Duration::ZERO));
    // Nor are those of an earlier epoch kept.
    view.state.epoch += 1;
    written.record(&owner(), &pods(), write("6", now), &view);
    assert_eq!(count(&written), 1);
}
