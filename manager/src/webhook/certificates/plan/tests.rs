//! Every order in which two leaders at once, a replica, the clock and a vandal can act, with crashes, and with writes that are
//! as late as they like: at no moment does the replica serve what a client cannot verify.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::held::{Stored, created};
use super::super::pair::{Issue, LIFE, Pair, issue};
use super::super::{ServiceName, inject};
use super::*;

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
    /// How often the vandal has been there.
    spoilt: u32,
    secret: Option<(u64, Data)>,
    bundles: Bundles,
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
    /// How often the vandal comes.
    vandal: u32,
}

const KEYS: [&str; 5] = ["tls.crt", "tls.key", "next.crt", "next.key", "ca.crt"];

/// What the states speak of, and what is known of it already.
struct World {
    service: ServiceName,
    texts: RefCell<Vec<String>>,
    issues: RefCell<BTreeMap<(u32, usize, u64), Rc<Issue>>>,
    steps: RefCell<BTreeMap<Look, Step>>,
    verified: RefCell<BTreeMap<(u32, Text, Text), bool>>,
    served: RefCell<BTreeMap<(u32, Data), Option<Text>>>,
    /// The key of each certificate.
    keys: RefCell<BTreeMap<Text, String>>,
}

impl World {
    fn new() -> Self {
        Self {
            service: "system/hooks".parse().expect("a service"),
            // The empty text is number 0.
            texts: RefCell::new(vec![String::new()]),
            issues: RefCell::default(),
            steps: RefCell::default(),
            verified: RefCell::default(),
            served: RefCell::default(),
            keys: RefCell::default(),
        }
    }

    fn now(time: u32) -> Timestamp {
        let start: Timestamp = "2026-02-03T04:05:06Z".parse().expect("a time");
        start + STEP * time
    }

    fn text(&self, text: &str) -> Text {
        let mut texts = self.texts.borrow_mut();
        if let Some(known) = texts.iter().position(|it| it == text) {
            return known;
        }
        texts.push(text.to_owned());
        texts.len() - 1
    }

    fn bytes(&self, text: Text) -> ByteString {
        ByteString(self.texts.borrow()[text].clone().into_bytes())
    }

    /// From what a write says of the data to texts; none is null.
    fn data(&self, written: &Value) -> Vec<(&'static str, Option<Text>)> {
        let present = KEYS.into_iter().filter(|key| written.get(key).is_some());
        let read = present.map(|key| {
            let bytes: Option<ByteString> = serde_json::from_value(written[key].clone()).expect("base64");
            let text = bytes.map(|it| self.text(&String::from_utf8(it.0).expect("text")));
            (key, text)
        });
        read.collect()
    }

    fn held(&self, version: u64, data: &Data) -> Held {
        let data: BTreeMap<_, _> = data.iter().map(|(key, text)| (*key, self.bytes(*text))).collect();
        let secret = json!({"metadata": {"uid": "u", "resourceVersion": version.to_string()}, "data": data});
        let stored: Stored = serde_json::from_value(secret).expect("a Secret");
        stored.into()
    }

    fn configurations(&self, bundles: &Bundles) -> [Configuration; 2] {
        bundles.map(|(version, bundle)| {
            let client = json!({"service": self.service_value(), "caBundle": self.bytes(bundle)});
            let stored = json!({
                "metadata": {"uid": "u", "resourceVersion": version.to_string()},
                "webhooks": [{"name": "a.b.c", "clientConfig": client}],
            });
            let stored: inject::Stored = serde_json::from_value(stored).expect("a configuration");
            Configuration::new(stored, &self.service)
        })
    }

    fn service_value(&self) -> Value {
        json!({"namespace": self.service.namespace, "name": self.service.name})
    }

    /// What this leader makes at this moment.
    fn issue(&self, time: u32, leader: usize, version: u64) -> Rc<Issue> {
        let mut issues = self.issues.borrow_mut();
        let made = issues.entry((time, leader, version)).or_insert_with(|| {
            let made = issue(&self.service.host(), Self::now(time)).expect("made");
            let certificate = self.text(made.pair.certificate());
            let key = made.pair.key().to_owned();
            self.keys.borrow_mut().insert(certificate, key);
            Rc::new(made)
        });
        made.clone()
    }

    fn step(&self, time: u32, secret: Option<&(u64, Data)>, bundles: &Bundles) -> Step {
        let data = secret.map(|(_, data)| data.clone());
        let key = (time, data, bundles.map(|(_, bundle)| bundle));
        if let Some(known) = self.steps.borrow().get(&key) {
            return known.clone();
        }
        let configurations = self.configurations(bundles);
        let held = secret.map(|(version, data)| self.held(*version, data));
        let step = decide(
            &configurations.each_ref(),
            held.as_ref(),
            &self.service.host(),
            Self::now(time),
        );
        self.steps.borrow_mut().insert(key, step.clone());
        step
    }

