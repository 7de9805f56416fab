//! `steersman --sandbox`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use steersman_harness::{Api, Program, endpoint, fixtures, time};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::PROGRAM;

const QUEUE_METRICS: [&str; 7] = [
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds_count",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds_count",
];

/// Starts the sandbox and waits until it has printed its summary.
pub async fn start(arguments: &[&str]) -> Program {
    let arguments = [&["--sandbox"], arguments].concat();
    summarized(Program::start(PROGRAM, &arguments).await).await
}

/// Starts the sandbox with an environment variable and waits until it has printed its summary.
pub async fn start_with_variable(variable: &str) -> Program {
    summarized(Program::start("env", &[variable, PROGRAM, "--sandbox"]).await).await
}

async fn summarized(program: Program) -> Program {
    let printed = time::eventually(time::ANSWER, async || {
        program.stdout().contains("kubectl delete").then_some(())
    });
    assert!(printed.await.is_some(), "no summary: {}", program.stdout());
    program
}

/// Waits until the process is the leader and its controllers run.
pub async fn leads(program: &Program) {
    let leads = time::eventually(time::ANSWER, async || {
        let runs = "running_managed_controllers{manager=\"steersman\",name=\"hollow-kubelet\"}";
        (program.leads("steersman").await && program.metric(runs).await == Some(1.0)).then_some(())
    });
    assert!(leads.await.is_some(), "not the leader:\n{}", program.log());
}

/// Returns the value of a line of the summary.
pub fn summary_value(summary: &str, label: &str) -> String {
    let value = summary.lines().find_map(|line| line.strip_prefix(label));
    value
        .unwrap_or_else(|| panic!("no {label:?} in the summary: {summary}"))
        .trim()
        .to_owned()
}

/// A client of the sandbox's API server.
pub async fn api(program: &Program) -> Api {
    let kubeconfig = PathBuf::from(summary_value(&program.stdout(), "Kubeconfig:"));
    Api::new(endpoint::client(&kubeconfig).await.expect("a client"))
}

/// Waits until a pod matches `wanted`.
pub async fn becomes(api: &Api, pod: &str, wanted: impl Fn(&Value) -> bool) {
    let path = format!("/api/v1/namespaces/default/pods/{pod}");
    let became = time::eventually(time::ANSWER, async || {
        let reply = api.get(&path).await;
        (reply.status == 200 && wanted(&reply.json())).then_some(())
    });
    assert!(became.await.is_some(), "{}", api.get(&path).await);
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|it| it["type"] == "Ready");
    pod["status"]["phase"] == "Running" && ready.any(|it| it["status"] == "True")
}

fn pod(name: &str, image: &str) -> Value {
    let container = json!({"name": "c", "image": image});
    fixtures::with(fixtures::pod(name), json!({"spec": {"containers": [container]}}))
}

#[tokio::test]
async fn summary_shows_addresses_controllers_and_commands() {
    let program = start(&[]).await;
    let summary = program.stdout();
    assert!(summary_value(&summary, "API server:").starts_with("https://127.0.0.1:"));
    assert_eq!(
        summary_value(&summary, "Controllers:"),
        "appreplicaset-controller, appservice-controller, deployment-controller, garbage-collector-controller, hollow-kubelet, replicaset-controller, replicationcontroller-controller"
    );
    let kubeconfig = summary_value(&summary, "Kubeconfig:");
    assert_eq!(program.temporary_files(), [PathBuf::from(&kubeconfig)]);
    let base = format!("https://{}", program.address());
    assert_eq!(summary_value(&summary, "Status page:"), format!("{base}/"));
    let endpoints = summary_value(&summary, "Endpoints:");
    assert_eq!(
        endpoints,
        format!("{base}/healthz?verbose  {base}/metrics  (curl -k)")
    );
    for tried in [
        format!("export KUBECONFIG={kubeconfig}\n"),
        "kubectl scale appservice/hello --replicas=".to_owned(),
    ] {
        assert!(summary.contains(&tried), "{summary}");
    }
}

