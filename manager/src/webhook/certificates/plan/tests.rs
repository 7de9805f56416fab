//! Every order in which two leaders at once, a replica, the clock and a vandal can act, with crashes, and with writes that are
//! as late as they like: at no moment does the replica serve what a client cannot verify. Except where nobody can help it: what
//! somebody else writes into a configuration counts until it is put right; and who deletes the Secret, or spoils both it and a
//! configuration, has what is served forgotten. Then the replica says that the Secret does not have it any more.

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::world::World;
use super::*;
use crate::env::Rng;

/// More than there are: it comes to an end.
const MAX_STATES: usize = 1_000_000;
/// After this, the certificates of the step before are to be renewed; after twice this, they have ended.
const STEP: Duration = Duration::from_hours(61 * 24);

/// A text, by number.
type Text = usize;

/// The data of the Secret, by key.
type Data = BTreeMap<&'static str, Text>;

/// What is decided on: the time, the Secret and the bundles.
type Look = (u32, Option<Data>, [Text; 2]);

/// The version and the bundle of each configuration.
type Bundles = [(u64, Text); 2];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    time: u32,
    /// What the vandal has done.
    done: Vandal,
    secret: Option<(u64, Data)>,
    /// The latest version of a Secret: each is there once, whatever is deleted.
    version: u64,
    bundles: Bundles,
    /// Whether that is the vandal's.
    edited: [bool; 2],
    leaders: [Leader; 2],
    /// The certificate that the replica serves.
    replica: Option<Text>,
}

