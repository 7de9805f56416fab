//! Sequences of facts: for each invariant one that violates it, and one nearby that does not.

mod figures;
mod lease;
mod load;
mod orphans;
mod owners;
mod replacements;
mod replicas;
mod rest;
mod rollout;
mod status;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::record::{Commit, Fact, Request, Sender, Violation};
use super::{Checker, Rules};

/// A controller in a process.
type Agent = (usize, &'static str);

const GC: Agent = (0, "generic-garbage-collector");
const RS: Agent = (0, "replicaset-controller");
const DEPLOYMENT: Agent = (0, "deployment-controller");

const MAPS: &str = "configmaps";
const PODS: &str = "pods";
const SETS: &str = "replicasets.apps";
const DEPLOYMENTS: &str = "deployments.apps";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A run that a test writes.
struct Story {
    checker: Checker,
    at: Duration,
    revision: u64,
    number: usize,
    store: BTreeMap<(String, String), Bytes>,
    found: Vec<Violation>,
}

/// The rules of a scenario without leader election.
fn rules() -> Rules {
    Rules {
        lease: None,
        ..Rules::default()
    }
}

impl Story {
    /// A run of one process without leader election.
    fn new() -> Self {
        Self::with(rules())
    }

    fn with(rules: Rules) -> Self {
        let mut story = Self {
            checker: Checker::new(rules),
            at: Duration::ZERO,
            revision: 1,
            number: 0,
            store: BTreeMap::new(),
            found: Vec::new(),
        };
        story.start(0);
        story
    }

    fn observe(&mut self, fact: &Fact) {
        self.found.extend(self.checker.observe(fact).err());
    }

    fn start(&mut self, process: usize) {
        let at = self.at;
        self.observe(&Fact::Started { process, at });
    }

    fn end(&mut self, process: usize, clean: bool) {
        let at = self.at;
        let error = None;
        self.observe(&Fact::Ended {
            process,
            at,
            clean,
            error,
        });
    }

    fn fault(&mut self, class: &'static str) {
        let at = self.at;
        self.observe(&Fact::Fault { at, class });
    }

    fn wait(&mut self, seconds: f64) {
        self.at += Duration::from_secs_f64(seconds);
    }

    fn send_as(
        &mut self,
        sender: Sender,
        agent: &str,
        verb: &'static str,
        path: (&str, &str),
        body: &Value,
    ) -> usize {
        let number = self.number;
        self.number += 1;
        let (collection, key) = path;
        let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
        let name = if verb == "create" { "" } else { name };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        self.observe(&Fact::Sent(Request {
            number,
            sender,
            at: self.at,
            agent: agent.to_owned(),
            verb,
            collection: collection.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            uri: format!("/{collection}/{key}"),
            body: body.into(),
        }));
        number
    }

    /// A controller sends a request with preconditions.
    fn send(&mut self, (process, agent): Agent, verb: &'static str, path: (&str, &str)) -> usize {
        let body = json!({"preconditions": {"uid": "a", "resourceVersion": "1"}});
        self.send_as(Sender::Process(process), agent, verb, path, &body)
    }

    /// The API executes a request: the object has this state afterwards.
    fn execute(&mut self, number: usize, path: (&str, &str), after: Option<&Value>) {
        let at = self.at;
        self.observe(&Fact::Executed {
            request: number,
            at,
            code: 200,
        });
        self.commit(Some(number), path, after);
    }

    /// The storage is restored from a backup, in which the object has this state.
    fn restore(&mut self, path: (&str, &str), after: &Value) {
        self.commit(None, path, Some(after));
    }

    fn commit(&mut self, request: Option<usize>, (collection, key): (&str, &str), after: Option<&Value>) {
        let at = self.at;
        self.revision += 1;
        let key_of = (collection.to_owned(), key.to_owned());
        let after: Option<Bytes> = after.map(|it| it.to_string().into());
        let before = self.store.get(&key_of).cloned();
        match &after {
            Some(after) => self.store.insert(key_of, after.clone()),
            None => self.store.remove(&key_of),
        };
        self.observe(&Fact::Commit(Commit {
            revision: self.revision,
            at,
            collection: collection.to_owned(),
            key: key.to_owned(),
            before,
            after,
            request,
            is_restored: request.is_none(),
        }));
    }

    fn answer(&mut self, number: usize, code: Option<u16>) {
        let at = self.at;
        self.observe(&Fact::Answered {
            request: number,
            at,
            code,
        });
    }

    /// A controller writes an object, without delays.
    fn write(&mut self, agent: Agent, verb: &'static str, path: (&str, &str), after: Option<&Value>) {
        let number = self.send(agent, verb, path);
        self.execute(number, path, after);
        self.answer(number, Some(200));
    }

    fn delete(&mut self, agent: Agent, path: (&str, &str)) {
        self.write(agent, "delete", path, None);
    }

    /// A controller reads an object.
    fn get(&mut self, agent: Agent, path: (&str, &str)) {
        let number = self.send(agent, "get", path);
        let at = self.at;
        self.observe(&Fact::Executed {
            request: number,
            at,
            code: 200,
        });
        self.answer(number, Some(200));
    }

    /// The user writes an object.
    fn user(&mut self, path: (&str, &str), after: &Value) {
        let number = self.send_as(Sender::User, "", "update", path, &Value::Null);
        self.execute(number, path, Some(after));
    }

    fn user_removes(&mut self, path: (&str, &str)) {
        let number = self.send_as(Sender::User, "", "delete", path, &Value::Null);
        self.execute(number, path, None);
    }

    /// A process receives the newest state of a resource.
    fn deliver(&mut self, process: usize, collection: &str) {
        let revision = self.revision;
        self.deliver_at(process, collection, revision);
    }

    fn deliver_at(&mut self, process: usize, collection: &str, revision: u64) {
        let watch = self.send((process, "shared-informers"), "watch", (collection, ""));
        self.deliver_by(watch, process, collection, revision);
    }

    /// A process receives a state of a resource by a list or a watch.
    fn deliver_by(&mut self, request: usize, process: usize, collection: &str, revision: u64) {
        self.observe(&Fact::Delivered {
            process,
            collection: collection.to_owned(),
            revision,
            request,
        });
    }

    /// Returns the violated invariants.
    fn found(&self) -> Vec<&'static str> {
        for violation in &self.found {
            println!("{}: {}", violation.invariant, violation.message);
        }
        self.found.iter().map(|it| it.invariant).collect()
    }

    /// Comes to rest, and returns the violated invariants.
    fn rest(&mut self) -> Vec<&'static str> {
        let at = self.at;
        self.observe(&Fact::Quiet { at });
        self.wait(60.0);
        let found = self.checker.at_rest(self.at);
        self.found.extend(found);
        self.found()
    }
}

