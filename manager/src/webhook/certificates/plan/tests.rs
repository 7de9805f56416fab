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

/// The version and the bundle of each configuration.
type Bundles = [(u64, Text); 2];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    time: u32,
    vandal: bool,
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

const KEYS: [&str; 5] = ["tls.crt", "tls.key", "next.crt", "next.key", "ca.crt"];

/// What the states speak of, and what is known of it already.
struct World {
    service: ServiceName,
    texts: RefCell<Vec<String>>,
    issues: RefCell<BTreeMap<(u32, usize, u64), Rc<Issue>>>,
    steps: RefCell<BTreeMap<(u32, Option<Data>, [Text; 2]), Step>>,
    verified: RefCell<BTreeMap<(u32, Text, Text), bool>>,
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
            Step::Nothing => return Vec::new(),
            Step::Create => panic!("there is one"),
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
            Step::Stage { kept, .. } => held.stage(&self.issue(time, leader, *version), kept),
            Step::Promote => held.promote().expect("there is a next"),
        };
        let version = patch["metadata"]["resourceVersion"].as_str().expect("a version");
        vec![Write::Secret(
            version.parse().expect("a number"),
            self.data(&patch["data"]),
        )]
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
            vandal: false,
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
            Leader::Read(bundles) => match world.decided(self.time, leader, self.secret.as_ref(), bundles) {
                writes if writes.is_empty() => Leader::Idle,
                writes => Leader::Sends(writes),
            },
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
            let held = world.held(*version, data);
            if let Ok(Some(pair)) = held.to_serve(&world.service.host(), World::now(self.time)) {
                next.replica = Some(world.text(pair.certificate()));
            }
        }
        next
    }

    /// All that may come next.
    fn next(&self, world: &World, times: u32) -> Vec<Self> {
        let mut all = vec![self.act(world, 0), self.act(world, 1), self.load(world)];
        for leader in 0..2 {
            let mut crashed = self.clone();
            crashed.leaders[leader] = Leader::Idle;
            all.push(crashed);
        }
        if self.time + 1 < times {
            let mut later = self.clone();
            later.time += 1;
            all.push(later);
        }
        if let Some((version, data)) = &self.secret
            && !self.vandal
        {
            for key in ["tls.crt", "ca.crt", "next.key"] {
                let mut data = data.clone();
                data.insert(key, world.text("garbage"));
                all.push(Self {
                    vandal: true,
                    secret: Some((version + 1, data)),
                    ..self.clone()
                });
            }
        }
        all
    }

    fn check(&self, world: &World) {
        let Some(served) = self.replica else { return };
        // What has ended because nobody did anything for a month is nobody's fault.
        if !world.lives(self.time, served) {
            return;
        }
        for (_, bundle) in &self.bundles {
            assert!(
                world.verifies(self.time, served, *bundle),
                "it serves what is not trusted"
            );
        }
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
                state.check(world);
                return;
            }
            while state.leaders[0] != Leader::Idle {
                state = state.act(world, 0);
            }
        }
        panic!("it does not come to an end");
    }
}

fn explore(times: u32) -> usize {
    let world = World::new();
    let mut seen = BTreeSet::from([State::first()]);
    let mut open = vec![State::first()];
    // What the end depends on.
    let mut ends = BTreeSet::new();
    while let Some(state) = open.pop() {
        state.check(&world);
        if ends.insert((state.time, state.secret.clone(), state.bundles, state.replica)) {
            state.check_end(&world);
        }
        for next in state.next(&world, times) {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
        assert!(seen.len() < MAX_STATES, "more than can be looked at");
    }
    seen.len()
}

#[test]
fn in_any_order_what_is_served_is_trusted() {
    let states = explore(2);
    assert!(states > 1000, "{states}");
}
