//! Texts, certificates and verdicts: what the states of the model speak of by number, and what is known of it already.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::super::ServiceName;
use super::super::super::held::{Held, Stored, created};
use super::super::super::inject::{self, Configuration};
use super::super::super::pair::{Authority, Issue, LIFE, Pair, bundle, issue};
use super::super::{Step, decide, kept};
use super::{Bundles, Data, Look, STEP, Text, Write};

const KEYS: [&str; 5] = ["tls.crt", "tls.key", "next.crt", "next.key", "ca.crt"];

/// What is decided on, with the versions that it had.
type Versioned = (Look, u64, [u64; 2]);

pub(super) struct World {
    service: ServiceName,
    texts: RefCell<Vec<String>>,
    numbers: RefCell<BTreeMap<String, Text>>,
    strangers: String,
    issues: RefCell<BTreeMap<(u32, usize, u64), Rc<Issue>>>,
    steps: RefCell<BTreeMap<Look, Step>>,
    verified: RefCell<BTreeMap<(u32, Text, Text), bool>>,
    served: RefCell<BTreeMap<(u32, Data), Option<Text>>>,
    writes: RefCell<BTreeMap<Versioned, Vec<Write>>>,
    stagings: RefCell<BTreeMap<(Look, u64, usize), Write>>,
    /// The key of each certificate, and when it was made.
    keys: RefCell<BTreeMap<Text, (String, u32)>>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            service: "system/hooks".parse().expect("a service"),
            // The empty text is number 0.
            texts: RefCell::new(vec![String::new()]),
            numbers: RefCell::new(BTreeMap::from([(String::new(), 0)])),
            strangers: bundle(&[0; 3].map(|time| {
                let made = issue("strangers.system.svc", Self::now(time));
                made.expect("made").authority
            })),
            issues: RefCell::default(),
            steps: RefCell::default(),
            verified: RefCell::default(),
            served: RefCell::default(),
            writes: RefCell::default(),
            stagings: RefCell::default(),
            keys: RefCell::default(),
        }
    }

    fn now(time: u32) -> Timestamp {
        let start: Timestamp = "2026-02-03T04:05:06Z".parse().expect("a time");
        start + STEP * time
    }

    pub(super) fn text(&self, text: &str) -> Text {
        if let Some(known) = self.numbers.borrow().get(text) {
            return *known;
        }
        let mut texts = self.texts.borrow_mut();
        texts.push(text.to_owned());
        self.numbers.borrow_mut().insert(text.to_owned(), texts.len() - 1);
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
            self.keys.borrow_mut().insert(certificate, (key, time));
            Rc::new(made)
        });
        made.clone()
    }

    pub(super) fn step(&self, time: u32, secret: Option<&(u64, Data)>, bundles: &Bundles) -> Step {
        let key = look(time, secret.map(|(_, data)| data), bundles);
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

    /// The write of a leader that has found no Secret, after the last of this version.
    pub(super) fn created(&self, time: u32, leader: usize, last: u64) -> Write {
        let body = created(&self.service.secret(), &self.issue(time, leader, last));
        let data = self.data(&body["data"]).into_iter();
        Write::Create(data.map(|(key, text)| (key, text.expect("a text"))).collect())
    }

    /// The writes of a leader that has read these, and makes nothing new.
    pub(super) fn decided(&self, time: u32, secret: &(u64, Data), bundles: &Bundles) -> Vec<Write> {
        let versions = bundles.map(|(version, _)| version);
        let key = (look(time, Some(&secret.1), bundles), secret.0, versions);
        if let Some(known) = self.writes.borrow().get(&key) {
            return known.clone();
        }
        let writes = self.decide_anew(time, secret, bundles);
        self.writes.borrow_mut().insert(key, writes.clone());
        writes
    }

    fn decide_anew(&self, time: u32, secret: &(u64, Data), bundles: &Bundles) -> Vec<Write> {
        let step = self.step(time, Some(secret), bundles);
        let held = self.held(secret.0, &secret.1);
        let patch = match step {
            Step::Nothing | Step::Create | Step::Stage { .. } => panic!("that is not sent so"),
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
            Step::Promote => held.promote().expect("there is a next"),
        };
        vec![self.patch(&patch)]
    }

    /// The write of a leader that has read this Secret, and then these.
    pub(super) fn staged(
        &self,
        time: u32,
        leader: usize,
        version: u64,
        data: &Data,
        bundles: &Bundles,
    ) -> Write {
        let key = (look(time, Some(data), bundles), version, leader);
        if let Some(known) = self.stagings.borrow().get(&key) {
            return known.clone();
        }
        let held = self.held(version, data);
        let configurations = self.configurations(bundles);
        let kept = kept(
            &held,
            &configurations.each_ref(),
            &self.service.host(),
            Self::now(time),
        );
        let write = self.patch(&held.stage(&self.issue(time, leader, version), kept));
        self.stagings.borrow_mut().insert(key, write.clone());
        write
    }

    fn patch(&self, patch: &Value) -> Write {
        let version = patch["metadata"]["resourceVersion"].as_str().expect("a version");
        Write::Secret(version.parse().expect("a number"), self.data(&patch["data"]))
    }

    /// A bundle of authorities that have signed nothing of ours.
    pub(super) fn strangers(&self) -> Text {
        self.text(&self.strangers)
    }

    /// What the Secret says is trusted, and behind it strangers.
    pub(super) fn crowded(&self, data: &Data) -> Text {
        let trusted = data
            .get("ca.crt")
            .map_or_else(String::new, |it| self.texts.borrow()[*it].clone());
        self.text(&(trusted + &self.strangers))
    }

    /// What a replica makes of the Secret.
    pub(super) fn to_serve(&self, time: u32, version: u64, data: &Data) -> Option<Text> {
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
    pub(super) fn verifies(&self, time: u32, certificate: Text, bundle: Text) -> bool {
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
        let key = self.keys.borrow()[&certificate].0.clone();
        Pair::read(self.texts.borrow()[certificate].as_bytes(), key.as_bytes()).expect("a pair")
    }

    /// Whether it has not ended.
    pub(super) fn lives(&self, time: u32, certificate: Text) -> bool {
        let (_, made) = self.keys.borrow()[&certificate];
        STEP * (time - made) <= LIFE
    }
}

fn look(time: u32, data: Option<&Data>, bundles: &Bundles) -> Look {
    (time, data.cloned(), bundles.map(|(_, bundle)| bundle))
}
