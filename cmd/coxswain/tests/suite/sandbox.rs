//! `coxswain --sandbox`: the quick start.

use std::path::PathBuf;
use std::time::Duration;

use coxswain_tests::{Api, Program, endpoint, fixtures, time};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::PROGRAM;

/// The series of a work queue, as they begin on a page of metrics.
const OF_A_QUEUE: [&str; 7] = [
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds_count",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds_count",
];

/// Starts it, and waits for the greeting.
pub async fn start(arguments: &[&str]) -> Program {
    let arguments = [&["--sandbox"], arguments].concat();
    let program = Program::start(PROGRAM, &arguments).await;
    let greeted = time::eventually(time::ANSWER, async || {
        program.stdout().contains("kubectl delete").then_some(())
    });
    assert!(greeted.await.is_some(), "no greeting: {}", program.stdout());
    program
}

/// Waits until it leads and its controller runs.
pub async fn works(program: &Program) {
    let works = time::eventually(time::ANSWER, async || {
        let runs = "running_managed_controllers{manager=\"coxswain\",name=\"hollow-kubelet\"}";
        (program.leads("coxswain").await && program.metric(runs).await == Some(1.0)).then_some(())
    });
    assert!(works.await.is_some(), "it does not work:\n{}", program.log());
}

/// What stands behind a word of the greeting.
pub fn greeting_says(greeting: &str, word: &str) -> String {
    let said = greeting.lines().find_map(|line| line.strip_prefix(word));
    said.unwrap_or_else(|| panic!("no {word:?} in the greeting: {greeting}"))
        .trim()
        .to_owned()
}

/// The API server, as its kubeconfig says.
pub async fn api(program: &Program) -> Api {
    let kubeconfig = PathBuf::from(greeting_says(&program.stdout(), "Kubeconfig:"));
    Api::new(endpoint::client(&kubeconfig).await.expect("a client"))
}

/// Waits until a pod is as wanted.
pub async fn becomes(api: &Api, pod: &str, wanted: impl Fn(&Value) -> bool) {
    let path = format!("/api/v1/namespaces/default/pods/{pod}");
    let became = time::eventually(time::ANSWER, async || {
        let reply = api.get(&path).await;
        (reply.status == 200 && wanted(&reply.json())).then_some(())
    });
    assert!(became.await.is_some(), "{}", api.get(&path).await);
}

/// Whether a pod runs, and is ready.
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
async fn greets_with_all_that_is_needed() {
    let program = start(&[]).await;
    let greeting = program.stdout();
    assert!(greeting_says(&greeting, "API server:").starts_with("https://127.0.0.1:"));
    assert_eq!(
        greeting_says(&greeting, "Controllers:"),
        "appreplicaset-controller, appservice-controller, deployment-controller, garbage-collector-controller, hollow-kubelet, replicaset-controller, replicationcontroller-controller"
    );
    let kubeconfig = greeting_says(&greeting, "Kubeconfig:");
    assert_eq!(program.temporary_files(), [PathBuf::from(&kubeconfig)]);
    let base = format!("https://{}", program.address());
    let endpoints = greeting_says(&greeting, "Endpoints:");
    assert_eq!(
        endpoints,
        format!("{base}/healthz?verbose  {base}/metrics  (curl -k)")
    );
    for tried in [
        format!("export KUBECONFIG={kubeconfig}\n"),
        "kubectl scale appservice/hello --replicas=".to_owned(),
    ] {
        assert!(greeting.contains(&tried), "{greeting}");
    }
}

#[tokio::test]
async fn pods_come_alive_and_go() {
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
async fn replicas_come_alive_are_scaled_and_come_back() {
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
async fn its_endpoints_show_the_controller_and_its_queue() {
    let program = start(&[]).await;
    works(&program).await;
    let health = program.endpoints().get("/healthz?verbose").await;
    assert_eq!(health.status, 200, "{health}");
    for check in ["ping", "caches", "leaderElection", "hollow-kubelet"] {
        assert!(health.text().contains(&format!("[+]{check} ok\n")), "{health}");
    }
    let metrics = program.endpoints().get("/metrics").await.text();
    for series in OF_A_QUEUE {
        let of_ours = |line: &str| line.starts_with(series) && line.contains("name=\"hollow-kubelet\"");
        assert!(metrics.lines().any(of_ours), "no {series} in {metrics}");
    }
    assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
}

#[tokio::test]
async fn an_open_watch_does_not_hold_up_the_end() {
    let program = start(&[]).await;
    let api = api(&program).await;
    let _watch = api.watch("/api/v1/pods?watch=1").await;
    program.signal(Signal::TERM);
    let ended = program.ends_within(Duration::from_mins(1)).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn a_deployment_comes_alive_and_is_rolled_out() {
    let program = start(&[]).await;
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
}
