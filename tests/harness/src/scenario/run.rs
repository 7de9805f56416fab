//! Sends the requests of a scenario to a cluster, and compares or records the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use super::{
    Action, Answer, HEADERS, Request, Scenario, Step,
    compare::{self, Mode},
    normalize, template,
    template::Bindings,
    webhooks::Hook,
};
use crate::{Api, Cluster, Reply, Watch, kubectl::Kubectl, time};

/// The release whose answers are recorded.
pub const RECORDED: (u32, u32) = (1, 36);

/// The controllers of a real server need seconds, on a busy machine more.
const UNTIL: Duration = Duration::from_mins(1);

/// An answer as the server gave it.
struct Actual {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Actual {
    /// An event, a review or another answer without HTTP status and headers.
    fn text(body: String) -> Self {
        Self {
            status: 0,
            headers: Vec::new(),
            body,
        }
    }
}

/// Runs a scenario.
pub async fn check(cluster: Cluster, file: &str, scenario: &Scenario) {
    let mut run = Run::new(&cluster, scenario).await;
    for step in &scenario.steps {
        let place = format!("{file}.http, line {}: {}", step.line, title(&step.action));
        let skipped = step.differs.is_some() && cluster.is_sandbox();
        let differences = run
            .check(step, skipped)
            .await
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(
            differences.is_empty(),
            "{place}\n{}\n--- recorded\n{}\n--- got\n{}",
            differences.join("\n"),
            pretty(&step.answer),
            run.last
                .as_ref()
                .map(|actual| pretty(&answer(actual)))
                .unwrap_or_default(),
        );
    }
    run.end().await;
}

/// Runs a scenario and replaces the recorded answers that do not match.
pub async fn record(cluster: Cluster, file: &str, scenario: &mut Scenario) {
    let mut run = Run::new(&cluster, scenario).await;
    for step in &scenario.steps {
        run.bindings
            .reserve(step.answer.body.as_deref().unwrap_or_default());
    }
    let managed_fields = scenario.managed_fields;
    for step in &mut scenario.steps {
        let place = format!("{file}.http, line {}: {}", step.line, title(&step.action));
        let before = run.bindings.clone();
        let differences = run
            .check(step, false)
            .await
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let has_answer = !matches!(step.action, Action::Webhook(..) | Action::Answer(..));
        if differences.is_empty() && (step.answer.body.is_some() || !has_answer) {
            continue;
        }
        let Some(actual) = run.last.take() else { continue };
        run.bindings = before;
        let body = normalize::body(
            &mut run.bindings,
            &run.sent,
            &actual.body,
            managed_fields,
            &step.ignore,
        );
        step.answer = Answer {
            status: actual.status,
            headers: actual
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), normalize::names(&run.bindings, value)))
                .collect(),
            body: Some(body).filter(|body| !body.is_empty()),
        };
    }
    run.end().await;
}

struct Run<'a> {
    cluster: &'a Cluster,
    managed_fields: bool,
    bindings: Bindings,
    /// The text of all requests, with variables.
    sent: String,
    watches: BTreeMap<String, Watch>,
    webhooks: BTreeMap<String, Hook>,
    last: Option<Actual>,
}

impl<'a> Run<'a> {
    /// Creates the namespaces that the scenario names.
    async fn new(cluster: &'a Cluster, scenario: &Scenario) -> Self {
        let requests = scenario.steps.iter().filter_map(|step| match &step.action {
            Action::Request(request)
            | Action::Watch(_, request)
            | Action::Webhook(_, request)
            | Action::Run(request) => Some(request),
            _ => None,
        });
        let texts = requests.flat_map(|request| {
            let headers = request.headers.iter().map(|(_, value)| value);
            headers.chain([&request.path, &request.body])
        });
        let variables = texts.flat_map(|text| template::variables(text));
        // In their order: lists of several namespaces are sorted by name.
        let mut namespaces: BTreeSet<&str> = variables.filter(|name| template::class(name) == "ns").collect();
        let mut bindings = Bindings::default();
        let needs_namespace = |step: &Step| matches!(step.action, Action::Webhook(..) | Action::Run(_));
        if scenario.steps.iter().any(needs_namespace) {
            namespaces.insert("ns");
        }
        for variable in namespaces {
            bindings.bind(variable, &cluster.namespace().await);
        }
        Self {
            cluster,
            managed_fields: scenario.managed_fields,
            bindings,
            sent: String::new(),
            watches: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            last: None,
        }
    }

    /// Runs a step and returns the differences from the recorded answer.
    async fn check(&mut self, step: &Step, skip_comparison: bool) -> Result<Vec<String>, String> {
        let limit = if step.until { UNTIL } else { Duration::ZERO };
        let start = time::now();
        loop {
            let mut actual = self.act(step).await?;
            if !step.only.is_empty() {
                actual.body = self.select(&step.only, &actual.body)?;
            }
            self.last = Some(actual);
            let mut bindings = self.bindings.clone();
            let differences = match &self.last {
                Some(actual) if !skip_comparison => self.differences(&mut bindings, step, actual),
                _ => Vec::new(),
            };
            if differences.is_empty() || start.elapsed() >= limit {
                self.bindings = bindings;
                return Ok(differences);
            }
            time::pause(time::POLL).await;
        }
    }

