//! The lifecycle of the CRD: the controller waits for it, and continues when it is served.

use steersman_controllers::registry::{self, EnabledBy, Settings};
use steersman_manager::client::Delete;
use steersman_manager::health::{Checks, Health, Probes};
use steersman_manager::manager::{self, Manager};
use steersman_manager::object::Uid;

use super::*;

#[tokio::test(start_paused = true)]
async fn controller_waits_for_the_crd() {
    let f = sandbox_only();
    f.start_workload_controllers();
    f.start_controller();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    f.create_crd(&app_service::crd()).await;
    f.create(&APPS, &shop(&json!({}))).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST deployments"), 1, "without a delay");
    f.wait_ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn deleted_crd_stops_all_writes_and_may_be_created_again() {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({}))).await;
    f.create_ready(&app("kept", "kept", &json!({"deletionPolicy": "Orphan"})))
        .await;
    f.delete_crd().await;
    f.sleep(Duration::from_mins(5)).await;
    f.api.reset();
    // Its children may change.
    if f.exists(&DEPLOYMENTS, "web").await {
        f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    }
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        f.api.operations(),
        Vec::<String>::new(),
        "no writes for an absent AppService"
    );
    assert!(!f.exists(&DEPLOYMENTS, "web").await);
    assert!(f.exists(&DEPLOYMENTS, "kept").await);
    f.create_crd(&app_service::crd()).await;
    f.create(&APPS, &app("again", "again", &json!({}))).await;
    f.wait_ready("again").await;
}

#[tokio::test(start_paused = true)]
async fn cached_appservices_of_a_deleted_crd_are_ignored() {
    let f = with_shop().await;
    // The cache does not see the deletion.
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.delete_crd().await;
    f.sleep(Duration::from_mins(20)).await;
    f.api.reset();
    f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    assert!(f.names(&DEPLOYMENTS).await.is_empty());
}

/// The cache does not see the deletion of the CRD before the children are deleted.
#[tokio::test(start_paused = true)]
async fn unseen_crd_deletion_does_not_recreate_children_repeatedly() {
    let f = fixture().await;
    f.start_garbage_collector().await;
    f.create_ready(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.stall_watches(Some("/appservices"));
    f.api.reset();
    f.delete_crd().await;
    f.sleep(Duration::from_mins(2)).await;
    let counts = f.api.counts();
    for request in ["POST deployments", "POST services"] {
        assert!(f.api.count(request) <= 1, "{counts:?}");
    }
    f.api.reset();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    // A child that was made once is kept while its owner's kind is not served: its absence cannot be proven.
    assert!(f.names(&DEPLOYMENTS).await.len() <= 1);
    f.api.stall_watches(None);
    f.create_crd(&app_service::crd()).await;
    f.create_ready(&shop(&json!({}))).await;
}

/// The same for one `AppService` whose CRD stays.
#[tokio::test(start_paused = true)]
async fn unseen_deletion_does_not_recreate_children_repeatedly() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.start_garbage_collector().await;
        f.create_ready(&shop(&json!({"deletionPolicy": policy}))).await;
        f.sleep(Duration::from_secs(10)).await;
        let seen = f.sandbox.revision();
        f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
        f.api.reset();
        // Remove the finalizer by force.
        f.patch(&APPS, "shop", &json!({"metadata": {"finalizers": null}}))
            .await;
        f.delete(&APPS, "shop", Propagation::Background).await;
        if policy == "Orphan" {
            f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
        }
        f.sleep(Duration::from_mins(30)).await;
        let counts = f.api.counts();
        // A child without an ownerReference would never be collected.
        let most = usize::from(policy != "Orphan");
        assert!(f.api.count("POST deployments") <= most, "{policy} {counts:?}");
        assert!(f.names(&DEPLOYMENTS).await.is_empty(), "{policy} {counts:?}");
        // Live reads go on at a low rate until the cache shows the deletion.
        assert!(counts.values().sum::<usize>() < 200, "{policy} {counts:?}");
        f.api.lag().release();
        f.create_ready(&shop(&json!({"deletionPolicy": policy}))).await;
    }
}

/// A running manager with its health checks and metrics.
struct RunningManager {
    checks: Checks,
    registry: Registry,
}

impl RunningManager {
    /// Starts a manager with all controllers.
    fn start(f: &Fixture) -> Self {
        let (checks, registry) = (Checks::new(), Registry::new("steersman"));
        let options = manager::Options::new("steersman");
        let mut manager =
            Manager::new(&f.env, &registry, &checks, f.direct_transport(), options).expect("a manager");
        let settings = Settings {
            assume_no_kube_controller_manager: true,
            garbage_collector: None,
            ..Settings::default()
        };
        registry::host(&mut manager, |_| Some(EnabledBy::Name), &settings).expect("hosted");
        drop(f.env.tasks.spawn(manager.run(CancellationToken::new())));
        Self { checks, registry }
    }

    /// Returns the note of a waiting controller; `None` if it runs.
    fn waits_for(&self, name: &str) -> Option<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let line = format!("steersman_controller_waiting{{name=\"{name}\"}} ");
        let text = text.expect("metrics");
        let value = text
            .lines()
            .find_map(|it| it.strip_prefix(&line))
            .expect("a series");
        let checks = self.checks.run(Probes::HEALTHZ);
        let check = checks.into_iter().find(|(it, _)| it == name).expect("a check");
        match check.1 {
            Health::Ok => {
                assert_eq!(value, "0");
                None
            }
            Health::Note(note) => {
                assert_eq!(value, "1");
                Some(note)
            }
            Health::Failed(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn manager_reports_the_waiting_controller_and_runs_the_others() {
    let f = sandbox_only();
    let manager = RunningManager::start(&f);
    f.sleep(Duration::from_mins(1)).await;
    let waits = manager.waits_for("appservice-controller").expect("a note");
    assert!(
        waits.starts_with("waiting for appservices.appcontroller.k8s.io"),
        "{waits}"
    );
    assert_eq!(manager.waits_for("deployment-controller"), None);
    f.create(&DEPLOYMENTS, &foreign("theirs")).await;
    f.wait_until(async |f| f.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 1)
        .await;
    f.create_crd(&app_service::crd()).await;
    f.create_ready(&shop(&json!({}))).await;
    assert_eq!(manager.waits_for("appservice-controller"), None);
    f.delete_crd().await;
    f.wait_until(async |_| manager.waits_for("appservice-controller").is_some())
        .await;
    f.patch(&DEPLOYMENTS, "theirs", &json!({"spec": {"replicas": 2}}))
        .await;
    f.wait_until(async |f| f.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 2)
        .await;
    assert_eq!(manager.waits_for("deployment-controller"), None);
    f.create_crd(&app_service::crd()).await;
    f.create_ready(&app("again", "again", &json!({}))).await;
    assert_eq!(manager.waits_for("appservice-controller"), None);
}

impl Fixture {
    async fn delete_crd(&self) {
        let key = Key::cluster("appservices.appcontroller.k8s.io");
        let definition: Value = self.admin.get(&CRDS, &key).await.expect("a CRD");
        let uid = Uid::from(definition["metadata"]["uid"].as_str().expect("a uid"));
        self.admin
            .delete(&CRDS, &key, &Delete::of(uid))
            .await
            .expect("deleted");
    }
}
