//! Texts and certificates of the model by number, with memoized decisions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::super::configuration::{Configuration, RawConfiguration};
use super::super::super::key_pair::{Authority, Issued, KeyPair, VALIDITY_PERIOD, bundle, issue};
use super::super::super::secret::{CertificateSecret, RawSecret, new_secret};
use super::super::super::{ServiceCertificate, ServiceName};
use super::super::{Step, decide, retained};
use super::{Bundles, Data, Inputs, STEP, Text, Write};

const KEYS: [&str; 5] = ["tls.crt", "tls.key", "next.crt", "next.key", "ca.crt"];

/// The inputs of a decision with the versions of the objects.
type Versioned = (Inputs, u64, [u64; 2]);

pub(super) struct Memo {
    service: ServiceName,
    texts: RefCell<Vec<String>>,
    numbers: RefCell<BTreeMap<String, Text>>,
    foreign_bundle: String,
    issues: RefCell<BTreeMap<(u32, usize, u64), Rc<Issued>>>,
    steps: RefCell<BTreeMap<Inputs, Step>>,
    verified: RefCell<BTreeMap<(u32, Text, Text), bool>>,
    served: RefCell<BTreeMap<(u32, Data), Option<Text>>>,
    writes: RefCell<BTreeMap<Versioned, Vec<Write>>>,
    stagings: RefCell<BTreeMap<(Inputs, u64, usize), Write>>,
    /// The private key and the issue time of each certificate.
    keys: RefCell<BTreeMap<Text, (String, u32)>>,
}