/// What one who takes itself for the leader is at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Leader {
    Idle,
    /// It has read the configurations.
    Read(Bundles),
    /// It has read the Secret, and is to stage another pair.
    Stages(u64, Data),
    /// It has decided, and sends these one after the other.
    Sends(Vec<Write>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Create(Data),
    /// If it is at this version; none takes a key away.
    Secret(u64, Vec<(&'static str, Option<Text>)>),
    Configuration(usize, u64, Text),
}

/// Who takes part.
struct Cast {
    /// Somebody else who takes itself for the leader.
    rival: bool,
    /// How far the clock goes.
    time: u32,
    vandal: Vandal,
}

/// How often somebody else writes what is ours.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Vandal {
    /// A key of the Secret.
    spoils: u32,
    /// The Secret, which it deletes.
    deletes: u32,
    /// The bundle of a configuration.
    edits: u32,
}

impl State {
    fn first() -> Self {
        Self {
            time: 0,
            done: Vandal::default(),
            secret: None,
            version: 0,
            bundles: [(1, 0); 2],
            edited: [false; 2],
            leaders: [Leader::Idle, Leader::Idle],
            replica: None,
        }
    }

    /// One step of a leader.
    fn act(&self, world: &World, leader: usize) -> Self {
        let mut next = self.clone();
        next.leaders[leader] = match &self.leaders[leader] {
            Leader::Idle => Leader::Read(self.bundles),
            Leader::Read(bundles) => {
                match (world.step(self.time, self.secret.as_ref(), bundles), &self.secret) {
                    (Step::Nothing, _) => Leader::Idle,
                    (Step::Stage { .. }, Some((version, data))) => Leader::Stages(*version, data.clone()),
                    (Step::Create, _) => Leader::Sends(vec![world.created(self.time, leader, self.version)]),
                    (_, Some(secret)) => Leader::Sends(world.decided(self.time, secret, bundles)),
                    (_, None) => panic!("without a Secret one is made"),
                }
            }
            Leader::Stages(version, data) => {
                let write = world.staged(self.time, leader, *version, data, &self.bundles);
                Leader::Sends(vec![write])
            }
            Leader::Sends(writes) => {
                let (write, rest) = writes.split_first().expect("a write");
                if next.write(write) && !rest.is_empty() {
                    Leader::Sends(rest.to_vec())
                } else {
                    Leader::Idle
                }
            }
        };
        next
    }

    /// Whether the server takes it.
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
                let (_, mut data) = self.secret.clone().expect("it is there");
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

    fn load(&self, world: &World) -> Self {
        let mut next = self.clone();
        if let Some((version, data)) = &self.secret {
            next.replica = world.to_serve(self.time, *version, data).or(self.replica);
        }
        next
    }

    /// All that may come next, and by whom. A leader that crashes is one that never acts again.
    fn next(&self, world: &World, cast: &Cast) -> Vec<(&'static str, Self)> {
        let mut all = vec![
            ("one leader", self.act(world, 0)),
            ("the replica", self.load(world)),
        ];
        if cast.rival {
            all.push(("the other", self.act(world, 1)));
        } else if self.leaders[0] != Leader::Idle {
            let mut crashed = self.clone();
            crashed.leaders[0] = Leader::Idle;
            all.push(("a crash", crashed));
        }
        if self.time < cast.time {
            let mut later = self.clone();
            later.time += 1;
            all.push(("time passes", later));
        }
        self.vandalised(world, &cast.vandal, &mut all);
        all
    }

    fn vandalised(&self, world: &World, most: &Vandal, all: &mut Vec<(&'static str, Self)>) {
        if let Some((_, data)) = &self.secret {
            if self.done.spoils < most.spoils {
                let garbage = world.text("garbage");
                let crowd = world.crowded(data);
                for (what, key, text) in [
                    ("tls.crt is spoilt", "tls.crt", garbage),
                    ("ca.crt is spoilt", "ca.crt", garbage),
                    ("strangers in ca.crt", "ca.crt", crowd),
                    ("next.key is spoilt", "next.key", garbage),
                ] {
                    let mut spoilt = self.clone();
                    spoilt.done.spoils += 1;
                    let mut data = data.clone();
                    data.insert(key, text);
                    spoilt.put(data);
                    all.push((what, spoilt));
                }
            }
            if self.done.deletes < most.deletes {
                let mut deleted = self.clone();
                deleted.done.deletes += 1;
                deleted.secret = None;
                all.push(("the Secret is deleted", deleted));
            }
        }
        if self.done.edits < most.edits {
            for (what, text) in [
                ("no bundle", world.text("")),
                ("a bundle of strangers", world.strangers()),
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

    /// Whether what is served is trusted, as far as that is up to us.
    fn is_good(&self, world: &World) -> bool {
        if self.is_trusted(world) {
            return true;
        }
        // Its authority was given up with the Secret, or forgotten because one who spoils the Secret has taken it out of a
        // configuration as well. As soon as the replica sees what there is now, it serves that, or says so.
        let forgotten = self.done.deletes > 0 || (self.done.spoils > 0 && self.done.edits > 0);
        let seen = self.load(world);
        forgotten && (seen.is_trusted(world) || !seen.serves_the_secret(world))
    }

    fn is_trusted(&self, world: &World) -> bool {
        self.replica.is_none_or(|served| {
            let trusted = |i: usize| self.edited[i] || world.verifies(self.time, served, self.bundles[i].1);
            // What has ended because nobody did anything for a month is nobody's fault.
            !world.lives(self.time, served) || (trusted(0) && trusted(1))
        })
    }

    /// Whether the Secret has something that the replica takes.
    fn serves_the_secret(&self, world: &World) -> bool {
        let secret = self.secret.as_ref();
        secret.is_some_and(|(version, data)| world.to_serve(self.time, *version, data).is_some())
    }

    /// What one leader makes of it, when all others are gone: something that is served, and stays.
    fn check_end(&self, world: &World) {
        let mut state = self.clone();
        state.leaders = [Leader::Idle, Leader::Idle];
        for _ in 0..8 {
            state = state.act(world, 0);
            state = state.act(world, 0);
            if state.leaders[0] == Leader::Idle {
                let state = state.load(world);
                let served = state.replica.expect("something is served");
                assert!(world.lives(state.time, served));
                assert!(
                    state.is_trusted(world) && state.edited == [false; 2] && state.serves_the_secret(world)
                );
                return;
            }
            while state.leaders[0] != Leader::Idle {
                state = state.act(world, 0);
            }
        }
        panic!("it does not come to an end");
    }
}

/// Looks at all that can happen, and says how much that is.
fn explore(cast: &Cast) -> usize {
    let world = World::new();
    let mut seen = BTreeSet::from([State::first()]);
    let mut open = vec![(State::first(), 0)];
    // What has led there: the step before, and whose it was.
    let mut ways = vec![(0, "the beginning")];
    // What the end depends on.
    let mut ends = BTreeSet::new();
    while let Some((state, way)) = open.pop() {
        if !state.is_good(&world) {
            let steps = std::iter::successors(Some(way), |way| (*way > 0).then(|| ways[*way].0));
            let steps: Vec<_> = steps.map(|way| ways[way].1).collect();
            panic!(
                "what is served is not trusted; the last first: {}",
                steps.join(", ")
            );
        }
        if ends.insert((state.time, state.secret.clone(), state.bundles, state.replica)) {
            state.check_end(&world);
        }
        for (whose, next) in state.next(&world, cast) {
            if seen.insert(next.clone()) {
                open.push((next, ways.len()));
                ways.push((way, whose));
            }
        }
        assert!(seen.len() < MAX_STATES, "more than can be looked at");
    }
    seen.len()
}

/// Goes some of the ways that there are, each as far as it leads or `steps`.
fn wander(cast: &Cast, walks: u64, steps: usize) {
    let world = World::new();
    for seed in coxswain_tests::seeds::of(walks) {
        let rng = Rng::from_seed(seed);
        let (mut state, mut way) = (State::first(), Vec::new());
        for _ in 0..steps {
            let mut all = state.next(&world, cast);
            let at = usize::try_from(rng.below(all.len() as u64)).expect("one of them");
            let (whose, next) = all.swap_remove(at);
            way.push(whose);
            state = next;
            assert!(
                state.is_good(&world),
                "what is served is not trusted; walk {seed}: {}",
                way.join(", ")
            );
        }
        state.check_end(&world);
    }
}

#[test]
fn two_leaders_at_once_do_not_take_from_each_other_what_is_served() {
    let states = explore(&Cast {
        rival: true,
        time: 1,
        vandal: Vandal::default(),
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn two_leaders_at_once_put_right_what_is_spoilt() {
    let states = explore(&Cast {
        rival: true,
        time: 0,
        vandal: Vandal {
            spoils: 1,
            ..Vandal::default()
        },
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn two_leaders_at_once_make_again_what_is_deleted() {
    let states = explore(&Cast {
        rival: true,
        time: 0,
        vandal: Vandal {
            deletes: 1,
            ..Vandal::default()
        },
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn a_leader_that_crashes_at_any_point_leaves_what_works() {
    let states = explore(&Cast {
        rival: false,
        time: 2,
        vandal: Vandal {
            spoils: 1,
            ..Vandal::default()
        },
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn a_leader_that_crashes_and_whatever_somebody_else_writes() {
    let states = explore(&Cast {
        rival: false,
        time: 0,
        vandal: Vandal {
            spoils: 1,
            deletes: 1,
            edits: 1,
        },
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn all_of_it_at_once() {
    let cast = Cast {
        rival: true,
        time: 3,
        vandal: Vandal {
            spoils: 2,
            deletes: 1,
            edits: 2,
        },
    };
    wander(&cast, 500, 60);
}
