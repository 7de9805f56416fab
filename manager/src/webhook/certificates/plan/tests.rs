//! Explores the interleavings of two leaders, a replica, the clock and another client that corrupts the objects, with
//! crashes and arbitrarily late writes. Invariant: the replica never serves a certificate that a client cannot verify.
//!
//! Two exceptions are unavoidable. A foreign edit of a configuration counts until it is reverted. If the Secret is
//! deleted, or the Secret and a configuration are both corrupted, the CA of the served certificate is lost; the replica
//! then reports that the Secret has no such certificate.

mod memo;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::memo::Memo;
use super::*;
use crate::env::Rng;

/// Exceeds the number of reachable states.
const MAX_STATES: usize = 1_000_000;
/// After one step a certificate is due for renewal, after two it has expired.
const STEP: Duration = Duration::from_hours(61 * 24);

/// A text, by its number in [`Memo`].
type Text = usize;

/// The data of the Secret, by key.
type Data = BTreeMap<&'static str, Text>;

/// The inputs of a decision: the time, the Secret and the bundles.
type Inputs = (u32, Option<Data>, [Text; 2]);

/// The version and the bundle of each configuration.
type Bundles = [(u64, Text); 2];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    time: u32,
    /// Interference so far.
    done: Interference,
    secret: Option<(u64, Data)>,
    /// The latest version of a Secret. It is not reused after a deletion.
    version: u64,
    bundles: Bundles,
    /// Whether the bundle is a foreign edit.
    edited: [bool; 2],
    leaders: [Leader; 2],
    /// The certificate that the replica serves.
    replica: Option<Text>,
}

