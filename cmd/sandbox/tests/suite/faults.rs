//! The fault layer in front of an API service.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_sandbox::faults::{Cut, FaultBody, FaultService, Faults, Matcher, Refusal};
use steersman_sandbox::{ApiService, BoxError, Sandbox};
use tower_service::Service as _;

use crate::client::{MAPS, create, elapsed, get, sandbox};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    sandbox: Sandbox,
    /// Not behind the layer.
    direct: ApiService,
    faults: Faults,
    client: FaultService<ApiService>,
}

fn fixture() -> Fixture {
    let sandbox = sandbox();
    let faults = Faults::seeded(1);
    Fixture {
        direct: sandbox.service(),
        client: faults.wrap(sandbox.service()),
        sandbox,
        faults,
    }
}

impl Fixture {
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Response<FaultBody>, BoxError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("impersonate-user", "system:admin")
            .body(Full::new(Bytes::from(body.to_string())))?;
        self.client.clone().call(request).await
    }

    async fn post(&self, name: &str) -> Result<(u16, Value), BoxError> {
        let response = self
            .send(Method::POST, MAPS, &json!({"metadata": {"name": name}}))
            .await?;
        whole(response).await
    }

    async fn watch(&self) -> FaultBody {
        let path = format!("{MAPS}?watch=true&resourceVersion={}", self.sandbox.revision());
        let response = self.send(Method::GET, &path, &Value::Null).await;
        response.expect("a watch").into_body()
    }

    async fn exists(&self, name: &str) -> bool {
        get(&self.direct, &format!("{MAPS}/{name}")).await.0 == 200
    }
}

async fn whole(response: Response<FaultBody>) -> Result<(u16, Value), BoxError> {
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&body)?))
}

async fn event(watch: &mut FaultBody) -> Option<Result<Value, BoxError>> {
    let frame = watch.frame().await?;
    Some(frame.map(|it| serde_json::from_slice(&it.into_data().expect("data")).expect("one event")))
}