#[tokio::test]
async fn second_sandbox_starts_beside_the_first() {
    let files = tempfile::tempdir().expect("a directory");
    let mut addresses = BTreeSet::new();
    let mut running = Vec::new();
    for _ in 0..2 {
        let mut child = Command::new(PROGRAM)
            .arg("--sandbox")
            .env("TMPDIR", files.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        for label in ["API server:", "Status page:"] {
            let printed = time::within(time::ANSWER, async {
                loop {
                    let line = lines.next_line().await.expect("text").expect("the summary");
                    if let Some(address) = line.strip_prefix(label) {
                        return address.trim().trim_end_matches('/').to_owned();
                    }
                }
            });
            addresses.insert(printed.await.expect("a line of the summary"));
        }
        running.push((child, lines));
    }
    assert_eq!(addresses.len(), 4, "{addresses:?}");
    for (child, _) in &mut running {
        assert!(child.try_wait().expect("a child").is_none(), "both run");
    }
}

#[tokio::test]
async fn pods_become_ready_and_are_deleted() {
    let program = start(&[]).await;
    let api = api(&program).await;
    let pods = fixtures::core("default", "pods");
    api.post(&pods, pod("web", "nginx")).await.expect(201);
    api.post(&pods, pod("lost", "nginx:404")).await.expect(201);
    becomes(&api, "web", is_ready).await;
    becomes(&api, "lost", |pod| {
        pod["status"]["phase"] == "Pending"
            && pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    })
    .await;
    let gone = api.delete(&format!("{pods}/web"), ()).await;
    assert!(gone.status < 300, "{gone}");
    let gone = time::eventually(time::ANSWER, async || {
        (api.get(&format!("{pods}/web")).await.status == 404).then_some(())
    });
    assert!(gone.await.is_some(), "{}", api.get(&format!("{pods}/web")).await);
}

#[tokio::test]
async fn replicas_become_ready_scale_and_are_replaced() {
    let program = start(&[]).await;
    let api = api(&program).await;
    let pods = fixtures::core("default", "pods");
    for (sets, set) in [
        (
            fixtures::apps("default", "replicasets"),
            fixtures::replica_set("web"),
        ),
        (
            fixtures::core("default", "replicationcontrollers"),
            fixtures::replication_controller("old"),
        ),
    ] {
        let name = set["metadata"]["name"].as_str().expect("a name").to_owned();
        let set = fixtures::with(set, json!({"spec": {"replicas": 20}}));
        api.post(&sets, set).await.expect(201);
        let path = format!("{sets}/{name}");
        let ready = async |count: i64| {
            let is_so = time::eventually(time::ANSWER, async || {
                let status = &api.get(&path).await.json()["status"];
                (status["replicas"] == count && status["readyReplicas"].as_i64().unwrap_or(0) == count)
                    .then_some(())
            });
            assert!(
                is_so.await.is_some(),
                "{}\n{}",
                api.get(&path).await,
                program.log()
            );
        };
        ready(20).await;
        let one = api.get(&pods).await.json()["items"][0]["metadata"]["name"].clone();
        let gone = api
            .delete(&format!("{pods}/{}", one.as_str().expect("a name")), ())
            .await;
        assert!(gone.status < 300, "{gone}");
        api.patch(
            &path,
            "application/merge-patch+json",
            json!({"spec": {"replicas": 7}}),
        )
        .await
        .expect(200);
        ready(7).await;
        api.patch(
            &path,
            "application/merge-patch+json",
            json!({"spec": {"replicas": 0}}),
        )
        .await
        .expect(200);
        ready(0).await;
    }
}

#[tokio::test]
async fn endpoints_report_the_controller_and_its_queue() {
    let program = start(&[]).await;
    leads(&program).await;
    let health = program.endpoints().get("/healthz?verbose").await;
    assert_eq!(health.status, 200, "{health}");
    for check in ["ping", "caches", "leaderElection", "hollow-kubelet"] {
        assert!(health.text().contains(&format!("[+]{check} ok\n")), "{health}");
    }
    let metrics = program.endpoints().get("/metrics").await.text();
    for series in QUEUE_METRICS {
        let of_ours = |line: &str| line.starts_with(series) && line.contains("name=\"hollow-kubelet\"");
        assert!(metrics.lines().any(of_ours), "no {series} in {metrics}");
    }
    assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
}

#[tokio::test]
async fn open_watch_does_not_block_shutdown() {
    let program = start(&[]).await;
    let api = api(&program).await;
    let _watch = api.watch("/api/v1/pods?watch=1").await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(Duration::from_mins(1)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn deployment_is_rolled_out_by_controllers_with_service_accounts() {
    let program = start(&["--use-service-account-credentials"]).await;
    let api = api(&program).await;
    let deployments = fixtures::apps("default", "deployments");
    let path = format!("{deployments}/web");
    let done = async |revision: &str| {
        let is_so = time::eventually(time::ANSWER, async || {
            let it = api.get(&path).await.json();
            let all = ["replicas", "updatedReplicas", "availableReplicas"].map(|field| &it["status"][field]);
            let seen = it["status"]["observedGeneration"] == it["metadata"]["generation"];
            let annotations = &it["metadata"]["annotations"];
            (seen && all == [4; 3] && annotations["deployment.kubernetes.io/revision"] == revision)
                .then_some(())
        });
        assert!(
            is_so.await.is_some(),
            "{}\n{}",
            api.get(&path).await,
            program.log()
        );
    };
    let deployment = fixtures::with(fixtures::deployment("web"), json!({"spec": {"replicas": 4}}));
    api.post(&deployments, deployment).await.expect(201);
    done("1").await;
    let annotated = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    api.patch(&path, "application/merge-patch+json", annotated)
        .await
        .expect(200);
    done("2").await;
    // In the default namespace of the Lease.
    let accounts = fixtures::core("kube-system", "serviceaccounts");
    for account in ["deployment-controller", "replicaset-controller"] {
        api.get(&format!("{accounts}/{account}")).await.expect(200);
    }
}
