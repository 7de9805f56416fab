//! The roles in `deploy/base`, on a sandbox with RBAC: the caches have the identity of the manager, each controller that of its
//! service account, and no request is forbidden.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use steersman_controllers::api::{self, app_service::APP_SERVICES};
use steersman_controllers::registry::{self, Descriptor, EnabledBy, Settings};
use steersman_manager::client::{
    Client, ClientError, Delete, Patch, Propagation, ServiceAccounts, Transport,
};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{Manager, Options};
use steersman_manager::metrics::Registry;
use steersman_manager::object::{Key, Resource};
use steersman_sandbox::faults::{Faults, Matcher, RecordedRequest};
use steersman_sandbox::{ApiService, Authorization, Env as SandboxEnv, Sandbox};
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use crate::fixture::{CRDS, DEPLOYMENTS, MAPS, PODS};

const NAMESPACE: &str = "steersman-system";
const OWN: &str = "steersman";
const APP_REPLICA_SETS: Resource = Resource::namespaced(
    "appcontroller.k8s.io",
    "v1alpha1",
    "appreplicasets",
    "AppReplicaSet",
);
const CONTROLLERS: Resource =
    Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController");

/// The writes of each service account: method and resource.
type Writes = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Log {
    writes: Writes,
    forbidden: Vec<String>,
}

/// Adds the credentials of the manager's own account to requests without a token, and records writes by service account.
fn audit(faults: &Faults, own: HeaderValue) -> Arc<Mutex<Log>> {
    faults.on(Matcher::any()).change_headers(move |headers| {
        headers.entry(header::AUTHORIZATION).or_insert(own.clone());
    });
    let log: Arc<Mutex<Log>> = Arc::default();
    let recorder = log.clone();
    faults.on(Matcher::any()).around(move |request| {
        let recorder = recorder.clone();
        async move {
            async move |code: u16| {
                let account = request.user.rsplit(':').next().filter(|it| !it.is_empty());
                let account = account.unwrap_or(OWN).to_owned();
                let operation = operation(&request);
                let mut log = recorder.lock().expect("no panic");
                if code == 403 {
                    log.forbidden
                        .push(format!("{account}: {operation} {}", request.path));
                } else if request.is_write() {
                    log.writes.entry(account).or_default().insert(operation);
                }
            }
        }
    });
    log
}

/// Returns the method, the resource and the subresource, without the names of objects.
fn operation(request: &RecordedRequest) -> String {
    let (method, resource) = (&request.method, &request.resource);
    match request.subresource.as_str() {
        _ if resource.is_empty() => format!("{method} discovery"),
        "" => format!("{method} {resource}"),
        subresource => format!("{method} {resource}/{subresource}"),
    }
}

