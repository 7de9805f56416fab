//! One of the two servers in a sequence: its objects so far, and its answers in a normal form.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use steersman_harness::Cluster;

use crate::kinds::Kind;
use crate::step::{OLD_VERSION, OTHER_UID, Step, UID, VERSION, Verb};

/// The code if a real server closed the connection.
pub const NO_ANSWER: u16 = 0;

/// Values of no object.
const NO_UID: &str = "11111111-1111-1111-1111-111111111111";
const NO_VERSION: &str = "1";
/// The object whose event is the last one.
const END: &str = "zz-end";

/// A normalized answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
    /// The request, for the report.
    pub sent: String,
}

/// A server and its objects in one sequence.
pub struct Side<'a> {
    cluster: &'a Cluster,
    kind: &'a Kind,
    ns: &'a str,
    start: String,
    /// By name.
    objects: BTreeMap<String, Identity>,
    /// Values that differ between servers, in the order of first appearance.
    uids: Vec<String>,
    versions: Vec<String>,
    /// With the uid of the owner, because a released address can be allocated again.
    addresses: Vec<(String, String)>,
    /// The uid of the object that is normalized.
    owner: String,
    /// Whether the answer is that of a dry run, which does not keep its addresses.
    dry: bool,
}

#[derive(Debug, Clone, Default)]
struct Identity {
    uid: String,
    first_version: String,
    version: String,
}

impl<'a> Side<'a> {
    /// Creates the namespace of the sequence.
    pub async fn new(cluster: &'a Cluster, kind: &'a Kind, ns: &'a str) -> Self {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
        cluster.api().post("/api/v1/namespaces", body).await.expect(201);
        let list = cluster.api().get(&kind.path(ns)).await.expect(200);
        Self {
            cluster,
            kind,
            ns,
            start: text(&list["metadata"]["resourceVersion"]).to_owned(),
            objects: BTreeMap::new(),
            uids: Vec::new(),
            versions: Vec::new(),
            addresses: Vec::new(),
            owner: String::new(),
            dry: false,
        }
    }

    /// Sends a step.
    pub async fn send(&mut self, step: &Step) -> Answer {
        let api = self.cluster.api();
        let path = step.path(self.kind, self.ns);
        let current = if step.verb == Verb::Update {
            let bare = path.split('?').next().unwrap_or_default();
            let reply = api.get(bare).await;
            (reply.status == 200).then(|| reply.json())
        } else {
            None
        };
        let body = step.body(self.kind, current.as_ref()).map(|mut body| {
            self.substitute(step.name, &mut body);
            body
        });
        let (method, content_type) = step.method();
        let headers = [("content-type", content_type), ("user-agent", "differential/1")];
        let sent = format!("{method} {path} {}", body.as_ref().unwrap_or(&Value::Null));
        let reply = match body {
            Some(body) => api.try_request(method, &path, &headers, body).await,
            None => api.try_request(method, &path, &headers[1..], ()).await,
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if self.cluster.is_sandbox() => panic!("{error}"),
            Err(error) => {
                return Answer {
                    code: NO_ANSWER,
                    warnings: Vec::new(),
                    body: json!(error),
                    sent,
                };
            }
        };
        let body = serde_json::from_slice(&reply.body).unwrap_or_else(|_| json!(reply.text()));
        self.dry = step.query.iter().any(|(key, _)| *key == "dryRun");
        let body = self.normal(body);
        self.dry = false;
        let warnings = reply.headers.get_all("warning").iter();
        let warnings = warnings.filter_map(|warning| warning.to_str().ok());
        Answer {
            code: reply.status,
            warnings: warnings.map(|warning| self.in_text(warning.to_owned())).collect(),
            body,
            sent,
        }
    }

    /// Lists all objects.
    pub async fn list(&mut self) -> Answer {
        let reply = self.cluster.api().get(&self.kind.path(self.ns)).await;
        Answer {
            code: reply.status,
            warnings: Vec::new(),
            body: self.normal(reply.json()),
            sent: reply.request.clone(),
        }
    }