    async fn act(&mut self, step: &Step) -> Result<Actual, String> {
        match &step.action {
            Action::Request(request) => {
                let (api, path, headers, body) = self.prepare(request)?;
                let method =
                    Method::from_bytes(request.method.as_bytes()).map_err(|error| error.to_string())?;
                loop {
                    let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                    let reply = api.request(method.clone(), &path, &headers, body.clone()).await;
                    // A real server answers so until the storage of a new CRD is ready.
                    if reply.status == 429 && step.answer.status != 429 {
                        time::pause(time::POLL).await;
                        continue;
                    }
                    return Ok(actual(&reply));
                }
            }
            Action::Watch(name, request) => {
                let (api, path, headers, _) = self.prepare(request)?;
                let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                let watch = api.watch_with(&path, &headers).await;
                let headers = compared_headers(watch.headers());
                self.watches.insert(name.clone(), watch);
                Ok(Actual {
                    status: 200,
                    headers,
                    body: String::new(),
                })
            }
            Action::Event(name) => {
                let bookmark = step
                    .answer
                    .body
                    .as_ref()
                    .is_some_and(|body| body.contains("BOOKMARK"));
                let watch = self.watch(name)?;
                loop {
                    let event = watch.event().await;
                    // A server may send bookmarks at any time.
                    if bookmark || event["type"] != "BOOKMARK" {
                        return Ok(Actual::text(event.to_string()));
                    }
                }
            }
            Action::End(name) => {
                let watch = self.watch(name)?;
                let event = watch.next(time::ANSWER).await;
                let ended = event.is_none() && watch.has_ended();
                let body = event.map_or_else(|| "no event and no end".to_owned(), |event| event.to_string());
                Ok(Actual::text(if ended { String::new() } else { body }))
            }
            Action::Webhook(name, request) => {
                let ns = self.bindings.substitute("{{ns}}")?;
                let hook = Hook::start(name, &request.method, &ns).await;
                self.bindings.bind(&format!("{name}.url"), &hook.server.url());
                self.bindings
                    .bind(&format!("{name}.ca"), &hook.server.ca_bundle());
                let hooks = self.bindings.substitute(&request.body)?;
                hook.install(self.cluster, &ns, &hooks).await?;
                self.webhooks.insert(name.clone(), hook);
                Ok(Actual::text(String::new()))
            }
            Action::Answer(name, request) => {
                let answer = self.bindings.substitute(&request.body)?;
                self.webhook(name)?.answer(&request.path, &answer)?;
                Ok(Actual::text(String::new()))
            }
            Action::Review(name) => Ok(Actual::text(self.webhook(name)?.review()?)),
            Action::Calls(name) => Ok(Actual::text(self.webhook(name)?.calls())),
            Action::Run(request) => {
                let ns = self.bindings.substitute("{{ns}}")?;
                let (_, arguments, _, input) = self.prepare(request)?;
                let arguments: Vec<&str> = arguments.split(' ').collect();
                let kubectl = Kubectl::new(self.cluster, &ns).with_cache_of_its_own();
                let printed = kubectl.run_with(&arguments, &String::from_utf8_lossy(&input));
                let failed = if printed.success { "" } else { "failed\n" };
                Ok(Actual::text(format!("{failed}{}{}", printed.out, printed.err)))
            }
        }
    }

    /// Returns the parts of a document by their pointers.
    fn select(&self, pointers: &[String], body: &str) -> Result<String, String> {
        let document: Value = serde_json::from_str(body).unwrap_or_default();
        let part = |pointer: &String| {
            let pointer = self.bindings.substitute(pointer)?;
            let found = select(&document, &pointer).cloned();
            Ok((pointer, found.unwrap_or_default()))
        };
        let parts = pointers
            .iter()
            .map(part)
            .collect::<Result<serde_json::Map<_, _>, String>>()?;
        Ok(Value::Object(parts).to_string())
    }

    fn webhook(&mut self, name: &str) -> Result<&mut Hook, String> {
        self.webhooks
            .get_mut(name)
            .ok_or_else(|| format!("no step starts the webhook {name:?}"))
    }

    /// Deletes the configurations of the webhooks.
    async fn end(&self) {
        for hook in self.webhooks.values() {
            hook.remove(self.cluster).await;
        }
    }

    fn watch(&mut self, name: &str) -> Result<&mut Watch, String> {
        self.watches
            .get_mut(name)
            .ok_or_else(|| format!("no step opens the watch {name:?}"))
    }