/// Creates an object as an administrator.
async fn post(api_service: &mut ApiService, path: &str, content_type: &str, body: &str) -> Value {
    let request = Request::post(path).header(header::CONTENT_TYPE, content_type);
    let request = request
        .body(Body::from(body.as_bytes().to_vec()))
        .expect("a request");
    let response = api_service.call(request).await.expect("a response");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    assert_eq!(head.status, 201, "{path}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).expect("JSON")
}

/// Creates the service accounts, roles and bindings of `deploy/base`.
async fn create_roles(api_service: &mut ApiService) {
    let base = format!("{}/../deploy/base", env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(format!("{base}/{file}")).expect(file);
    let kustomization = read("kustomization.yaml");
    let files = kustomization.lines().filter_map(|line| line.strip_prefix("- "));
    let of_roles = |file: &&str| {
        file.starts_with("roles/") || matches!(*file, "namespace.yaml" | "service-account.yaml")
    };
    for file in files.filter(of_roles) {
        let text = read(file);
        for document in text.split("---\n") {
            let field = |name: &str| {
                let mut lines = document.lines();
                lines.find_map(|line| line.strip_prefix(name)).map(str::trim)
            };
            let api = field("apiVersion:").expect("a version");
            let plural = format!("{}s", field("kind:").expect("a kind").to_lowercase());
            let root = if api.contains('/') { "apis" } else { "api" };
            let namespace = field("  namespace:").filter(|_| !plural.starts_with("cluster"));
            let namespace = namespace
                .map(|it| format!("/namespaces/{it}"))
                .unwrap_or_default();
            let path = format!("/{root}/{api}{namespace}/{plural}");
            post(api_service, &path, "application/yaml", document).await;
        }
    }
}

struct Fixture {
    env: Env,
    admin: Client,
    transport: Transport,
    accounts: ServiceAccounts,
    faults: Faults,
    log: Arc<Mutex<Log>>,
    checks: Checks,
    _tasks: TaskSet,
}

impl Fixture {
    /// Starts a manager with all deployed controllers.
    async fn start() -> Self {
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        let sandbox = Sandbox::builder()
            .env(SandboxEnv::starting_at(start, 7))
            .authorization(Authorization::Rbac)
            .start()
            .expect("a sandbox");
        let mut api_service = sandbox.service();
        let tasks = TaskSet::new();
        let env = Env::starting_at(start, 7, &tasks);
        let admin = Transport::from_service(
            sandbox.service(),
            "sandbox",
            "test",
            &env.clock,
            &Registry::new("steersman"),
        );
        let admin = admin.expect("a transport").unfenced("admin", None);
        for definition in api::crds() {
            let body = definition.to_string().into();
            admin.create::<Value>(&CRDS, "", body).await.expect("created");
        }
        create_roles(&mut api_service).await;
        let request = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{OWN}/token");
        let token = post(&mut api_service, &path, "application/json", request).await;
        let token = token["status"]["token"].as_str().expect("a token").to_owned();
        let faults = Faults::new();
        let log = audit(&faults, format!("Bearer {token}").try_into().expect("a header"));
        let (registry, checks) = (Registry::new("steersman"), Checks::new());
        let service = faults.wrap(api_service);
        let transport = Transport::from_service(service, "sandbox", "test", &env.clock, &registry);
        let transport = transport.expect("unregistered metrics");
        let options = Options::new("test");
        let mut manager =
            Manager::new(&env, &registry, &checks, transport.clone(), options).expect("a manager");
        let issuer = transport.unfenced("tokens", None);
        let accounts = ServiceAccounts::new(&env, issuer, transport.clone(), NAMESPACE);
        manager.use_service_accounts(accounts.clone());
        let deployed = |it: &Descriptor| it.enabled_by_default.then_some(EnabledBy::Name);
        registry::host(&mut manager, deployed, &Settings::default()).expect("hosted");
        drop(env.tasks.spawn(manager.run(CancellationToken::new())));
        Self {
            env,
            admin,
            transport,
            accounts,
            faults,
            log,
            checks,
            _tasks: tasks,
        }
    }

    async fn create(&self, resource: &Resource, body: &Value) -> Value {
        let created = self.admin.create(resource, "default", body.to_string().into());
        created.await.expect("created")
    }

    async fn count(&self, resource: &Resource) -> usize {
        let path = resource.collection("default");
        let list = self
            .admin
            .get_raw(&path, "application/json")
            .await
            .expect("a list");
        let list: Value = serde_json::from_slice(&list.body).expect("JSON");
        list["items"].as_array().map_or(0, Vec::len)
    }

    async fn until(&self, condition: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..600 {
            if holds().await {
                return;
            }
            self.env.clock.sleep(Duration::from_millis(100)).await;
        }
        let log = self.log.lock().expect("no panic");
        panic!(
            "timed out: {condition}; forbidden: {:#?}; {:#?}",
            log.forbidden, log.writes
        );
    }

    /// Waits until each owner of pods has this number of them, and has reported it.
    async fn has_replicas(&self, count: usize) {
        self.until("replicas", async || {
            let mut reported = true;
            for resource in [&DEPLOYMENTS, &APP_REPLICA_SETS, &CONTROLLERS] {
                let owner: Result<Value, _> = self.admin.get(resource, &Key::new("default", "shop")).await;
                reported &= owner.is_ok_and(|it| it["status"]["replicas"] == count);
            }
            reported && self.count(&PODS).await == 3 * count
        })
        .await;
    }

    /// Creates one owner of each kind, scales it down and deletes it.
    async fn run_workloads(&self) {
        let template = |app: &str| {
            json!({"metadata": {"labels": {"app": app}},
                   "spec": {"containers": [{"name": "main", "image": "nginx"}]}})
        };
        let selector = json!({"matchLabels": {"app": "own"}});
        let app = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppService",
            "metadata": {"name": "shop"},
            "spec": {"deploymentName": "shop", "replicas": 3, "image": "nginx", "ports": [{"port": 80}]}});
        let own = json!({"apiVersion": "appcontroller.k8s.io/v1alpha1", "kind": "AppReplicaSet",
            "metadata": {"name": "shop"},
            "spec": {"replicas": 3, "selector": selector, "template": template("own")}});
        let old = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "shop"},
            "spec": {"replicas": 3, "selector": {"app": "old"}, "template": template("old")}});
        let owners = [&APP_SERVICES, &APP_REPLICA_SETS, &CONTROLLERS];
        for (resource, body) in owners.into_iter().zip([app, own, old]) {
            self.create(resource, &body).await;
        }
        self.has_replicas(3).await;
        let key = Key::new("default", "shop");
        for resource in owners {
            let patch = Patch::merge(&json!({"spec": {"replicas": 1}}));
            let patched = self.admin.patch::<Value>(resource, &key, patch).await;
            patched.expect("patched");
        }
        self.has_replicas(1).await;
        let stray = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-1"}]);
        let stray = json!({"metadata": {"name": "stray", "ownerReferences": stray}});
        self.create(&MAPS, &stray).await;
        for resource in owners {
            let found: Value = self.admin.get(resource, &key).await.expect("an owner");
            let uid = found["metadata"]["uid"].as_str().expect("a uid");
            let delete = Delete::of(uid.into()).propagating(Propagation::Background);
            self.admin.delete(resource, &key, &delete).await.expect("deleted");
        }
        self.until("collected", async || {
            let left = (self.count(&PODS).await, self.count(&DEPLOYMENTS).await);
            let stray = Key::new("default", "stray");
            left == (0, 0) && self.admin.get::<Value>(&MAPS, &stray).await.is_err()
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_write_is_by_the_account_of_its_controller_and_none_is_forbidden() {
    let f = Fixture::start().await;
    let of_pods = |verb: &str, account: &'static str| {
        let is_sender = move |it: &RecordedRequest| it.user.ends_with(account);
        Matcher::verb(verb).resource("pods").when(is_sender)
    };
    let owners_of_pods = [
        "appreplicaset-controller",
        "replicaset-controller",
        "replication-controller",
    ];
    for account in owners_of_pods {
        f.faults.on(of_pods("create", account)).times(1).lose_request();
    }
    Box::pin(f.run_workloads()).await;
    for account in owners_of_pods {
        assert!(
            f.faults.count(&of_pods("get", account)) > 0,
            "{account} does not read the pod of the lost create"
        );
    }
    f.env.clock.sleep(Duration::from_mins(1)).await;
    let unhealthy = f.checks.run(Probes::HEALTHZ).into_iter();
    let unhealthy: Vec<_> = unhealthy
        .filter(|(_, health)| matches!(health, Health::Failed(_)))
        .collect();
    assert!(unhealthy.is_empty(), "{unhealthy:?}");
    let log = f.log.lock().expect("no panic");
    assert!(log.forbidden.is_empty(), "{:#?}", log.forbidden);
    let pods = ["DELETE pods", "POST pods"];
    let expected = [
        (OWN, vec!["POST serviceaccounts/token"]),
        (
            "appreplicaset-controller",
            [&pods[..], &["PATCH appreplicasets/status", "POST events"]].concat(),
        ),
        (
            "appservice-controller",
            vec![
                "PATCH appservices/status",
                "PATCH deployments",
                "POST deployments",
                "POST events",
                "POST services",
            ],
        ),
        (
            "deployment-controller",
            vec![
                "PATCH deployments/status",
                "PATCH replicasets",
                "POST events",
                "POST replicasets",
            ],
        ),
        (
            "generic-garbage-collector",
            vec![
                "DELETE configmaps",
                "DELETE deployments",
                "DELETE pods",
                "DELETE replicasets",
                "DELETE services",
            ],
        ),
        (
            "replicaset-controller",
            [&pods[..], &["PATCH replicasets/status", "POST events"]].concat(),
        ),
        (
            "replication-controller",
            [&pods[..], &["PATCH replicationcontrollers/status", "POST events"]].concat(),
        ),
    ];
    let expected: Writes = expected
        .into_iter()
        .map(|(account, writes)| {
            (
                account.to_owned(),
                writes.into_iter().map(str::to_owned).collect(),
            )
        })
        .collect();
    assert_eq!(log.writes, expected);
}

#[tokio::test(start_paused = true)]
async fn accounts_have_no_other_rights() {
    let f = Fixture::start().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let pod = f.create(&PODS, &pod).await;
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    let key = Key::new("default", "a");
    let delete = Delete::of(uid.into());
    let code = |error: Option<ClientError>| error.and_then(|error| error.code());
    let own = f.transport.unfenced("own", None);
    assert_eq!(code(own.delete(&PODS, &key, &delete).await.err()), Some(403));
    for other in ["appservice-controller", "deployment-controller"] {
        let account = f.accounts.account(other);
        let client = own.authenticated_as(Some(&account)).unfenced();
        let deleted = client.delete(&PODS, &key, &delete).await;
        assert_eq!(code(deleted.err()), Some(403), "{other}");
        // The caches belong to the manager's own account.
        let listed = client.get_raw("/api/v1/pods", "application/json").await;
        assert_eq!(code(listed.err()), Some(403), "{other}");
    }
    let other =
        ServiceAccounts::new(&f.env, own.clone(), f.transport.clone(), "kube-system").account("default");
    let client = own.authenticated_as(Some(&other));
    let error = client.get_raw("/api/v1/pods", "application/json").await;
    let error = error
        .map(drop)
        .expect_err("a token of another account")
        .to_string();
    assert!(error.contains("not allowed to request a token"), "{error}");
    let account = f.accounts.account("generic-garbage-collector");
    let deleted = own
        .authenticated_as(Some(&account))
        .unfenced()
        .delete(&PODS, &key, &delete)
        .await;
    deleted.expect("the garbage collector deletes anything");
}
