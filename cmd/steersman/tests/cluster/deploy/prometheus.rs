//! A real Prometheus scrapes two replicas as the `ServiceMonitor` says, answers the queries of all dashboards, and evaluates the
//! alerts.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use steersman_harness::roles::NAMESPACE;
use steersman_harness::{Api, Cluster, certs, dashboards, fixtures, program, time, tools};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::instances::Instances;
use super::{NO_KCM, deploy, manifests, monitoring, own_cluster};

/// The folder of the serving certificate in the pod.
const TLS: &str = "/etc/steersman/tls";
/// Between choosing a free port and listening on it, another process can take it.
const ATTEMPTS_MAX: usize = 3;
/// Variables of dashboards. Prometheus scrapes every second.
const VARIABLES: [(&str, &str); 6] = [
    ("$__rate_interval", "1m"),
    ("$__range", "1h"),
    ("$cluster", ".*"),
    ("$namespace", NAMESPACE),
    ("$instance", ".*"),
    ("$job", "steersman"),
];
/// Alerts that are inactive while both replicas run.
const INACTIVE: [&str; 4] = [
    "SteersmanDown",
    "SteersmanReplicaDown",
    "SteersmanNoLeader",
    "SteersmanTwoLeaders",
];

pub async fn prometheus_scrapes_both_replicas_and_answers_all_dashboards(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    monitoring::create_crds(c).await;
    let mut deployed = deploy(&own, "base", &["monitoring"]).await;
    let monitor = format!(
        "{}/steersman",
        fixtures::group(monitoring::VERSION, NAMESPACE, "servicemonitors")
    );
    let monitor = c.api().get(&monitor).await.expect(200);

    let files = tempfile::tempdir().expect("a folder");
    let name = { monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"].as_str() }.expect("a name");
    let pair = certs::generate_for(&[name]).expect("a certificate");
    for (file, text) in [("ca.crt", pair.ca), ("tls.crt", pair.cert), ("tls.key", pair.key)] {
        fs::write(files.path().join(file), text).expect("a file");
    }
    let folder = files.path().to_str().expect("a path in UTF-8");
    for argument in &mut deployed.arguments {
        *argument = argument.replace(TLS, folder);
    }
    deployed.arguments.push(NO_KCM.to_owned());
    let mut instances = Instances::new();
    for _ in 0..2 {
        instances.start(&own, &deployed).await;
    }
    let targets: Vec<SocketAddr> = { instances.programs().iter() }
        .map(steersman_harness::Program::address)
        .collect();
    let prometheus = Prometheus::start(&configuration(c, &monitor, &targets, files.path()).await).await;

    let paths = monitor["spec"]["endpoints"].as_array().expect("endpoints").len();
    for (query, expected) in [
        ("count(up{job=\"steersman\"} == 1)", paths * targets.len()),
        ("count(leader_election_master_status)", targets.len()),
        ("sum(leader_election_master_status)", 1),
        ("count(count by (instance) (kubernetes_healthcheck))", 2),
    ] {
        let expected = expected.to_string();
        prometheus
            .until(query, |result| result[0]["value"][1] == *expected)
            .await;
    }
    // The caches of the standby are warm.
    let warm = "steersman_cache_objects > 0 and on (instance) (leader_election_master_status == 0)";
    prometheus.until(warm, |result| result[0].is_object()).await;

    let queries = dashboard_queries();
    assert!(queries.len() > 40, "{queries:?}");
    for query in queries {
        if may_be_empty(&query) {
            prometheus.query(&query).await;
        } else {
            prometheus.until(&query, |result| result[0].is_object()).await;
        }
    }
    prometheus.alerts_are_evaluated().await;
    assert_eq!(instances.forbidden().await, "");
    drop(prometheus);
    instances.stop().await;
}

/// Reports whether a query has no result in a cluster without errors: it selects by value, or its metric has a series only for
/// resources that are not synced.
fn may_be_empty(query: &str) -> bool {
    query.ends_with("> 0") || query.ends_with("== 1") || query.contains("(steersman_garbage_collector_un")
}

/// Returns the configuration that the Prometheus Operator derives from the `ServiceMonitor`, with shorter intervals.
async fn configuration(c: &Cluster, monitor: &Value, targets: &[SocketAddr], files: &Path) -> Value {
    let service = c
        .api()
        .get(&format!("{}/steersman", fixtures::core(NAMESPACE, "services")))
        .await
        .expect(200);
    let label = monitor["spec"]["jobLabel"].as_str().expect("a label");
    let labels = json!({"job": service["metadata"]["labels"][label], "namespace": NAMESPACE});
    let mut jobs = Vec::new();
    for endpoint in monitor["spec"]["endpoints"].as_array().expect("endpoints") {
        let tls = &endpoint["tlsConfig"];
        let ca = tls["ca"]["secret"]["key"].as_str().expect("a key");
        let secret = endpoint["authorization"]["credentials"]["name"]
            .as_str()
            .expect("a Secret");
        let token = files.join("token");
        fs::write(&token, token_of(c, secret).await).expect("a file");
        let relabelings = endpoint["relabelings"].as_array().into_iter().flatten();
        let relabelings = relabelings
            .map(|it| json!({"source_labels": it["sourceLabels"], "target_label": it["targetLabel"]}));
        jobs.push(json!({
            "job_name": endpoint["path"], "metrics_path": endpoint["path"], "scheme": endpoint["scheme"],
            "authorization": {"credentials_file": token},
            "tls_config": {"ca_file": files.join(ca), "server_name": tls["serverName"]},
            "static_configs": [{"targets": targets, "labels": labels}],
            "relabel_configs": relabelings.collect::<Vec<_>>(),
        }));
    }
    let rules = manifests::root().join("chart/files/monitoring/alerts.yaml");
    let rules = rules.canonicalize().expect("a file");
    json!({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [rules], "scrape_configs": jobs,
    })
}

/// Returns a token of the service account of a Secret. Not all test clusters write one to the Secret.
async fn token_of(c: &Cluster, secret: &str) -> String {
    let secret = format!("{}/{secret}", fixtures::core(NAMESPACE, "secrets"));
    let secret = c.api().get(&secret).await.expect(200);
    let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
    let account = account.as_str().expect("a service account");
    c.token(NAMESPACE, account).await
}

/// Returns the queries of all dashboards, with values of the variables. A query of a variable is replaced by its selector.
fn dashboard_queries() -> Vec<String> {
    let mut all = dashboards::queries();
    for query in &mut all {
        if let Some(arguments) = query.strip_prefix("label_values(") {
            let (selector, _) = arguments.rsplit_once(", ").expect("a selector and a label");
            *query = selector.to_owned();
        }
        for (variable, value) in VARIABLES {
            *query = query.replace(variable, value);
        }
        assert!(!query.contains('$'), "{query}");
    }
    all
}

/// A Prometheus on a loopback port. Dropping it kills it.
struct Prometheus {
    api: Api,
    files: TempDir,
    _child: Child,
}

impl Prometheus {
    /// Starts the program, and waits until it is ready.
    async fn start(configuration: &Value) -> Self {
        let program = tools::path("PROMETHEUS");
        for _ in 0..ATTEMPTS_MAX {
            let files = tempfile::tempdir().expect("a folder");
            let file = |name: &str| files.path().join(name);
            fs::write(file("prometheus.yml"), configuration.to_string()).expect("a file");
            let address = program::free_address();
            let log = fs::File::create(file("log")).expect("a file");
            let mut child = Command::new(&program)
                .arg(format!("--config.file={}", file("prometheus.yml").display()))
                .arg(format!("--storage.tsdb.path={}", file("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .kill_on_drop(true)
                .spawn()
                .expect("Prometheus starts");
            let url = format!("http://{address}").parse().expect("a URL");
            let api = Api::new(kube::Client::try_from(kube::Config::new(url)).expect("a client"));
            let ready = time::eventually(time::ANSWER, async || {
                if child.try_wait().expect("a child can be waited for").is_some() {
                    return Some(false);
                }
                let ready = api.try_request(http::Method::GET, "/-/ready", &[], ()).await;
                ready.is_ok_and(|it| it.status == 200).then_some(true)
            });
            let ready = ready.await;
            let this = Self {
                files,
                api,
                _child: child,
            };
            match ready {
                Some(true) => return this,
                Some(false) if this.log().contains("address already in use") => {}
                _ => panic!("Prometheus does not start:\n{}", this.log()),
            }
        }
        panic!("found no free port");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.files.path().join("log")).unwrap_or_default()
    }

    /// Returns the result of a query, which must not be an error.
    async fn query(&self, query: &str) -> Value {
        let encoded = query
            .bytes()
            .fold(String::new(), |text, it| format!("{text}%{it:02X}"));
        let reply = self.api.get(&format!("/api/v1/query?query={encoded}")).await;
        assert_eq!(reply.status, 200, "{query}: {reply}");
        reply.json()["data"]["result"].take()
    }

    /// Waits until the result of a query fulfils a condition.
    async fn until(&self, query: &str, holds: impl Fn(&Value) -> bool) {
        let held = time::eventually(time::ANSWER, async || {
            holds(&self.query(query).await).then_some(())
        });
        assert!(
            held.await.is_some(),
            "{query}: {}\n{}",
            self.query(query).await,
            self.log()
        );
    }

    /// Waits until all alerts are evaluated, without an error, and those in [`INACTIVE`] do not fire.
    async fn alerts_are_evaluated(&self) {
        let rules = async || {
            let groups = self.api.get("/api/v1/rules").await.expect(200)["data"]["groups"].take();
            let groups = groups.as_array().expect("groups").clone();
            let rules = groups.iter().filter_map(|it| it["rules"].as_array().cloned());
            rules.flatten().collect::<Vec<Value>>()
        };
        let is_inactive = |it: &Value| {
            let listed = INACTIVE.iter().any(|name| it["name"] == *name);
            !listed || it["state"] == "inactive"
        };
        let evaluated = time::eventually(time::ANSWER, async || {
            let rules = rules().await;
            for it in &rules {
                assert_ne!(it["health"], "err", "{it}");
            }
            let is_evaluated = |it: &Value| it["health"] == "ok" && is_inactive(it);
            rules.iter().all(is_evaluated).then_some(rules)
        });
        let Some(evaluated) = evaluated.await else {
            panic!("an alert is not evaluated, or fires: {:#?}", rules().await);
        };
        for name in INACTIVE {
            assert!(
                evaluated.iter().any(|it| it["name"] == name),
                "{name} is not loaded"
            );
        }
    }
}