    #[expect(clippy::type_complexity, reason = "the parts of one request")]
    fn prepare(
        &mut self,
        request: &Request,
    ) -> Result<(&'a Api, String, Vec<(String, String)>, Vec<u8>), String> {
        let api = if request.anonymous {
            self.cluster.anonymous()
        } else {
            self.cluster.api()
        };
        let path = self.bindings.substitute(&request.path)?;
        let body = self.bindings.substitute(&request.body)?;
        let header = |(name, value): &(String, String)| Ok((name.clone(), self.bindings.substitute(value)?));
        let headers = request
            .headers
            .iter()
            .map(header)
            .collect::<Result<_, String>>()?;
        self.sent.push_str(&request.path);
        self.sent.push_str(&request.body);
        let is_protobuf = |(_, value): &(String, String)| value == "application/vnd.kubernetes.protobuf";
        let body = if request.headers.iter().any(is_protobuf) {
            let bytes = BASE64_STANDARD.decode(body);
            bytes.map_err(|error| format!("the body is not base64: {error}"))?
        } else {
            body.into_bytes()
        };
        Ok((api, path, headers, body))
    }

    fn differences(&self, bindings: &mut Bindings, step: &Step, actual: &Actual) -> Vec<String> {
        let recorded = &step.answer;
        let mode = match self.cluster.version() {
            RECORDED => Mode::Same,
            _ => Mode::Other,
        };
        let mut differences = Vec::new();
        if recorded.status != actual.status {
            differences.push(format!(
                "recorded status {}, got {}",
                recorded.status, actual.status
            ));
        }
        if let Some(body) = &recorded.body {
            let actual = without_managed_fields(&actual.body, self.managed_fields);
            differences.extend(compare::body(bindings, mode, body, &actual, &step.ignore));
        } else if matches!(step.action, Action::End(_) | Action::Run(_)) && !actual.body.is_empty() {
            differences.push("expected the end of the watch, or no output".to_owned());
        }
        if mode == Mode::Same {
            let counts = |headers: &[(String, String)]| -> Vec<(String, String)> {
                let counts = headers.iter().filter(|(name, _)| !step.ignore.contains(name));
                counts.cloned().collect()
            };
            let (recorded, actual) = (counts(&recorded.headers), counts(&actual.headers));
            let same = recorded.len() == actual.len()
                && recorded.iter().zip(&actual).all(|(recorded, actual)| {
                    recorded.0 == actual.0 && bindings.matches(&recorded.1, &actual.1)
                });
            if !same {
                differences.push(format!("recorded headers {recorded:?}, got {actual:?}"));
            }
        }
        differences
    }
}

/// Follows a JSON pointer. `name=a` stands for the element of a list whose `name` is `a`; the key can be a path: `metadata.name=a`.
fn select<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut found = document;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/");
        found = match (found, part.split_once('=')) {
            (Value::Array(elements), Some((key, value))) => {
                let pointer = format!("/{}", key.replace('.', "/"));
                let is_wanted = |element: &&Value| element.pointer(&pointer).is_some_and(|key| key == value);
                elements.iter().find(is_wanted)?
            }
            (Value::Array(elements), None) => elements.get(part.parse::<usize>().ok()?)?,
            (other, _) => other.get(&part)?,
        };
    }
    Some(found)
}

fn without_managed_fields(body: &str, keep: bool) -> String {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.remove("managedFields");
                }
                fields.values_mut().for_each(strip);
            }
            Value::Array(elements) => elements.iter_mut().for_each(strip),
            _ => {}
        }
    }
    match serde_json::from_str(body) {
        Ok(mut value) if !keep => {
            strip(&mut value);
            value.to_string()
        }
        _ => body.trim_end().to_owned(),
    }
}

fn actual(reply: &Reply) -> Actual {
    Actual {
        status: reply.status,
        headers: compared_headers(&reply.headers),
        body: reply.text(),
    }
}

/// The headers that count, sorted. JSON is the usual type and not recorded.
fn compared_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let values = |name: &'static str| headers.get_all(name).iter().map(move |value| (name, value));
    let text = |(name, value): (&str, &HeaderValue)| {
        (
            name.to_owned(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    };
    let compared = HEADERS.iter().flat_map(|name| values(name)).map(text);
    let mut compared: Vec<_> = compared
        .filter(|(_, value)| value != "application/json")
        .collect();
    compared.sort();
    compared
}

fn answer(actual: &Actual) -> Answer {
    Answer {
        status: actual.status,
        headers: actual.headers.clone(),
        body: Some(actual.body.clone()),
    }
}

fn title(action: &Action) -> String {
    match action {
        Action::Request(request) => format!("{} {}", request.method, request.path),
        Action::Watch(name, request) => format!("WATCH {name} {}", request.path),
        Action::Event(name) => format!("EVENT {name}"),
        Action::End(name) => format!("END {name}"),
        Action::Webhook(name, _) => format!("WEBHOOK {name}"),
        Action::Answer(name, _) => format!("ANSWER {name}"),
        Action::Review(name) => format!("REVIEW {name}"),
        Action::Calls(name) => format!("CALLS {name}"),
        Action::Run(request) => format!("RUN kubectl {}", request.path),
    }
}

fn pretty(answer: &Answer) -> String {
    let body = answer.body.as_deref().unwrap_or_default();
    let body = match serde_json::from_str::<Value>(body) {
        Ok(json) => format!("{json:#}"),
        Err(_) => body.to_owned(),
    };
    let headers = answer
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"));
    format!(
        "{}\n{}{body}",
        answer.status,
        headers.collect::<Vec<_>>().concat()
    )
}
