//! A door that counts what the controller under test asks for, and can break it, or change it on its way.
//! It is known by the name of its client, `engine`.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coxswain_manager::env::Clock;
use coxswain_sandbox::{Door, Lag, ResponseBody};
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower_service::Service;

/// What becomes of a request of the engine.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done and answered.
    Done,
    /// It is done, and the answer is lost.
    Lost,
    /// It is applied twice in a row; the answer to the second one arrives.
    Twice,
    /// It is done and answered, and applied once more before the next write.
    Repeated,
    /// It is changed on its way, as by a webhook.
    Changed(fn(&mut Value)),
    /// It never arrives, and nobody says so.
    Broken,
    /// It arrives only when the next one of its kind is sent, and nobody says so.
    Late,
    /// It is done, and the answer never comes.
    Hung,
    /// It is refused with this code and status.
    Refused(u16, Value),
}

/// For how long a request may be on its way: the server was told to give up after that.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// Decides by method, path and how many of that kind there were before.
type Judge = dyn Fn(&Method, &str, usize) -> Answer + Send + Sync;
/// Changes an object that is read.
type Show = dyn Fn(&mut Value) + Send + Sync;

#[derive(Clone)]
pub struct Watched {
    door: Door,
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    counts: BTreeMap<String, usize>,
    times: Vec<(String, Instant)>,
    bodies: Vec<(String, Value)>,
    judge: Option<Arc<Judge>>,
    show: Option<(&'static str, Arc<Show>)>,
    /// Requests of the engine with this text in them are refused with this code and status.
    refuse: Option<(String, u16, Value)>,
    /// How long it takes to refuse something; no time at all if nothing is said.
    look: Option<Duration>,
    late: Option<(Instant, Request<Body>)>,
    /// A copy of a write, which is applied before the next one.
    repeated: Option<Request<Body>>,
    /// Text that those who read caches are shown instead of another one.
    garble: Option<(String, String)>,
    /// On watches of this resource nothing comes any more, not even their end.
    silent: Option<&'static str>,
}

/// A watch, which may fall silent.
struct Lines {
    body: ResponseBody,
    path: String,
    door: Watched,
}

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = <ResponseBody as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let silent = self.door.with(|it| it.silent);
        if silent.is_some_and(|plural| self.path.ends_with(plural)) {
            return Poll::Pending;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

impl Watched {
    pub fn new(door: Door, clock: &Clock) -> Self {
        Self {
            door,
            clock: clock.clone(),
            state: Arc::default(),
        }
    }

    /// What it shows of the store.
    pub fn lag(&self) -> &Lag {
        self.door.lag()
    }

    /// How many requests of each kind the engine has sent: `POST pods`, `PATCH replicasets/status`.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.with(|it| it.counts.clone())
    }

    pub fn count(&self, what: &str) -> usize {
        self.counts().get(what).copied().unwrap_or(0)
    }

    /// All of them, in the order in which they were sent.
    pub fn order(&self) -> Vec<String> {
        self.with(|it| it.times.iter().map(|(what, _)| what.clone()).collect())
    }

    /// When they were sent.
    pub fn times(&self, what: &str) -> Vec<Instant> {
        self.with(|it| {
            let times = it.times.iter().filter(|(it, _)| it == what);
            times.map(|(_, at)| *at).collect()
        })
    }

    /// What was in them.
    pub fn bodies(&self, what: &str) -> Vec<Value> {
        self.with(|it| {
            let bodies = it.bodies.iter().filter(|(it, _)| it == what);
            bodies.map(|(_, body)| body.clone()).collect()
        })
    }

    pub fn reset(&self) {
        self.with(|it| {
            it.counts.clear();
            it.times.clear();
            it.bodies.clear();
        });
    }

    /// From now on those who fill caches read `shown` wherever there is `written`.
    pub fn garble(&self, written: &str, shown: &str) {
        self.with(|it| it.garble = Some((written.to_owned(), shown.to_owned())));
    }

    fn garbled(&self, agent: &str, response: Response<ResponseBody>) -> Response<ResponseBody> {
        if !agent.ends_with("/reader") {
            return response;
        }
        let this = self.clone();
        let swap = move |data: Bytes| match this.with(|it| it.garble.clone()) {
            Some((written, shown)) => String::from_utf8_lossy(&data).replace(&written, &shown).into(),
            None => data,
        };
        response.map(|body| body.map_frame(move |frame| frame.map_data(&swap)).boxed_unsync())
    }

    /// From now on nothing comes on watches that are open of a resource, as if the connection were lost and nobody had
    /// noticed. Those that are opened after it is said to be over are fine.
    pub fn silence(&self, plural: Option<&'static str>) {
        self.with(|it| it.silent = plural);
    }

    /// What has not arrived never does: its sender is gone.
    pub fn cut(&self) {
        self.with(|it| it.late = None);
    }

    /// From now on `judge` says what becomes of requests of the engine.
    pub fn judge(&self, judge: impl Fn(&Method, &str, usize) -> Answer + Send + Sync + 'static) {
        self.with(|it| it.judge = Some(Arc::new(judge)));
    }

    /// From now on the caches of the controller see objects of a resource as from a server that `shows` them like that.
    pub fn show(&self, plural: &'static str, shows: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.with(|it| it.show = Some((plural, Arc::new(shows))));
    }

    /// How the answer to a request of its caches looks.
    fn shown(&self, request: &Parts) -> Option<Arc<Show>> {
        let agent = request.headers["user-agent"].to_str().unwrap_or_default();
        let (plural, shows) = self.with(|it| it.show.clone())?;
        (agent.ends_with("/reader") && request.uri.path().ends_with(plural)).then_some(shows)
    }

    /// From now on requests of the engine with `text` in them are refused. `NAME` in the status is the name that was asked for.
    pub fn refuse(&self, text: &str, code: u16, status: &Value) {
        self.with(|it| it.refuse = Some((text.to_owned(), code, status.clone())));
    }

    /// From now on it takes time to refuse something: who runs in circles does not stop the clock.
    pub fn slow(&self, look: Duration) {
        self.with(|it| it.look = Some(look));
    }

    fn refused(&self, body: &[u8]) -> Option<Answer> {
        let (text, code, status) = self.with(|it| it.refuse.clone())?;
        let body = std::str::from_utf8(body).ok().filter(|it| it.contains(&text))?;
        let asked: Value = serde_json::from_str(body).ok()?;
        let name = asked["metadata"]["name"].as_str().unwrap_or_default();
        let status = serde_json::from_str(&status.to_string().replace("NAME", name)).ok()?;
        Some(Answer::Refused(code, status))
    }

    fn with<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What becomes of a request.
    fn see(&self, request: &Parts, body: &[u8]) -> Answer {
        let agent = request.headers["user-agent"].to_str().unwrap_or_default();
        if !agent.ends_with("/engine") {
            return Answer::Done;
        }
        let (method, now) = (request.method.clone(), self.clock.now());
        let path = request.uri.path();
        let mut parts = path.split('/').skip_while(|it| *it != "default").skip(1);
        let (plural, sub) = (parts.next().unwrap_or(""), parts.nth(1));
        let what = match sub {
            Some(sub) => format!("{method} {plural}/{sub}"),
            None => format!("{method} {plural}"),
        };
        let (before, judge) = self.with(|it| {
            it.times.push((what.clone(), now));
            if let Ok(body) = serde_json::from_slice(body) {
                it.bodies.push((what.clone(), body));
            }
            let count = it.counts.entry(what.clone()).or_default();
            *count += 1;
            (*count - 1, it.judge.clone())
        });
        let refused = self.refused(body);
        refused.unwrap_or_else(|| judge.map_or(Answer::Done, |judge| judge(&method, path, before)))
    }
}

impl Service<Request<Body>> for Watched {
    type Response = Response<ResponseBody>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let answer = this.see(&parts, &body);
            let shows = this.shown(&parts);
            let request = Request::from_parts(parts, Body::from(body.to_vec()));
            let held = (request.method() == Method::POST).then(|| this.with(|it| it.late.take()));
            if let Some((at, late)) = held.flatten()
                && this.clock.now().duration_since(at) < UNDER_WAY
            {
                drop(this.door.call(late).await?);
            }
            let repeated = (request.method() != Method::GET).then(|| this.with(|it| it.repeated.take()));
            if let Some(copy) = repeated.flatten() {
                drop(this.door.call(copy).await?);
            }
            let agent = request.headers()["user-agent"].to_str()?.to_owned();
            let door = &mut this.door.clone();
            match answer {
                Answer::Done => {
                    let path = request.uri().path().to_owned();
                    let watches = request.uri().query().is_some_and(|it| it.contains("watch="));
                    let response = door.call(request).await?;
                    let response = this.garbled(&agent, response);
                    let response = if watches && agent.ends_with("/reader") {
                        let door = this.clone();
                        response.map(|body| Lines { body, path, door }.boxed_unsync())
                    } else {
                        response
                    };
                    Ok(match shows {
                        None => response,
                        Some(shows) => response.map(|body| {
                            body.map_frame(move |frame| frame.map_data(|data| changed(&data, &*shows)))
                                .boxed_unsync()
                        }),
                    })
                }
                Answer::Changed(change) => {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let mut body: Value = serde_json::from_slice(&body)?;
                    change(&mut body);
                    let body = Body::from(body.to_string().into_bytes());
                    Ok(door.call(Request::from_parts(parts, body)).await?)
                }
                Answer::Twice => {
                    let (copy, request) = duplicate(request).await?;
                    drop(door.call(copy).await?);
                    Ok(door.call(request).await?)
                }
                Answer::Repeated => {
                    let (copy, request) = duplicate(request).await?;
                    let response = door.call(request).await?;
                    this.with(|it| it.repeated = Some(copy));
                    Ok(response)
                }
                Answer::Lost => {
                    let response = door.call(request).await?;
                    drop(response.into_body().collect().await);
                    Err("the answer was lost".into())
                }
                Answer::Late => {
                    let now = this.clock.now();
                    this.with(|it| it.late = Some((now, request)));
                    Err("the connection broke".into())
                }
                Answer::Hung => {
                    let response = door.call(request).await?;
                    drop(response.into_body().collect().await);
                    std::future::pending().await
                }
                Answer::Broken => Err("the connection broke".into()),
                Answer::Refused(code, more) => {
                    if let Some(look) = this.with(|it| it.look) {
                        this.clock.sleep(look).await;
                    }
                    let mut status = json!({"kind": "Status", "apiVersion": "v1", "code": code});
                    for (key, value) in more.as_object().into_iter().flatten() {
                        status[key] = value.clone();
                    }
                    let body = Full::new(Bytes::from(status.to_string())).boxed_unsync();
                    Ok(Response::builder().status(code).body(body)?)
                }
            }
        })
    }
}

/// Returns a request and a copy of it.
pub async fn duplicate(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), kube::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let copy = Request::from_parts(parts.clone(), Body::from(body.to_vec()));
    Ok((copy, Request::from_parts(parts, Body::from(body.to_vec()))))
}

/// A list, or lines of a watch, with their objects changed.
fn changed(data: &Bytes, shows: &Show) -> Bytes {
    let mut changed = Vec::new();
    for line in data.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
        let mut value: Value = serde_json::from_slice(line).expect("whole lines");
        if let Some(items) = value.get_mut("items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(shows);
        } else if value["type"] != "BOOKMARK" {
            shows(&mut value["object"]);
        }
        changed.extend(value.to_string().into_bytes());
        changed.push(b'\n');
    }
    changed.into()
}

/// A merge patch, applied.
pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    for (key, value) in patch {
        merge(&mut into[key], value);
    }
}