/// Returns an object whose uid is `uid-` and its name.
fn object(name: &str, references: &[Value]) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1, "ownerReferences": references}})
}

fn reference(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}")})
}

/// Returns a reference to a `ConfigMap`.
fn to_map(name: &str) -> Value {
    reference("v1", "ConfigMap", name)
}

fn blocking(mut reference: Value) -> Value {
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

fn controller(mut reference: Value) -> Value {
    reference["controller"] = json!(true);
    blocking(reference)
}

/// Returns the object in deletion, with these finalizers.
fn terminating(mut object: Value, finalizers: &[&str]) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

fn replica_set(name: &str, replicas: i64) -> Value {
    let mut set = object(name, &[]);
    let labels = json!({"app": name});
    set["spec"] = json!({"replicas": replicas, "selector": {"matchLabels": labels},
                         "template": {"metadata": {"labels": labels}, "spec": {"image": "one"}}});
    set["status"] = json!({"replicas": 0});
    set
}

/// Returns a pod of a `ReplicaSet`.
fn pod(name: &str, set: &str) -> Value {
    let mut pod = object(name, &[controller(reference("apps/v1", "ReplicaSet", set))]);
    pod["metadata"]["labels"] = json!({"app": set});
    pod["status"] = json!({"phase": "Pending"});
    pod
}

fn with_status(mut object: Value, status: &Value) -> Value {
    object["status"] = status.clone();
    object
}

#[test]
fn built_in_kinds_are_those_of_the_sandbox() {
    let resources = include_str!("../../../../cmd/sandbox/src/generated/resources.txt");
    let mut served = Vec::new();
    for line in resources.lines().filter(|it| !it.starts_with([' ', '#'])) {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields[7].split(',').any(|it| it == "delete") {
            let group = fields[0]
                .split_once('/')
                .map_or(String::new(), |it| format!(".{}", it.0));
            served.push((
                fields[0],
                fields[1],
                format!("{}{group}", fields[2]),
                fields[4] == "namespaced",
            ));
        }
    }
    let ours = super::BUILT_IN
        .iter()
        .map(|it| (it.api_version, it.kind, it.collection.to_owned(), it.namespaced));
    assert_eq!(ours.collect::<Vec<_>>(), served);
}

#[test]
fn unreadable_object_is_reported() {
    let mut story = Story::new();
    story.user((MAPS, "default/a"), &json!({"metadata": {"uid": 7}}));
    assert_eq!(story.found(), ["record"]);
}