/// Returns the name of the next event's object.
async fn name(watch: &mut FaultBody) -> String {
    let event = event(watch).await.expect("an event").expect("no error");
    event["object"]["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn lost_request_is_not_executed() {
    let fixture = fixture();
    let rule = fixture
        .faults
        .on(Matcher::verb("create").resource("configmaps"))
        .times(1)
        .lose_request();
    assert!(fixture.post("a").await.is_err());
    assert!(!fixture.exists("a").await);
    assert_eq!(fixture.post("a").await.expect("an answer").0, 201);
    assert_eq!(rule.applied(), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_answer_leaves_the_write() {
    let fixture = fixture();
    fixture.faults.on(Matcher::writes().name("a")).lose_answer();
    assert!(fixture.post("a").await.is_err());
    assert!(fixture.exists("a").await);
}

#[tokio::test(start_paused = true)]
async fn duplicate_returns_the_second_answer() {
    let fixture = fixture();
    fixture.faults.on(Matcher::verb("create")).duplicate();
    assert_eq!(fixture.post("a").await.expect("an answer").0, 409);
    assert!(fixture.exists("a").await);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn late_delivery_executes_after_the_connection_broke() {
    let fixture = fixture();
    fixture.faults.on(Matcher::verb("create")).deliver_late(SECOND);
    assert!(fixture.post("a").await.is_err());
    assert!(!fixture.exists("a").await);
    tokio::time::sleep(2 * SECOND).await;
    assert!(fixture.exists("a").await);
}

#[tokio::test(start_paused = true)]
async fn delays_add_up_on_a_paused_clock() {
    let fixture = fixture();
    fixture.faults.on(Matcher::any()).delay(60 * SECOND);
    fixture.faults.on(Matcher::any()).delay_answer(30 * SECOND);
    let (answer, seconds) = elapsed(fixture.post("a")).await;
    assert_eq!((answer.expect("an answer").0, seconds), (201, 90));
}

#[tokio::test(start_paused = true)]
async fn refusal_is_a_status_with_retry_after() {
    let fixture = fixture();
    let refusal = Refusal::new(429).message("slow down").retry_after(3);
    fixture.faults.on(Matcher::any()).refuse(refusal);
    let response = fixture
        .send(Method::GET, MAPS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(response.headers()["retry-after"], "3");
    let (code, status) = whole(response).await.expect("a body");
    assert_eq!(code, 429);
    assert_eq!(
        (&status["reason"], &status["message"]),
        (&json!("TooManyRequests"), &json!("slow down"))
    );
    assert_eq!(status["details"]["retryAfterSeconds"], 3);
}

#[tokio::test(start_paused = true)]
async fn outcomes_apply_one_after_the_other() {
    let fixture = fixture();
    for code in [500, 503] {
        fixture
            .faults
            .on(Matcher::writes())
            .times(1)
            .refuse(Refusal::new(code));
    }
    fixture
        .faults
        .on(Matcher::writes())
        .after(1)
        .times(1)
        .refuse(Refusal::new(504));
    let mut codes = Vec::new();
    for n in 0..4 {
        codes.push(fixture.post(&format!("m{n}")).await.expect("an answer").0);
    }
    assert_eq!(codes, [500, 503, 201, 504]);
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_draw_equal_faults() {
    let run = || async {
        let fixture = fixture();
        fixture
            .faults
            .on(Matcher::writes())
            .probability(0.5)
            .refuse(Refusal::new(500));
        let mut codes = Vec::new();
        for n in 0..20 {
            codes.push(fixture.post(&format!("m{n}")).await.expect("an answer").0);
        }
        codes
    };
    let codes = run().await;
    assert!(codes.contains(&201) && codes.contains(&500), "{codes:?}");
    assert_eq!(codes, run().await);
}

#[tokio::test(start_paused = true)]
async fn gate_stops_a_request_until_its_release() {
    let fixture = fixture();
    let gate = fixture.faults.on(Matcher::verb("create")).times(1).gate();
    let ((), posted) = tokio::join!(
        async {
            gate.reached().await;
            assert!(!fixture.exists("a").await);
            gate.release();
        },
        fixture.post("a")
    );
    assert_eq!(posted.expect("an answer").0, 201);
}

#[tokio::test(start_paused = true)]
async fn function_runs_before_the_request() {
    let fixture = fixture();
    let direct = fixture.direct.clone();
    fixture.faults.on(Matcher::verb("create")).before(move |request| {
        let direct = direct.clone();
        async move {
            create(&direct, &request.object_name()).await;
        }
    });
    let (code, status) = fixture.post("a").await.expect("an answer");
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test(start_paused = true)]
async fn request_and_answer_are_changed() {
    let fixture = fixture();
    fixture
        .faults
        .on(Matcher::verb("create"))
        .change_request(|map| map["data"] = json!({"by": "webhook"}));
    fixture
        .faults
        .on(Matcher::verb("create"))
        .change_answer(|map| map["kind"] = "Other".into());
    let (_, map) = fixture.post("a").await.expect("an answer");
    assert_eq!(
        (&map["kind"], &map["data"]["by"]),
        (&json!("Other"), &json!("webhook"))
    );
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_events_and_breaks_after_bytes() {
    let fixture = fixture();
    fixture
        .faults
        .on(Matcher::verb("watch"))
        .times(1)
        .cut_watch(Cut::Events(2));
    fixture
        .faults
        .on(Matcher::verb("watch"))
        .after(1)
        .cut_watch(Cut::Bytes(10));
    let (ended, mut broken) = (fixture.watch().await, fixture.watch().await);
    for name in ["a", "b", "c"] {
        create(&fixture.direct, name).await;
    }
    let events = ended.collect().await.expect("no error").to_bytes();
    let events: Vec<Value> = events
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let names: Vec<_> = events
        .iter()
        .map(|it| &it["object"]["metadata"]["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
    let first = broken.frame().await.expect("data").expect("no error");
    assert_eq!(first.into_data().expect("data").len(), 10);
    assert!(broken.frame().await.expect("an end").is_err());
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn open_watches_are_held_reset_and_sent_events() {
    let fixture = fixture();
    let watches = Matcher::verb("watch").resource("configmaps");
    let mut watch = fixture.watch().await;
    let hold = fixture.faults.hold_watches(watches.clone());
    create(&fixture.direct, "a").await;
    let waited = tokio::time::timeout(SECOND, name(&mut watch)).await;
    assert!(waited.is_err());
    drop(hold);
    assert_eq!(name(&mut watch).await, "a");
    let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
    assert_eq!(fixture.faults.send_event(&watches, &error), 1);
    assert_eq!(
        event(&mut watch).await.expect("an event").expect("no error"),
        error
    );
    assert_eq!(fixture.faults.reset_watches(&watches), 1);
    assert!(event(&mut watch).await.expect("an end").is_err());
    assert!(event(&mut watch).await.is_none());
    drop(watch);
    assert_eq!(fixture.faults.open_watches(&watches), 0);
}

#[tokio::test(start_paused = true)]
async fn lagging_api_server_answers_from_its_cache() {
    let fixture = fixture();
    fixture.client.lag().hold_all_at(fixture.sandbox.revision());
    create(&fixture.direct, "a").await;
    let path = format!("{MAPS}?resourceVersion=0");
    let response = fixture
        .send(Method::GET, &path, &Value::Null)
        .await
        .expect("an answer");
    let (_, list) = whole(response).await.expect("a body");
    assert_eq!(list["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn requests_are_recorded() {
    let fixture = fixture();
    fixture.post("a").await.expect("an answer");
    fixture
        .send(Method::GET, MAPS, &Value::Null)
        .await
        .expect("an answer");
    let path = format!("{MAPS}/a");
    fixture
        .send(Method::DELETE, &path, &Value::Null)
        .await
        .expect("an answer");
    let record = fixture
        .faults
        .requests(&Matcher::any().user("system:admin").namespace("default"));
    let record: Vec<_> = record
        .iter()
        .map(|it| format!("{} {} {}", it.verb, it.full_resource(), it.object_name()))
        .collect();
    assert_eq!(
        record,
        ["create configmaps a", "list configmaps ", "delete configmaps a"]
    );
    assert_eq!(fixture.faults.count(&Matcher::writes()), 2);
    fixture.faults.forget();
    assert_eq!(fixture.faults.count(&Matcher::any()), 0);
}

#[tokio::test(start_paused = true)]
async fn inner_layer_observes_executed_requests_only() {
    let sandbox = sandbox();
    let (faults, executed) = (Faults::new(), Faults::new());
    let client = faults.wrap(executed.wrap(sandbox.service()));
    let codes: Arc<Mutex<Vec<u16>>> = Arc::default();
    let observed = codes.clone();
    executed.on(Matcher::writes()).around(move |_| {
        let observed = observed.clone();
        async move { async move |code: u16| observed.lock().expect("no panic").push(code) }
    });
    faults.on(Matcher::writes()).times(1).lose_request();
    faults.on(Matcher::writes()).times(1).lose_answer();
    faults.on(Matcher::writes()).times(1).duplicate();
    for _ in 0..3 {
        let body = json!({"metadata": {"name": "a"}}).to_string();
        let request = Request::post(MAPS).header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let _ = client.clone().call(request).await;
    }
    assert_eq!(*codes.lock().expect("no panic"), [201, 409, 409]);
    let replayed = executed.requests(&Matcher::writes())[0].to_request();
    let code = sandbox
        .service()
        .call(replayed)
        .await
        .expect("an answer")
        .status();
    assert_eq!(code, 409);
}

#[tokio::test(start_paused = true)]
async fn rule_sends_requests_to_another_server_with_other_headers() {
    let fixture = fixture();
    let other = sandbox();
    fixture.faults.on(Matcher::any()).send_to(other.service());
    assert_eq!(fixture.post("a").await.expect("an answer").0, 201);
    assert!(!fixture.exists("a").await);
    assert_eq!(get(&other.service(), &format!("{MAPS}/a")).await.0, 200);
    fixture.faults.clear();
    fixture.faults.on(Matcher::writes()).change_headers(|headers| {
        headers.insert("content-type", "text/plain".parse().expect("a header"));
    });
    assert_eq!(fixture.post("a").await.expect("an answer").0, 415);
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the paused clock of the test")]
async fn silent_watch_delivers_nothing_until_it_ends() {
    let fixture = fixture();
    let mut watch = fixture.watch().await;
    create(&fixture.direct, "a").await;
    assert_eq!(name(&mut watch).await, "a");
    assert_eq!(fixture.faults.silence_watches(&Matcher::any()), 1);
    create(&fixture.direct, "b").await;
    fixture.faults.send_line(&Matcher::any(), "lost");
    assert!(tokio::time::timeout(SECOND, event(&mut watch)).await.is_err());
    let mut other = fixture.watch().await;
    create(&fixture.direct, "c").await;
    assert_eq!(name(&mut other).await, "c", "a later watch is not silent");
    fixture.faults.end_watches(&Matcher::any());
    assert!(event(&mut watch).await.is_none());
}