    /// Returns all events since the start of the sequence.
    pub async fn events(&mut self) -> Answer {
        let path = self.kind.path(self.ns);
        let end = self.cluster.api().post(&path, self.kind.base(END)).await;
        end.expect(201);
        let path = format!("{path}?watch=1&resourceVersion={}", self.start);
        let mut watch = self.cluster.api().watch(&path).await;
        let mut events = Vec::new();
        loop {
            let event = watch.event().await;
            if event["object"]["metadata"]["name"] == END {
                break;
            }
            events.push(self.normal(event));
        }
        Answer {
            code: 200,
            warnings: Vec::new(),
            body: Value::Array(events),
            sent: format!("GET {path}"),
        }
    }

    /// Releases the addresses of Services.
    pub async fn clean(&self) {
        if !self.kind.is_scarce() {
            return;
        }
        let api = self.cluster.api();
        let list = api.get(&self.kind.path(self.ns)).await.expect(200);
        for item in list["items"].as_array().into_iter().flatten() {
            let path = format!("{}/{}", self.kind.path(self.ns), text(&item["metadata"]["name"]));
            api.patch(
                &path,
                "application/merge-patch+json",
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
            api.delete(&path, ()).await;
        }
    }

    /// Replaces placeholders by the values of this server.
    fn substitute(&self, name: &str, body: &mut Value) {
        match body {
            Value::String(word) if word.starts_with('$') => {
                let other = if name == "a" { "b" } else { "a" };
                let of = |name: &str| self.objects.get(name).cloned().unwrap_or_default();
                let (found, none) = match word.as_str() {
                    UID => (of(name).uid, NO_UID),
                    OTHER_UID => (of(other).uid, NO_UID),
                    VERSION => (of(name).version, NO_VERSION),
                    OLD_VERSION => (of(name).first_version, NO_VERSION),
                    _ => return,
                };
                *word = if found.is_empty() { none.to_owned() } else { found };
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.substitute(name, item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.substitute(name, value)),
            _ => {}
        }
    }

    fn normal(&mut self, mut body: Value) -> Value {
        self.record(&body);
        if body["items"].is_array() {
            body["metadata"]["resourceVersion"] = Value::Null;
        }
        for known in self.objects.values() {
            if !self.uids.contains(&known.uid) {
                self.uids.push(known.uid.clone());
            }
        }
        self.rewrite("", &mut body);
        body
    }

    /// Records the objects of an answer.
    fn record(&mut self, body: &Value) {
        let object = if body["object"].is_object() {
            &body["object"]
        } else {
            body
        };
        for item in body["items"].as_array().into_iter().flatten().chain([object]) {
            let meta = &item["metadata"];
            let (name, uid, version) = (
                text(&meta["name"]),
                text(&meta["uid"]),
                text(&meta["resourceVersion"]),
            );
            if name.is_empty() || uid.is_empty() || body["type"].is_string() {
                continue;
            }
            let known = self.objects.entry(name.to_owned()).or_default();
            if known.uid != uid {
                *known = Identity {
                    uid: uid.to_owned(),
                    first_version: version.to_owned(),
                    version: version.to_owned(),
                };
            } else if !version.is_empty() {
                version.clone_into(&mut known.version);
            }
        }
    }

    fn rewrite(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::String(word) => {
                let word_now = word.clone();
                *word = match field {
                    "uid" => number(&mut self.uids, "uid", word_now),
                    "resourceVersion" => number(&mut self.versions, "version", word_now),
                    "clusterIP" | "clusterIPs" if word_now.starts_with("10.0.") => {
                        self.address("address", word_now)
                    }
                    "message" | "reason" => self.in_text(word_now),
                    _ if is_now(&word_now) => "<time>".to_owned(),
                    // Patches copy values to other fields.
                    _ if self.uids.contains(&word_now) => number(&mut self.uids, "uid", word_now),
                    _ if self.is_mine(&word_now) => self.address("address", word_now),
                    _ => return,
                };
            }
            Value::Number(port) if matches!(field, "nodePort" | "healthCheckNodePort") => {
                let port = port.as_u64().unwrap_or_default();
                if port >= 30000 {
                    *value = self.address("port", port.to_string()).into();
                }
            }
            Value::Array(list) => {
                for item in list.iter_mut() {
                    self.rewrite(field, item);
                }
                if field == "managedFields" {
                    list.sort_by_key(|entry| {
                        let part = |name: &str| text(&entry[name]).to_owned();
                        [
                            part("operation"),
                            part("manager"),
                            part("subresource"),
                            part("apiVersion"),
                        ]
                    });
                }
            }
            Value::Object(map) => {
                let uid = map.get("metadata").map_or("", |meta| text(&meta["uid"]));
                let before = match uid {
                    "" => self.owner.clone(),
                    uid => std::mem::replace(&mut self.owner, uid.to_owned()),
                };
                replace_generated_name(map);
                for (name, value) in map.iter_mut() {
                    self.rewrite(name, value);
                }
                self.owner = before;
                // Keys of managed lists contain uids.
                let uids = &self.uids;
                let named = |name: &String| uids.iter().any(|uid| name.contains(uid.as_str()));
                if map.keys().any(named) {
                    let known = std::mem::take(map).into_iter();
                    *map = known.map(|(name, value)| (self.in_text(name), value)).collect();
                }
            }
            _ => {}
        }
    }

    /// Whether the current object owns this address.
    fn is_mine(&self, address: &str) -> bool {
        let mut mine = self.addresses.iter().filter(|(owner, _)| *owner == self.owner);
        mine.any(|(_, known)| known == address)
    }

    /// The number of an address in the order of allocation.
    fn address(&mut self, what: &str, address: String) -> String {
        if self.dry && !self.is_mine(&address) {
            return what.to_owned();
        }
        let given = (self.owner.clone(), address);
        let at = self.addresses.iter().position(|one| *one == given);
        let at = at.unwrap_or_else(|| {
            self.addresses.push(given);
            self.addresses.len() - 1
        });
        format!("{what} {at}")
    }

    /// Replaces uids, versions and addresses in a text.
    fn in_text(&self, mut word: String) -> String {
        for (n, uid) in self.uids.iter().enumerate() {
            word = word.replace(uid.as_str(), &format!("<uid {n}>"));
        }
        for before in [
            "ResourceVersion in precondition: ",
            "ResourceVersion in object meta: ",
            "the ResourceVersion in the precondition (",
            "the ResourceVersion in record (",
        ] {
            if let Some(at) = word.find(before) {
                let (start, rest) = word.split_at(at + before.len());
                let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                word = format!("{start}<version>{rest}");
            }
        }
        for (_, address) in &self.addresses {
            word = word.replace(address.as_str(), "<address>");
        }
        word
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The number of a value in the order of appearance.
fn number(seen: &mut Vec<String>, what: &str, value: String) -> String {
    if value.is_empty() {
        return value;
    }
    let at = seen.iter().position(|one| *one == value).unwrap_or_else(|| {
        seen.push(value);
        seen.len() - 1
    });
    format!("{what} {at}")
}

/// Replaces the random suffix of a generated name.
fn replace_generated_name(meta: &mut Map<String, Value>) {
    const ADDED: usize = 5;
    let start = meta.get("generateName").map_or("", text).to_owned();
    let name = meta.get("name").map_or("", text);
    if !start.is_empty() && name.starts_with(&start) && name.len() == start.len() + ADDED {
        meta.insert("name".to_owned(), json!(format!("{start}<generated>")));
    }
}

/// Whether a text is a time of the server. Times in requests are in the past.
fn is_now(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.starts_with("202") && bytes.len() >= 20 && bytes[10] == b'T' && text.ends_with('Z')
}