    /// The writes of a leader that has read these.
    fn decided(
        &self,
        time: u32,
        leader: usize,
        secret: Option<&(u64, Data)>,
        bundles: &Bundles,
    ) -> Vec<Write> {
        let step = self.step(time, secret, bundles);
        let Some((version, data)) = secret else {
            assert_eq!(step, Step::Create);
            let body = created(&self.service.secret(), &self.issue(time, leader, 0));
            let data = self.data(&body["data"]).into_iter();
            return vec![Write::Create(
                data.map(|(key, text)| (key, text.expect("a text"))).collect(),
            )];
        };
        let held = self.held(*version, data);
        let patch = match step {
            Step::Nothing | Step::Create => panic!("there is one, and something to do"),
            Step::Inject => {
                let bundle = bundle(&held.authorities);
                let configurations = self.configurations(bundles);
                let differ = configurations
                    .iter()
                    .enumerate()
                    .filter(|(_, it)| !it.carries(&bundle));
                let writes = differ.map(|(i, it)| {
                    let patch = it.patch(&bundle);
                    let version = patch["metadata"]["resourceVersion"].as_str().expect("a version");
                    let written = patch["webhooks"][0]["clientConfig"]["caBundle"].clone();
                    let written: ByteString = serde_json::from_value(written).expect("base64");
                    let text = self.text(&String::from_utf8(written.0).expect("text"));
                    Write::Configuration(i, version.parse().expect("a number"), text)
                });
                return writes.collect();
            }
            Step::Stage { .. } => panic!("that takes another look"),
            Step::Promote => held.promote().expect("there is a next"),
        };
        vec![self.patch(&patch)]
    }

    /// The write of a leader that has read this Secret, and then these.
    fn staged(&self, time: u32, leader: usize, version: u64, data: &Data, bundles: &Bundles) -> Write {
        let held = self.held(version, data);
        let configurations = self.configurations(bundles);
        let kept = kept(&held, &configurations.each_ref());
        self.patch(&held.stage(&self.issue(time, leader, version), kept))
    }

    fn patch(&self, patch: &Value) -> Write {
        let version = patch["metadata"]["resourceVersion"].as_str().expect("a version");
        Write::Secret(version.parse().expect("a number"), self.data(&patch["data"]))
    }

    /// What a replica makes of the Secret.
    fn to_serve(&self, time: u32, version: u64, data: &Data) -> Option<Text> {
        let key = (time, data.clone());
        if let Some(known) = self.served.borrow().get(&key) {
            return *known;
        }
        let held = self.held(version, data);
        let pair = held
            .to_serve(&self.service.host(), Self::now(time))
            .ok()
            .flatten();
        let served = pair.map(|it| self.text(it.certificate()));
        self.served.borrow_mut().insert(key, served);
        served
    }

    /// Whether somebody with this bundle takes this certificate now.
    fn verifies(&self, time: u32, certificate: Text, bundle: Text) -> bool {
        let key = (time, certificate, bundle);
        if let Some(known) = self.verified.borrow().get(&key) {
            return *known;
        }
        let pair = self.pair(certificate);
        let authorities = Authority::read_all(self.texts.borrow()[bundle].as_bytes());
        let verified = pair
            .verify(&authorities, &self.service.host(), Self::now(time))
            .is_ok();
        self.verified.borrow_mut().insert(key, verified);
        verified
    }

    fn pair(&self, certificate: Text) -> Pair {
        let key = self.keys.borrow()[&certificate].clone();
        Pair::read(self.texts.borrow()[certificate].as_bytes(), key.as_bytes()).expect("a pair")
    }

    /// Whether it has not ended.
    fn lives(&self, time: u32, certificate: Text) -> bool {
        let made = self.issues.borrow();
        let made = made
            .iter()
            .find(|(_, it)| it.pair.certificate() == self.texts.borrow()[certificate]);
        let ((made, ..), _) = made.expect("somebody has made it");
        STEP * (time - made) <= LIFE
    }
}

impl State {
    fn first() -> Self {
        Self {
            time: 0,
            spoilt: 0,
            secret: None,
            bundles: [(1, 0); 2],
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
                    _ => Leader::Sends(world.decided(self.time, leader, self.secret.as_ref(), bundles)),
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
        match write {
            Write::Create(data) => {
                let free = self.secret.is_none();
                if free {
                    self.secret = Some((1, data.clone()));
                }
                free
            }
            Write::Secret(version, changes) => match &mut self.secret {
                Some((at, data)) if at == version => {
                    *at += 1;
                    for (key, text) in changes {
                        match text {
                            Some(text) => data.insert(key, *text),
                            None => data.remove(key),
                        };
                    }
                    true
                }
                _ => false,
            },
            Write::Configuration(i, version, text) => {
                let (at, bundle) = &mut self.bundles[*i];
                let same = at == version;
                if same {
                    (*at, *bundle) = (*at + 1, *text);
                }
                same
            }
        }
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
        if let Some((version, data)) = &self.secret
            && self.spoilt < cast.vandal
        {
            for key in ["tls.crt", "ca.crt", "next.key"] {
                let mut data = data.clone();
                data.insert(key, world.text("garbage"));
                let spoilt = Self {
                    spoilt: self.spoilt + 1,
                    secret: Some((version + 1, data)),
                    ..self.clone()
                };
                all.push((key, spoilt));
            }
        }
        all
    }

    /// Whether what is served is trusted.
    fn is_good(&self, world: &World) -> bool {
        self.replica.is_none_or(|served| {
            // What has ended because nobody did anything for a month is nobody's fault.
            let trusted = |(_, bundle): &(u64, Text)| world.verifies(self.time, served, *bundle);
            !world.lives(self.time, served) || self.bundles.iter().all(trusted)
        })
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
                assert!(state.is_good(world));
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

#[test]
fn two_leaders_at_once_do_not_take_from_each_other_what_is_served() {
    let states = explore(&Cast {
        rival: true,
        time: 1,
        vandal: 0,
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn two_leaders_at_once_put_right_what_is_spoilt() {
    let states = explore(&Cast {
        rival: true,
        time: 0,
        vandal: 1,
    });
    assert!(states > 1000, "{states}");
}

#[test]
fn a_leader_that_crashes_at_any_point_leaves_what_works() {
    let states = explore(&Cast {
        rival: false,
        time: 2,
        vandal: 1,
    });
    assert!(states > 1000, "{states}");
}
