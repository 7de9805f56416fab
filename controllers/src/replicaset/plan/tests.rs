use super::*;

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

/// A snapshot of active pods and of pending creates with unknown outcome.
fn snapshot<'a>(owner: &'a Owner, active: &[Arc<Pod>], pending_creates: BTreeSet<Text>) -> Snapshot<'a> {
    Snapshot {
        owner,
        claims: Claims {
            active: active.to_vec(),
            ..Claims::default()
        },
        is_resolved: true,
        may_adopt: true,
        is_satisfied: true,
        pending_creates,
        not_found: BTreeSet::new(),
        undecodable: BTreeSet::new(),
        ranks: NodeRanks::new(),
        budget: Budget::default(),
        creates_suspended_for: None,
        name_seed: 1,
    }
}

fn scale_of(snapshot: &Snapshot<'_>) -> Scale {
    plan(snapshot, now()).scale.expect("it may scale")
}

/// A pod, with a controller unless its uid is empty.
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
fn pods_are_claimed_by_controller_selector_and_phase() {
    #[derive(Debug, PartialEq)]
    enum Is {
        Active,
        Adopted,
        Released,
        Terminating,
        Finished,
        Ignored,
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
                            ("own", "web") if ended && deleting => Is::Ignored,
                            ("own", "web") if ended => Is::Finished,
                            ("own", "web") if deleting => Is::Terminating,
                            ("own", "web") => Is::Active,
                            _ if ended || deleting || gone => Is::Ignored,
                            ("own", _) => Is::Released,
                            ("", "web") => Is::Adopted,
                            _ => Is::Ignored,
                        };
                        let pod = pod("p", controller, app, phase, deleting);
                        let selector = owner.selector().expect("a selector");
                        let found = claims(owner, selector, [&pod]);
                        let counts = (
                            found.active.len(),
                            found.adopt.len(),
                            found.release.len(),
                            found.terminating,
                            found.finished.len(),
                        );
                        let is = match counts {
                            (1, 0, 0, 0, 0) => Is::Active,
                            (1, 1, 0, 0, 0) => Is::Adopted,
                            (0, 0, 1, 0, 0) => Is::Released,
                            (0, 0, 0, 1, 0) => Is::Terminating,
                            (0, 0, 0, 0, 1) => Is::Finished,
                            (0, 0, 0, 0, 0) => Is::Ignored,
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
fn active_pending_and_planned_pods_never_exceed_replicas() {
    for replicas in 0..8_i64 {
        for there in 0..8_usize {
            for unknown in 0..8_usize {
                for shown in 0..=there.min(unknown) {
                    let active: Vec<_> = (0..there)
                        .map(|i| pod(&format!("p{i}"), "own", "web", "Running", false))
                        .collect();
                    // The cache already shows some of the pending creates.
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
                    let owner = owner(replicas, &json!({}));
                    let scale = scale_of(&snapshot(&owner, &active, names));

                    let small = |it: usize| i64::try_from(it).expect("small");
                    let there = small(there + unknown - shown);
                    let (create, delete) = (small(scale.create.len()), small(scale.delete.len()));
                    let known = small(active.len());
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
fn sync_creates_or_deletes_at_most_burst_replicas() {
    let active: Vec<_> = (0..1200)
        .map(|i| pod(&format!("p{i}"), "own", "web", "Running", false))
        .collect();
    for replicas in [5000, i64::MAX] {
        let owner = owner(replicas, &json!({}));
        let snapshot = snapshot(&owner, &[], BTreeSet::new());
        assert_eq!(snapshot.missing(), replicas);
        let scale = scale_of(&snapshot);
        assert_eq!(
            (scale.missing, scale.create.len()),
            (BURST_REPLICAS, BURST_REPLICAS)
        );
    }
    let owner = owner(100, &json!({}));
    let scale = scale_of(&snapshot(&owner, &active, BTreeSet::new()));
    assert_eq!((scale.missing, scale.delete.len()), (0, BURST_REPLICAS));
}

#[test]
fn failed_observation_limits_the_plan() {
    let owner = owner(2, &json!({}));
    let observed = |is_resolved, may_adopt, is_satisfied| {
        let mut snapshot = snapshot(&owner, &[], BTreeSet::new());
        snapshot.claims.release = vec![pod("r", "own", "else", "Running", false)];
        snapshot.claims.adopt = vec![pod("a", "", "web", "Running", false)];
        snapshot.claims.active.clone_from(&snapshot.claims.adopt);
        let plan = plan(
            &Snapshot {
                is_resolved,
                may_adopt,
                is_satisfied,
                ..snapshot
            },
            now(),
        );
        let creates = plan.scale.map(|it| it.create.len());
        (plan.release.len(), plan.adopt.len(), creates)
    };
    assert_eq!(observed(true, true, true), (1, 1, Some(1)));
    assert_eq!(observed(true, true, false), (1, 1, None));
    assert_eq!(observed(true, false, true), (1, 0, None));
    assert_eq!(observed(false, false, true), (0, 0, None));
}

#[test]
fn names_of_earlier_attempts_are_used_first() {
    let owner = owner(3, &json!({}));
    let names: BTreeSet<Text> = ["a", "b", "c", "d"].map(Text::from).into();
    let mut snapshot = snapshot(&owner, &[], names.clone());
    snapshot.not_found = names;
    let scale = scale_of(&snapshot);
    assert_eq!(scale.create, ["a", "b", "c"].map(Text::from));
    snapshot.creates_suspended_for = Some(Duration::from_secs(7));
    let scale = scale_of(&snapshot);
    assert_eq!((scale.create, scale.missing), (vec![], 3));
    assert_eq!(scale.wake_up, Some(Duration::from_secs(7)));
    let active = ["a", "b", "c"].map(|name| pod(name, "u", "web", "Running", false));
    snapshot.claims.active = active.to_vec();
    let scale = scale_of(&snapshot);
    assert_eq!((scale.missing, scale.wake_up), (0, None));
}

/// A server, a cache that lags behind it, and a controller that loses answers.
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

    /// Settles the expectations, plans and acts.
    fn sync(&mut self, replicas: i64, rng: &Rng) {
        let shown: BTreeSet<Text> = self.cache.iter().map(|it| it.metadata.name.clone()).collect();
        self.unknown.retain(|it| !shown.contains(it));
        self.deleting.retain(|it| shown.contains(it));
        if !self.deleting.is_empty() {
            return;
        }
        let owner = owner(replicas, &json!({}));
        let selector = owner.selector().expect("a selector");
        let mut snapshot = snapshot(&owner, &[], self.unknown.clone());
        snapshot.claims = claims(&owner, selector, &self.cache);
        let scale = scale_of(&snapshot);
        assert_eq!(scale_of(&snapshot), scale, "the plan is deterministic");
        let (create, delete) = (scale.create.len(), scale.delete);
        for chosen in delete {
            assert!(
                chosen
                    .metadata
                    .controller()
                    .is_some_and(|it| it.uid == steersman_manager::object::Uid::from("own"))
            );
            self.deleting.insert(chosen.metadata.name.clone());
            self.server.retain(|it| it.metadata.name != chosen.metadata.name);
        }
        for _ in 0..create {
            let name = format!("m{}", self.made);
            self.made += 1;
            match rng.below(3) {
                // Created, and the answer is lost.
                0 | 1 => {
                    self.server.push(pod(&name, "own", "web", "Running", false));
                    self.unknown.insert(name.into());
                }
                // Not created, and the answer is lost.
                _ => drop(self.unknown.insert(name.into())),
            }
        }
    }

    /// Updates the cache. If `all`, live reads resolve the unknown creates.
    fn observe(&mut self, all: bool) {
        self.cache = self.server.clone();
        if all {
            let there: BTreeSet<Text> = self.server.iter().map(|it| it.metadata.name.clone()).collect();
            self.unknown.retain(|it| there.contains(it));
        }
    }
}

#[test]
fn lost_answers_never_lead_to_surplus_pods() {
    for seed in steersman_harness::seeds::of(300) {
        let rng = Rng::from_seed(seed);
        let mut model = Model::default();
        let foreign = pod("foreign", "other", "web", "Running", false);
        let mut replicas = 5;
        let mut most = 5;
        for _ in 0..100 {
            match rng.below(10) {
                0 => {
                    replicas = i64::try_from(rng.below(10)).expect("small");
                    // After a scale-down, pods stay until they are deleted.
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
        // Without further losses the number of pods converges.
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