/// The progress of a process that considers itself the leader.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Leader {
    Idle,
    Read(Bundles),
    /// It has read the Secret and will stage a certificate.
    Staging(u64, Data),
    /// It sends these writes in order.
    Sending(Vec<Write>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Create(Data),
    /// Applies to this version. None removes a key.
    Secret(u64, Vec<(&'static str, Option<Text>)>),
    Configuration(usize, u64, Text),
}

/// The participants and their limits.
struct Scenario {
    /// Whether a second process considers itself the leader.
    second_leader: bool,
    time: u32,
    interference: Interference,
}

/// The number of writes by another client.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Interference {
    /// Of a key of the Secret.
    corruptions: u32,
    /// Of the Secret.
    deletions: u32,
    /// Of the bundle of a configuration.
    edits: u32,
}

impl State {
    fn initial() -> Self {
        Self {
            time: 0,
            done: Interference::default(),
            secret: None,
            version: 0,
            bundles: [(1, 0); 2],
            edited: [false; 2],
            leaders: [Leader::Idle, Leader::Idle],
            replica: None,
        }
    }

    /// Advances a leader.
    fn act(&self, memo: &Memo, leader: usize) -> Self {
        let mut next = self.clone();
        next.leaders[leader] = match &self.leaders[leader] {
            Leader::Idle => Leader::Read(self.bundles),
            Leader::Read(bundles) => {
                match (memo.step(self.time, self.secret.as_ref(), bundles), &self.secret) {
                    (Step::Nothing, _) => Leader::Idle,
                    (Step::Stage { .. }, Some((version, data))) => Leader::Staging(*version, data.clone()),
                    (Step::Create, _) => Leader::Sending(vec![memo.create(self.time, leader, self.version)]),
                    (_, Some(secret)) => Leader::Sending(memo.writes_of(self.time, secret, bundles)),
                    (_, None) => panic!("no Secret and no creation"),
                }
            }
            Leader::Staging(version, data) => {
                let write = memo.stage(self.time, leader, *version, data, &self.bundles);
                Leader::Sending(vec![write])
            }
            Leader::Sending(writes) => {
                let (write, rest) = writes.split_first().expect("a write");
                if next.write(write) && !rest.is_empty() {
                    Leader::Sending(rest.to_vec())
                } else {
                    Leader::Idle
                }
            }
        };
        next
    }

    /// Applies a write. Returns whether the API server accepts it.
    fn write(&mut self, write: &Write) -> bool {
        let taken = match write {
            Write::Create(_) => self.secret.is_none(),
            Write::Secret(version, _) => self.secret.as_ref().is_some_and(|(at, _)| at == version),
            Write::Configuration(i, version, _) => self.bundles[*i].0 == *version,
        };
        if !taken {
            return false;
        }
        match write {
            Write::Create(data) => self.put(data.clone()),
            Write::Secret(_, changes) => {
                let (_, mut data) = self.secret.clone().expect("a Secret");
                for (key, text) in changes {
                    match text {
                        Some(text) => data.insert(key, *text),
                        None => data.remove(key),
                    };
                }
                self.put(data);
            }
            Write::Configuration(i, version, text) => {
                self.bundles[*i] = (version + 1, *text);
                self.edited[*i] = false;
            }
        }
        true
    }

    fn put(&mut self, data: Data) {
        self.version += 1;
        self.secret = Some((self.version, data));
    }

    fn load(&self, memo: &Memo) -> Self {
        let mut next = self.clone();
        if let Some((version, data)) = &self.secret {
            next.replica = memo.to_serve(self.time, *version, data).or(self.replica);
        }
        next
    }

    /// Returns all successors with the actor. A crashed leader is one that never acts again.
    fn next(&self, memo: &Memo, scenario: &Scenario) -> Vec<(&'static str, Self)> {
        let mut all = vec![("first leader", self.act(memo, 0)), ("replica", self.load(memo))];
        if scenario.second_leader {
            all.push(("second leader", self.act(memo, 1)));
        } else if self.leaders[0] != Leader::Idle {
            let mut crashed = self.clone();
            crashed.leaders[0] = Leader::Idle;
            all.push(("crash", crashed));
        }
        if self.time < scenario.time {
            let mut later = self.clone();
            later.time += 1;
            all.push(("time passes", later));
        }
        self.interfere(memo, &scenario.interference, &mut all);
        all
    }

    fn interfere(&self, memo: &Memo, most: &Interference, all: &mut Vec<(&'static str, Self)>) {
        if let Some((_, data)) = &self.secret {
            if self.done.corruptions < most.corruptions {
                let garbage = memo.text("garbage");
                let added = memo.with_foreign_authorities(data);
                for (what, key, text) in [
                    ("tls.crt corrupted", "tls.crt", garbage),
                    ("ca.crt corrupted", "ca.crt", garbage),
                    ("foreign CAs in ca.crt", "ca.crt", added),
                    ("next.key corrupted", "next.key", garbage),
                ] {
                    let mut corrupted = self.clone();
                    corrupted.done.corruptions += 1;
                    let mut data = data.clone();
                    data.insert(key, text);
                    corrupted.put(data);
                    all.push((what, corrupted));
                }
            }
            if self.done.deletions < most.deletions {
                let mut deleted = self.clone();
                deleted.done.deletions += 1;
                deleted.secret = None;
                all.push(("Secret deleted", deleted));
            }
        }
        if self.done.edits < most.edits {
            for (what, text) in [
                ("empty bundle", memo.text("")),
                ("foreign bundle", memo.foreign_bundle()),
            ] {
                for i in 0..2 {
                    let mut edited = self.clone();
                    edited.done.edits += 1;
                    let (version, _) = edited.bundles[i];
                    edited.bundles[i] = (version + 1, text);
                    edited.edited[i] = true;
                    all.push((what, edited));
                }
            }
        }
    }

    /// Checks the invariant, with its two exceptions.
    fn is_safe(&self, memo: &Memo) -> bool {
        if self.is_trusted(memo) {
            return true;
        }
        // The CA was lost with the Secret, or because both the Secret and a configuration were corrupted. As soon as the
        // replica sees the present state, it serves that, or reports that it does not.
        let forgotten = self.done.deletions > 0 || (self.done.corruptions > 0 && self.done.edits > 0);
        let seen = self.load(memo);
        forgotten && (seen.is_trusted(memo) || !seen.serves_the_secret(memo))
    }

    fn is_trusted(&self, memo: &Memo) -> bool {
        self.replica.is_none_or(|served| {
            let trusted = |i: usize| self.edited[i] || memo.verifies(self.time, served, self.bundles[i].1);
            // Expiry without any activity for a month is not a violation.
            !memo.is_unexpired(self.time, served) || (trusted(0) && trusted(1))
        })
    }

    /// Reports whether the Secret has a certificate that the replica accepts.
    fn serves_the_secret(&self, memo: &Memo) -> bool {
        let secret = self.secret.as_ref();
        secret.is_some_and(|(version, data)| memo.to_serve(self.time, *version, data).is_some())
    }

    /// Checks that a single leader reaches a stable state with a served certificate.
    fn check_convergence(&self, memo: &Memo) {
        let mut state = self.clone();
        state.leaders = [Leader::Idle, Leader::Idle];
        for _ in 0..8 {
            state = state.act(memo, 0);
            state = state.act(memo, 0);
            if state.leaders[0] == Leader::Idle {
                let state = state.load(memo);
                let served = state.replica.expect("a certificate");
                assert!(memo.is_unexpired(state.time, served));
                assert!(
                    state.is_trusted(memo) && state.edited == [false; 2] && state.serves_the_secret(memo)
                );
                return;
            }
            while state.leaders[0] != Leader::Idle {
                state = state.act(memo, 0);
            }
        }
        panic!("no stable state");
    }
}

/// Explores all reachable states. Returns their number.
fn explore(scenario: &Scenario) -> usize {
    let memo = Memo::new();
    let mut seen = BTreeSet::from([State::initial()]);
    let mut open = vec![(State::initial(), 0)];
    // The predecessor of each state, and the actor.
    let mut paths = vec![(0, "start")];
    // The states whose convergence is checked: leaders and interference do not matter for it.
    let mut ends = BTreeSet::new();
    while let Some((state, path)) = open.pop() {
        if !state.is_safe(&memo) {
            let steps = std::iter::successors(Some(path), |path| (*path > 0).then(|| paths[*path].0));
            let steps: Vec<_> = steps.map(|path| paths[path].1).collect();
            panic!(
                "the served certificate is not trusted; latest step first: {}",
                steps.join(", ")
            );
        }
        if ends.insert((state.time, state.secret.clone(), state.bundles, state.replica)) {
            state.check_convergence(&memo);
        }
        for (actor, next) in state.next(&memo, scenario) {
            if seen.insert(next.clone()) {
                open.push((next, paths.len()));
                paths.push((path, actor));
            }
        }
        assert!(seen.len() < MAX_STATES, "too many states");
    }
    seen.len()
}

/// Takes random walks of `steps` steps.
fn random_walks(scenario: &Scenario, walks: u64, steps: usize) {
    let memo = Memo::new();
    for seed in steersman_harness::seeds::of(walks) {
        let rng = Rng::from_seed(seed);
        let (mut state, mut path) = (State::initial(), Vec::new());
        for _ in 0..steps {
            let mut all = state.next(&memo, scenario);
            let at = usize::try_from(rng.below(all.len() as u64)).expect("an index");
            let (actor, next) = all.swap_remove(at);
            path.push(actor);
            state = next;
            assert!(
                state.is_safe(&memo),
                "the served certificate is not trusted; walk {seed}: {}",
                path.join(", ")
            );
        }
        state.check_convergence(&memo);
    }
}

/// Explores a scenario and checks that it has enough states to mean something.
fn explore_many(second_leader: bool, time: u32, interference: Interference) {
    let states = explore(&Scenario {
        second_leader,
        time,
        interference,
    });
    assert!(states > 1000, "{states}");
}

const CORRUPTION: Interference = Interference {
    corruptions: 1,
    deletions: 0,
    edits: 0,
};

#[test]
fn two_leaders_keep_served_certificate_trusted() {
    explore_many(true, 1, Interference::default());
}

#[test]
fn two_leaders_repair_corrupted_secret() {
    explore_many(true, 0, CORRUPTION);
}

#[test]
fn two_leaders_recreate_deleted_secret() {
    let deletion = Interference {
        deletions: 1,
        ..Interference::default()
    };
    explore_many(true, 0, deletion);
}

#[test]
fn crashing_leader_keeps_served_certificate_trusted() {
    explore_many(false, 2, CORRUPTION);
}

#[test]
fn crashing_leader_repairs_foreign_writes() {
    let all = Interference {
        corruptions: 1,
        deletions: 1,
        edits: 1,
    };
    explore_many(false, 0, all);
}

#[test]
fn random_walks_keep_served_certificate_trusted() {
    let scenario = Scenario {
        second_leader: true,
        time: 3,
        interference: Interference {
            corruptions: 2,
            deletions: 1,
            edits: 2,
        },
    };
    random_walks(&scenario, 500, 60);
}
