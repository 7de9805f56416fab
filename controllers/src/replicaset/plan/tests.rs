use super::*;

use coxswain_manager::env::Rng;
use serde_json::{Value, json};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn owner(replicas: i64, more: &Value) -> Owner {
    let mut metadata = json!({"namespace": "ns", "name": "web", "uid": "own"});
    for (key, value) in more.as_object().into_iter().flatten() {
        metadata[key] = value.clone();
    }
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an owner")
}

/// A pod, of this controller unless that is empty.
fn pod(name: &str, controller: &str, app: &str, phase: &str, deleting: bool) -> Arc<Pod> {
    let mut metadata = json!({"namespace": "ns", "name": name, "uid": name, "labels": {"app": app}});
    if !controller.is_empty() {
        metadata["ownerReferences"] = json!([{"uid": controller, "kind": "ReplicaSet", "controller": true}]);
    }
    if deleting {
        metadata["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
    }
    let json = json!({"metadata": metadata, "status": {"phase": phase}});
    Arc::new(serde_json::from_value(json).expect("a pod"))
}

#[test]
fn every_pod_is_what_it_is_to_the_owner() {
    #[derive(Debug, PartialEq)]
    enum Is {
        Active,
        Adopted,
        Released,
        Terminating,
        Ended,
        Nothing,
    }
    let owners = [
        owner(1, &json!({})),
        owner(1, &json!({"deletionTimestamp": "2027-01-01T00:00:00Z"})),
    ];
    let mut seen = 0;
    for controller in ["own", "other", ""] {
        for app in ["web", "else"] {
            for phase in ["Pending", "Running", "Unknown", "", "Failed", "Succeeded"] {
                for deleting in [false, true] {
                    let ended = ["Failed", "Succeeded"].contains(&phase);
                    for owner in &owners {
                        let gone = owner.metadata.is_terminating();
                        let expected = match (controller, app) {
                            ("own", "web") if ended && deleting => Is::Nothing,
                            ("own", "web") if ended => Is::Ended,
                            ("own", "web") if deleting => Is::Terminating,
                            ("own", "web") => Is::Active,
                            _ if ended || deleting || gone => Is::Nothing,
                            ("own", _) => Is::Released,
                            ("", "web") => Is::Adopted,
                            _ => Is::Nothing,
                        };
                        let pod = pod("p", controller, app, phase, deleting);
                        let selector = owner.selector().expect("a selector");
                        let found = claims(owner, selector, [&pod]);
                        let counts = (
                            found.active.len(),
                            found.adopt.len(),
                            found.release.len(),
                            found.terminating,
                            found.ended.len(),
                        );
                        let is = match counts {
                            (1, 0, 0, 0, 0) => Is::Active,
                            (1, 1, 0, 0, 0) => Is::Adopted,
                            (0, 0, 1, 0, 0) => Is::Released,
                            (0, 0, 0, 1, 0) => Is::Terminating,
                            (0, 0, 0, 0, 1) => Is::Ended,
                            (0, 0, 0, 0, 0) => Is::Nothing,
                            other => panic!("{other:?}"),
                        };
                        assert_eq!(is, expected, "{controller} {app} {phase} {deleting} {gone}");
                        seen += 1;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 144);
}

#[test]
fn for_every_small_number_what_is_there_and_unknown_and_made_is_what_is_wanted() {
    for replicas in 0..8_i64 {
        for there in 0..8_usize {
            for unknown in 0..8_usize {
                for shown in 0..=there.min(unknown) {
                    let active: Vec<_> = (0..there)
                        .map(|i| pod(&format!("p{i}"), "own", "web", "Running", false))
                        .collect();
                    // Some of the unknown ones the cache shows already.
                    let names: BTreeSet<Text> = (0..unknown)
                        .map(|i| {
                            if i < shown {
                                format!("p{i}")
                            } else {
                                format!("u{i}")
                            }
                            .into()
                        })
                        .collect();
                    let missing = missing(replicas, &active, &names);
                    let Plan { create, delete } = manage(missing, &active, &Crowds::new(), now());

                    let small = |it: usize| i64::try_from(it).expect("small");
                    let there = small(there + unknown - shown);
                    let (create, delete, known) = (small(create), small(delete.len()), small(active.len()));
                    assert!(create == 0 || delete == 0);
                    assert!(there + create - delete <= replicas.max(there - known));
                    assert_eq!(create, (replicas - there).max(0));
                    assert_eq!(delete, (there - replicas).max(0).min(known));
                }
            }
        }
    }
}

#[test]
fn one_sync_does_no_more_than_a_burst() {
    let active: Vec<_> = (0..1200)
        .map(|i| pod(&format!("p{i}"), "own", "web", "Running", false))
        .collect();
    let none = Crowds::new();
    assert_eq!(manage(5000, &[], &none, now()).create, BURST);
    assert_eq!(manage(-1100, &active, &none, now()).delete.len(), BURST);
    assert_eq!(manage(i64::MAX, &[], &none, now()).create, BURST);
    assert_eq!(missing(i64::MAX, &[], &BTreeSet::new()), i64::MAX);
}

#[test]
fn a_crowd_is_all_active_pods_of_the_application_by_node() {
    let on = |name: &str, app: &str, phase: &str, node: &str| {
        let mut pod = Pod::clone(&pod(name, "own", app, phase, false));
        pod.node = node.into();
        Arc::new(pod)
    };
    let selectors: Vec<Selector> = ["web", "old"]
        .map(|app| Selector::from_labels(&[("app", app)].into_iter().collect()).expect("a selector"))
        .into();
    let pods = [
        on("a", "web", "Running", "n"),
        on("b", "old", "Pending", "n"),
        on("c", "web", "Failed", "n"),
        on("d", "else", "Running", "n"),
        on("e", "web", "Running", ""),
    ];
    let crowds = crowds(&selectors.iter().collect::<Vec<_>>(), &pods);
    assert_eq!(crowds, Crowds::from([("n".into(), 2), (Text::default(), 1)]));
}

/// A server, a cache behind it, and a controller whose answers get lost.
#[derive(Default)]
struct Model {
    server: Vec<Arc<Pod>>,
    cache: Vec<Arc<Pod>>,
    unknown: BTreeSet<Text>,
    deleting: BTreeSet<Text>,
    made: usize,
}

impl Model {
    fn active(&self) -> usize {
        self.server.iter().filter(|it| it.is_active()).count()
    }

    /// One sync, as the engine does it: settle, plan, act.
    fn sync(&mut self, replicas: i64, rng: &Rng) {
        let shown: BTreeSet<Text> = self.cache.iter().map(|it| it.metadata.name.clone()).collect();
        self.unknown.retain(|it| !shown.contains(it));
        self.deleting.retain(|it| shown.contains(it));
        if !self.deleting.is_empty() {
            return;
        }
        let owner = owner(replicas, &json!({}));
        let selector = owner.selector().expect("a selector");
        let claims = claims(&owner, selector, &self.cache);
        let plan = |model: &Self| {
            let missing = missing(replicas, &claims.active, &model.unknown);
            manage(missing, &claims.active, &Crowds::new(), now())
        };
        let Plan { create, delete } = plan(self);
        assert_eq!(
            plan(self),
            Plan {
                create,
                delete: delete.clone()
            },
            "the same again"
        );
        for victim in delete {
            assert!(
                victim
                    .metadata
                    .controller()
                    .is_some_and(|it| it.uid == coxswain_manager::object::Uid::from("own"))
            );
            self.deleting.insert(victim.metadata.name.clone());
            self.server.retain(|it| it.metadata.name != victim.metadata.name);
        }
        for _ in 0..create {
            let name = format!("m{}", self.made);
            self.made += 1;
            match rng.below(3) {
                // Done, and not known to be done.
                0 | 1 => {
                    self.server.push(pod(&name, "own", "web", "Running", false));
                    self.unknown.insert(name.into());
                }
                // Not done, and not known not to be done.
                _ => drop(self.unknown.insert(name.into())),
            }
        }
    }

    /// The cache sees what there is; and a read says which names are not there.
    fn observe(&mut self, all: bool) {
        self.cache = self.server.clone();
        if all {
            let there: BTreeSet<Text> = self.server.iter().map(|it| it.metadata.name.clone()).collect();
            self.unknown.retain(|it| there.contains(it));
        }
    }
}

#[test]
fn lost_answers_never_lead_to_more_than_is_wanted() {
    for seed in coxswain_tests::seeds::of(300) {
        let rng = Rng::from_seed(seed);
        let mut model = Model::default();
        let foreign = pod("foreign", "other", "web", "Running", false);
        let mut replicas = 5;
        let mut most = 5;
        for _ in 0..100 {
            match rng.below(10) {
                0 => {
                    replicas = i64::try_from(rng.below(10)).expect("small");
                    // Scaled down, what is there is there until it is deleted.
                    most = most.max(replicas);
                }
                1..=3 => model.observe(false),
                4 => {
                    model.observe(true);
                    model.cache.push(Arc::clone(&foreign));
                }
                5 if !model.server.is_empty() => drop(model.server.remove(0)),
                _ => model.sync(replicas, &rng),
            }
            let active = i64::try_from(model.active()).expect("small");
            assert!(active <= most, "seed {seed}: {active} of {most}");
            most = replicas.max(active);
        }
        // Without more losses it comes to what is wanted.
        for _ in 0..50 {
            model.observe(true);
            model.sync(replicas, &rng);
        }
        assert_eq!(
            i64::try_from(model.active()).expect("small"),
            replicas,
            "seed {seed}"
        );
    }
}
