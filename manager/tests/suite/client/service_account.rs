//! Clients with the identity of a service account, against a sandbox with RBAC under a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_harness::Log;
use steersman_manager::client::{
    Client, ClientError, Fence, Patch, RateLimit, Reader, ServiceAccount, ServiceAccounts, TokenError,
    Transport,
};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::faults::{Effect, Faults, Matcher, RecordedRequest};
use steersman_sandbox::{Authorization, Env as SandboxEnv, Sandbox};
use tracing::level_filters::LevelFilter;

use super::MAPS;

const ACCOUNTS: Resource = Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount");
const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role");
const BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding");
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// The number of requests, and their faults.
#[derive(Default)]
struct State {
    token_requests: usize,
    /// Requests with a token.
    with_token: usize,
    /// The response to a `TokenRequest`, if it fails.
    token_request_fails: Option<u16>,
    /// The time until a `TokenRequest` is answered.
    token_request_latency: Duration,
    /// Whether requests with a token are answered with 401.
    rejects: bool,
}

struct Fixture {
    env: Env,
    state: Arc<Mutex<State>>,
    transport: Transport,
    /// The credentials of the process: an administrator.
    admin: Client,
    accounts: ServiceAccounts,
    _tasks: TaskSet,
}

/// Counts a request, and returns its faults.
fn decide(state: &Mutex<State>, request: &RecordedRequest) -> Effect {
    let mut state = state.lock().expect("no panic");
    let (mut code, mut effects) = (None, Vec::new());
    if request.subresource == "token" {
        state.token_requests += 1;
        code = state.token_request_fails;
        effects.push(Effect::Delay(state.token_request_latency));
    }
    if let Some(value) = request.headers.get(header::AUTHORIZATION) {
        assert!(value.is_sensitive(), "the header could be logged");
        state.with_token += 1;
        code = state.rejects.then_some(401);
    }
    effects.extend(code.map(|code| Effect::reply(code, "")));
    Effect::All(effects)
}

impl Fixture {
    fn new() -> Self {
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        let sandbox = Sandbox::builder()
            .env(SandboxEnv::starting_at(start, 7))
            .authorization(Authorization::Rbac)
            .start()
            .expect("a sandbox");
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, 7, &tasks);
        let (faults, state) = (Faults::new(), Arc::default());
        let decided = Arc::clone(&state);
        faults.on(Matcher::any()).decide(move |it| decide(&decided, it));
        let service = faults.wrap(sandbox.service());
        let transport =
            Transport::from_service(service, "api.test", "test", &env.clock, &Registry::new("test"))
                .expect("a transport");
        let admin = transport.unfenced("admin", None);
        let accounts = ServiceAccounts::new(&env, admin.clone(), transport.clone(), "default");
        Self {
            env,
            state,
            transport,
            admin,
            accounts,
            _tasks: tasks,
        }
    }

    /// Returns a service account that may get and create `ConfigMaps`, and a client of it.
    async fn account(&self, name: &str) -> (ServiceAccount, Client) {
        self.allow(name, "configmaps", &["get", "create"]).await;
        let account = self.accounts.account(name);
        let client = self.transport.reader(name, None);
        let client = client.authenticated_as(Some(&account)).unfenced();
        (account, client)
    }

    /// Keeps the token of an account valid until the end of the test.
    fn keep_valid(&self, account: &ServiceAccount) {
        let account = account.clone();
        drop(self.env.tasks.spawn(async move { account.keep_valid().await }));
    }

    /// Grants a service account access in its namespace.
    async fn allow(&self, account: &str, resource: &str, verbs: &[&str]) {
        let metadata = json!({"name": account});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]});
        for (resource, body) in [(&ROLES, role), (&BINDINGS, binding)] {
            let created = self
                .admin
                .create::<Value>(resource, "default", body.to_string().into());
            created.await.expect("created");
        }
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().expect("no panic"))
    }

    fn token_requests(&self) -> usize {
        self.state(|state| state.token_requests)
    }

    /// Sends a read every second, for this long. Returns the number of responses.
    async fn read_for(&self, client: &Client, time: Duration) -> usize {
        let end = self.env.clock.after(time);
        let mut read = 0;
        while self.env.clock.now() < end {
            read += usize::from(get(client).await.is_ok());
            self.env.clock.sleep(SECOND).await;
        }
        read
    }
}