impl Memo {
    pub(super) fn new() -> Self {
        Self {
            service: "system/hooks".parse().expect("a service"),
            // The empty text has the number 0.
            texts: RefCell::new(vec![String::new()]),
            numbers: RefCell::new(BTreeMap::from([(String::new(), 0)])),
            foreign_bundle: bundle(&[0; 3].map(|time| {
                let issued = issue("ca", "foreign.system.svc", Self::now(time));
                issued.expect("a certificate").authority
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

    /// Reads the data of a write; none is null.
    fn data(&self, written: &Value) -> Vec<(&'static str, Option<Text>)> {
        let present = KEYS.into_iter().filter(|key| written.get(key).is_some());
        let read = present.map(|key| {
            let bytes: Option<ByteString> = serde_json::from_value(written[key].clone()).expect("base64");
            let text = bytes.map(|it| self.text(&String::from_utf8(it.0).expect("text")));
            (key, text)
        });
        read.collect()
    }

    fn secret(&self, version: u64, data: &Data) -> CertificateSecret {
        let data: BTreeMap<_, _> = data.iter().map(|(key, text)| (*key, self.bytes(*text))).collect();
        let secret = json!({"metadata": {"uid": "u", "resourceVersion": version.to_string()}, "data": data});
        let raw: RawSecret = serde_json::from_value(secret).expect("a Secret");
        raw.into()
    }

    fn configurations(&self, bundles: &Bundles) -> [Configuration; 2] {
        bundles.map(|(version, bundle)| {
            let client = json!({"service": self.service_value(), "caBundle": self.bytes(bundle)});
            let raw = json!({
                "metadata": {"uid": "u", "resourceVersion": version.to_string()},
                "webhooks": [{"name": "a.b.c", "clientConfig": client}],
            });
            let raw: RawConfiguration = serde_json::from_value(raw).expect("a configuration");
            Configuration::new(raw, &self.service)
        })
    }

    fn service_value(&self) -> Value {
        json!({"namespace": self.service.namespace, "name": self.service.name})
    }

    /// Returns the certificate that this leader issues at this time.
    fn issue(&self, time: u32, leader: usize, version: u64) -> Rc<Issued> {
        let mut issues = self.issues.borrow_mut();
        let made = issues.entry((time, leader, version)).or_insert_with(|| {
            let made = issue("ca", &self.service.host(), Self::now(time)).expect("made");
            let certificate = self.text(made.pair.certificate());
            let key = made.pair.key().to_owned();
            self.keys.borrow_mut().insert(certificate, (key, time));
            Rc::new(made)
        });
        made.clone()
    }

    pub(super) fn step(&self, time: u32, secret: Option<&(u64, Data)>, bundles: &Bundles) -> Step {
        let key = inputs(time, secret.map(|(_, data)| data), bundles);
        if let Some(known) = self.steps.borrow().get(&key) {
            return known.clone();
        }
        let configurations = self.configurations(bundles);
        let secret = secret.map(|(version, data)| self.secret(*version, data));
        let step = decide(
            &configurations.each_ref(),
            secret.as_ref(),
            &self.service.host(),
            Self::now(time),
        );
        self.steps.borrow_mut().insert(key, step.clone());
        step
    }

    /// Returns the write of a leader that has found no Secret.
    pub(super) fn create(&self, time: u32, leader: usize, last: u64) -> Write {
        let secret = ServiceCertificate::new(self.service.clone()).secret();
        let body = new_secret(&secret, &BTreeMap::new(), &self.issue(time, leader, last));
        let data = self.data(&body["data"]).into_iter();
        Write::Create(data.map(|(key, text)| (key, text.expect("a text"))).collect())
    }

    /// Returns the writes of a leader that has read these and issues no certificate.
    pub(super) fn writes_of(&self, time: u32, secret: &(u64, Data), bundles: &Bundles) -> Vec<Write> {
        let versions = bundles.map(|(version, _)| version);
        let key = (inputs(time, Some(&secret.1), bundles), secret.0, versions);
        if let Some(known) = self.writes.borrow().get(&key) {
            return known.clone();
        }
        let writes = self.compute_writes(time, secret, bundles);
        self.writes.borrow_mut().insert(key, writes.clone());
        writes
    }

    fn compute_writes(&self, time: u32, secret: &(u64, Data), bundles: &Bundles) -> Vec<Write> {
        let step = self.step(time, Some(secret), bundles);
        let secret = self.secret(secret.0, &secret.1);
        let patch = match step {
            Step::Nothing | Step::Create | Step::Stage { .. } => panic!("no injection or promotion"),
            Step::Inject => {
                let bundle = bundle(&secret.authorities);
                let configurations = self.configurations(bundles);
                let differ = configurations
                    .iter()
                    .enumerate()
                    .filter(|(_, it)| !it.has_bundle(&bundle));
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
            Step::Promote => secret.promote().expect("a staged certificate"),
        };
        vec![self.patch(&patch)]
    }

    /// Returns the write of a leader that stages a certificate after reading the Secret and then the bundles.
    pub(super) fn stage(
        &self,
        time: u32,
        leader: usize,
        version: u64,
        data: &Data,
        bundles: &Bundles,
    ) -> Write {
        let key = (inputs(time, Some(data), bundles), version, leader);
        if let Some(known) = self.stagings.borrow().get(&key) {
            return known.clone();
        }
        let secret = self.secret(version, data);
        let configurations = self.configurations(bundles);
        let retained = retained(
            &secret,
            &configurations.each_ref(),
            &self.service.host(),
            Self::now(time),
        );
        let write = self.patch(&secret.stage(&self.issue(time, leader, version), retained));
        self.stagings.borrow_mut().insert(key, write.clone());
        write
    }

    fn patch(&self, patch: &Value) -> Write {
        let version = patch["metadata"]["resourceVersion"].as_str().expect("a version");
        Write::Secret(version.parse().expect("a number"), self.data(&patch["data"]))
    }

    /// Returns a bundle of CAs that have signed none of the certificates.
    pub(super) fn foreign_bundle(&self) -> Text {
        self.text(&self.foreign_bundle)
    }

    /// Returns the CA bundle of the Secret with foreign CAs appended.
    pub(super) fn with_foreign_authorities(&self, data: &Data) -> Text {
        let trusted = data
            .get("ca.crt")
            .map_or_else(String::new, |it| self.texts.borrow()[*it].clone());
        self.text(&(trusted + &self.foreign_bundle))
    }

    /// Returns the certificate that a replica loads from the Secret.
    pub(super) fn to_serve(&self, time: u32, version: u64, data: &Data) -> Option<Text> {
        let key = (time, data.clone());
        if let Some(known) = self.served.borrow().get(&key) {
            return *known;
        }
        let secret = self.secret(version, data);
        let pair = secret
            .to_serve(&self.service.host(), Self::now(time))
            .ok()
            .flatten();
        let served = pair.map(|it| self.text(it.certificate()));
        self.served.borrow_mut().insert(key, served);
        served
    }

    /// Reports whether a client with this bundle accepts this certificate.
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

    fn pair(&self, certificate: Text) -> KeyPair {
        let key = self.keys.borrow()[&certificate].0.clone();
        KeyPair::read(self.texts.borrow()[certificate].as_bytes(), key.as_bytes()).expect("a pair")
    }

    pub(super) fn is_unexpired(&self, time: u32, certificate: Text) -> bool {
        let (_, made) = self.keys.borrow()[&certificate];
        STEP * (time - made) <= VALIDITY_PERIOD
    }
}

fn inputs(time: u32, data: Option<&Data>, bundles: &Bundles) -> Inputs {
    (time, data.cloned(), bundles.map(|(_, bundle)| bundle))
}
