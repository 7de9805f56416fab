//! The admission webhooks of a scenario: servers whose answers are data, and whose calls are compared.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    Cluster,
    fixtures::with,
    webhook::{Call, Response, Webhook, allow, configurations},
};

/// A webhook server with the name of a step.
pub struct Hook {
    /// The server.
    pub server: Webhook,
    /// `Mutating` or `Validating`.
    kind: String,
    /// The name of the configuration.
    configuration: String,
    /// By path. The empty path stands for all others.
    answers: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Calls that no step has read.
    calls: VecDeque<Call>,
}

impl Hook {
    /// Starts a server that allows all requests.
    pub async fn start(name: &str, kind: &str, ns: &str) -> Self {
        let answers = Arc::<Mutex<BTreeMap<String, Value>>>::default();
        let given = Arc::clone(&answers);
        let server = Webhook::start(move |path, _| {
            let answers = given.lock().unwrap_or_else(PoisonError::into_inner);
            let path = path.split('?').next().unwrap_or_default();
            answers
                .get(path)
                .or_else(|| answers.get(""))
                .map_or_else(allow, response)
        });
        Self {
            server: server.await,
            kind: kind.to_owned(),
            configuration: format!("{name}-{ns}"),
            answers,
            calls: VecDeque::new(),
        }
    }

    /// Creates the configuration. Each line of `hooks` is an entry; missing fields get defaults.
    pub async fn install(&self, cluster: &Cluster, ns: &str, hooks: &str) -> Result<(), String> {
        let entry = |line: &str| {
            let mut entry = parse(line)?;
            let name = entry["name"].as_str().unwrap_or("w.example.com").to_owned();
            let path = name.split('.').next().unwrap_or_default();
            let mut hook = self.server.hook(&name, &format!("/{path}"), &[]);
            let rule = hook["rules"][0].take();
            for given in entry["rules"].as_array_mut().into_iter().flatten() {
                *given = with(rule.clone(), given.take());
            }
            Ok(with(hook, entry))
        };
        let hooks = hooks.lines().map(entry).collect::<Result<_, String>>()?;
        self.server
            .install(cluster, ns, &self.kind, &self.configuration, hooks)
            .await;
        Ok(())
    }

    /// Sets the answer to all later calls, or to those of one path.
    pub fn answer(&self, path: &str, answer: &str) -> Result<(), String> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(path.to_owned(), parse(answer)?);
        Ok(())
    }

    /// Returns the next call: the review with the path and the headers.
    pub fn review(&mut self) -> Result<String, String> {
        self.receive();
        let call = self.calls.pop_front().ok_or("the webhook was not called")?;
        let [agent, media_type] = &call.headers;
        let line = format!("{} {media_type} {agent}", call.path);
        Ok(with(call.review, json!({"call": line})).to_string())
    }

    /// Returns `OPERATION /path resource name` of each remaining call. The server calls validating webhooks at the same time:
    /// theirs are sorted.
    pub fn calls(&mut self) -> String {
        self.receive();
        let line = |call: Call| {
            let request = call.request();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let path = call.path.split('?').next().unwrap_or_default();
            let resource = [&request["resource"]["resource"], &request["subResource"]].map(text);
            let resource = resource.join("/");
            format!(
                "{} {path} {} {}",
                text(&request["operation"]),
                resource.trim_end_matches('/'),
                text(&request["name"])
            )
        };
        let mut lines: Vec<String> = self.calls.drain(..).map(line).collect();
        if self.kind == "Validating" {
            lines.sort();
            lines.dedup();
        }
        json!(lines).to_string()
    }

    /// Deletes the configuration.
    pub async fn remove(&self, cluster: &Cluster) {
        let path = format!("{}/{}", configurations(&self.kind), self.configuration);
        cluster.api().delete(&path, ()).await;
    }

    /// The controllers of the cluster write objects of their own into the namespace.
    fn receive(&mut self) {
        let of_controller = |call: &Call| {
            let request = call.request();
            let user = request["userInfo"]["username"].as_str().unwrap_or_default();
            let object = (request["resource"]["resource"].as_str(), request["name"].as_str());
            user.starts_with("system:")
                || object == (Some("serviceaccounts"), Some("default"))
                || object == (Some("configmaps"), Some("kube-root-ca.crt"))
        };
        let calls = self.server.take_calls().into_iter();
        self.calls.extend(calls.filter(|call| !of_controller(call)));
    }
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{text:?} is not JSON: {error}"))
}

/// `"close"`, `"hang"`, `{"http": 500, "body": "text"}`, or the response of a review, whose patch may be a list.
fn response(answer: &Value) -> Response {
    let mut response = answer.clone();
    if answer == "close" {
        return Response::Close;
    } else if answer == "hang" {
        return Response::Never;
    } else if let Some(status) = answer["http"].as_u64().and_then(|status| status.try_into().ok()) {
        return Response::Raw(status, answer["body"].as_str().unwrap_or_default().to_owned());
    }
    if answer["patch"].is_array() {
        response["patch"] = BASE64_STANDARD.encode(answer["patch"].to_string()).into();
        response["patchType"] = "JSONPatch".into();
    }
    Response::Review(response)
}