/// Reads a `ConfigMap` that every namespace may not have: a 404 is a response to an authorized request.
async fn get(client: &Reader) -> Result<(), ClientError> {
    match client.get::<Value>(&MAPS, &Key::new("default", "a")).await {
        Err(error) if error.is_not_found("a") => Ok(()),
        other => other.map(drop),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_have_the_identity_of_a_service_account_that_is_created() {
    let f = Fixture::new();
    let (_, client) = f.account("robot").await;
    get(&client).await.expect("allowed by its role");
    let forbidden = client
        .patch::<Value>(&MAPS, &Key::new("default", "a"), Patch::merge(&json!({})))
        .await;
    let forbidden = forbidden.expect_err("its role has no patch").to_string();
    assert!(
        forbidden.contains("system:serviceaccount:default:robot"),
        "{forbidden}"
    );
    let created: Value = f
        .admin
        .get(&ACCOUNTS, &Key::new("default", "robot"))
        .await
        .expect("created");
    assert_eq!(created["metadata"]["name"], "robot");
    // The same client without an account has the credentials of the process.
    let own = f.transport.unfenced("robot", None);
    own.create::<Value>(&MAPS, "default", r#"{"metadata":{"name":"b"}}"#.into())
        .await
        .expect("an administrator");
}

#[tokio::test(start_paused = true)]
async fn token_is_requested_once_and_replaced_after_80_percent_of_its_lifetime() {
    let f = Fixture::new();
    let (account, client) = f.account("robot").await;
    let (a, b, c) = tokio::join!(get(&client), get(&client), get(&client));
    for read in [a, b, c] {
        read.expect("a response");
    }
    // The first one is answered with 404, because the account does not exist.
    assert_eq!(f.token_requests(), 2, "one at a time");
    f.keep_valid(&account);
    f.env.clock.sleep(47 * MINUTE + 59 * SECOND).await;
    get(&client).await.expect("a response");
    assert_eq!(f.token_requests(), 2);
    f.state(|state| state.token_request_latency = 2 * SECOND);
    f.env.clock.sleep(2 * SECOND).await;
    assert_eq!(f.token_requests(), 3);
    let before = f.env.clock.now();
    get(&client).await.expect("the previous token");
    assert_eq!(f.env.clock.now(), before, "it does not wait for the replacement");
    f.env.clock.sleep(5 * 48 * MINUTE).await;
    get(&client).await.expect("a response");
    assert_eq!(f.token_requests(), 8);
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_replaced_by_the_next_request() {
    let f = Fixture::new();
    let (_, client) = f.account("robot").await;
    get(&client).await.expect("a response");
    let before = f.token_requests();
    f.env.clock.sleep(59 * MINUTE).await;
    get(&client).await.expect("a response");
    assert_eq!(f.token_requests(), before);
    f.env.clock.sleep(MINUTE).await;
    get(&client).await.expect("a response");
    assert_eq!(f.token_requests(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn with_token_waits_for_the_service_account() {
    let f = Fixture::new();
    let (_, client) = f.account("robot").await;
    let clock = &f.env.clock;
    f.state(|state| state.token_request_fails = Some(403));
    let error = client.with_token("DELETE").await.expect_err("no token");
    assert!(matches!(error, ClientError::Unauthenticated { .. }), "{error:?}");
    f.state(|state| (state.token_request_fails, state.token_request_latency) = (None, SECOND));
    clock.sleep(MINUTE).await;
    let start = clock.now();
    let with_token = client.with_token("GET").await.expect("a token");
    assert!(clock.now() - start >= SECOND, "it waits before the decision");
    // Another request forgets the token.
    f.state(|state| state.rejects = true);
    get(&client).await.expect_err("rejected");
    f.state(|state| state.rejects = false);
    let start = clock.now();
    get(&with_token).await.expect("a response");
    assert_eq!(clock.now(), start, "it does not wait after the decision");
}

#[tokio::test(start_paused = true)]
async fn token_is_used_until_it_expires_while_no_other_can_be_obtained() {
    let f = Fixture::new();
    let (account, client) = f.account("robot").await;
    get(&client).await.expect("a response");
    f.keep_valid(&account);
    f.state(|state| state.token_request_fails = Some(503));
    let before = f.token_requests();
    f.env.clock.sleep(48 * MINUTE).await;
    let answered = f.read_for(&client, 11 * MINUTE + 59 * SECOND).await;
    assert_eq!(answered, 12 * 60 - 1, "every request was answered");
    assert_eq!(account.failure(), None, "the token is valid");
    let requested = f.token_requests() - before;
    assert!(
        (8..=18).contains(&requested),
        "{requested} requests in 12 minutes"
    );
    f.env.clock.sleep(2 * SECOND).await;
    let sent = f.state(|state| state.with_token);
    let error = get(&client).await.expect_err("the token has expired");
    assert!(error.retry_after().is_some(), "{error:?}");
    assert_eq!(f.state(|state| state.with_token), sent, "not sent");
    assert!(account.failure().is_some());
    f.state(|state| state.token_request_fails = None);
    f.env.clock.sleep(2 * MINUTE).await;
    get(&client).await.expect("another token");
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_replaced_at_once_and_then_after_the_backoff() {
    let f = Fixture::new();
    let (account, client) = f.account("robot").await;
    get(&client).await.expect("a response");
    assert_eq!(account.failure(), None);
    let before = f.token_requests();
    f.state(|state| state.rejects = true);
    assert_eq!(get(&client).await.expect_err("rejected").code(), Some(401));
    let rejected = TokenError::Rejected {
        account: Key::new("default", "robot"),
    };
    assert_eq!(account.failure(), Some(rejected));
    f.state(|state| state.rejects = false);
    get(&client).await.expect("another token");
    assert_eq!((f.token_requests() - before, account.failure()), (1, None));

    f.state(|state| (state.rejects, state.with_token) = (true, 0));
    assert_eq!(f.read_for(&client, 10 * MINUTE).await, 0);
    let requested = f.token_requests() - before;
    assert!(
        (8..=18).contains(&requested),
        "{requested} requests in 10 minutes"
    );
    let sent = f.state(|state| state.with_token);
    assert!(sent <= requested, "{sent} requests with {requested} tokens");
    f.state(|state| state.rejects = false);
    f.env.clock.sleep(2 * MINUTE).await;
    get(&client).await.expect("a response");
}

#[tokio::test(start_paused = true)]
async fn ended_wait_for_the_rate_limiter_requests_no_token() {
    let f = Fixture::new();
    let (account, _) = f.account("robot").await;
    let fence = Fence::new(f.env.clock.clone());
    let term = fence.open(f.env.clock.mark(), MINUTE);
    let limit = RateLimit { qps: 0.001, burst: 1 };
    let client = f.transport.reader("robot", Some(limit));
    let client = client.authenticated_as(Some(&account)).in_term(&fence, term);
    f.state(|state| state.rejects = true);
    let error = get(&client).await.expect_err("rejected");
    assert_eq!(
        error.code(),
        Some(401),
        "it took the only token of the rate limiter"
    );
    let before = f.token_requests();
    fence.drain(term);
    let ended = client.with_token("GET").await;
    assert!(matches!(ended, Err(ClientError::Fenced { .. })), "{ended:?}");
    assert_eq!(f.token_requests(), before);
}

#[tokio::test(start_paused = true)]
async fn missing_right_is_an_error_that_names_the_account_and_the_right() {
    let f = Fixture::new();
    // The process has the identity of this account, and may not request tokens.
    let (_, process) = f.account("process").await;
    let issue =
        |namespace: &str| ServiceAccounts::new(&f.env, process.clone(), f.transport.clone(), namespace);
    let error = async |namespace: &str, name: &str| {
        let account = issue(namespace).account(name);
        let client = f.transport.reader("a", None).authenticated_as(Some(&account));
        let error = get(&client).await.expect_err("no token");
        assert!(!error.is_unknown_outcome(), "it was not sent");
        let ClientError::Unauthenticated { source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(account.failure(), Some(source.clone()));
        source
    };
    let forbidden = error("default", "robot").await;
    assert!(matches!(forbidden, TokenError::Forbidden { .. }), "{forbidden:?}");
    let text = forbidden.to_string();
    for part in [
        "default/robot",
        "the verb create on serviceaccounts/token named robot in namespace default",
        "system:serviceaccount:default:process",
    ] {
        assert!(text.contains(part), "{text}");
    }
    f.allow("tokens", "serviceaccounts/token", &["create"]).await;
    let binding =
        json!({"subjects": [{"kind": "ServiceAccount", "name": "process", "namespace": "default"}]});
    f.admin
        .patch::<Value>(&BINDINGS, &Key::new("default", "tokens"), Patch::merge(&binding))
        .await
        .expect("bound to the process");
    let missing = error("default", "robot").await;
    assert!(matches!(missing, TokenError::Missing { .. }), "{missing:?}");
    assert!(
        missing
            .to_string()
            .contains("grant the verb create on serviceaccounts"),
        "{missing}"
    );
    let account =
        ServiceAccounts::new(&f.env, f.admin.clone(), f.transport.clone(), "absent").account("robot");
    let client = f.transport.reader("a", None).authenticated_as(Some(&account));
    let error = get(&client).await.expect_err("no token").to_string();
    assert!(error.contains("create its namespace absent first"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_neither_logged_nor_printed() {
    let log = Log::keep(LevelFilter::TRACE);
    let f = Fixture::new();
    let (account, client) = f.account("robot").await;
    get(&client).await.expect("a response");
    f.state(|state| state.rejects = true);
    let error = get(&client).await.expect_err("rejected");
    f.state(|state| (state.rejects, state.token_request_fails) = (false, Some(500)));
    let other = get(&client).await.expect_err("no token");
    let log = log.text();
    assert!(
        log.contains("serviceaccounts/robot/token"),
        "requests are logged: {log}"
    );
    let printed = format!("{log}{error:?}{error}{other:?}{account:?}{client:?}");
    // A signed token starts with this encoding of a brace and a quote.
    assert!(!printed.contains("eyJ"), "{printed}");
}
