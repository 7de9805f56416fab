//! A kind that is not there: the controller waits for it, and goes on when it comes.

use coxswain_controllers::registry::{self, EnabledBy, Settings};
use coxswain_manager::cache::Scope;
use coxswain_manager::client::Delete;
use coxswain_manager::manager::{self, Manager};
use coxswain_manager::object::Uid;
use coxswain_manager::serve::{Checks, Health, Probes};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_late_is_waited_for() {
    let f = bare();
    f.workloads();
    f.apps();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    f.define(&app_service::crd()).await;
    f.create(&APPS, &shop(&json!({}))).await;
    f.sleep(Duration::from_secs(1)).await;
    assert_eq!(f.api.count("POST deployments"), 1, "at once");
    f.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_takes_nothing_with_it_that_is_not_its_own_and_may_come_back() {
    let f = fixture().await;
    f.collect().await;
    f.serve(&shop(&json!({}))).await;
    f.serve(&app("kept", "kept", &json!({"deletionPolicy": "Orphan"})))
        .await;
    f.undefine().await;
    f.sleep(Duration::from_mins(5)).await;
    f.api.reset();
    // Whatever happens to what is left of it.
    if f.exists(&DEPLOYMENTS, "web").await {
        f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    }
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        f.api.operations(),
        Vec::<String>::new(),
        "nothing is made for what is gone"
    );
    assert!(!f.exists(&DEPLOYMENTS, "web").await);
    assert!(f.exists(&DEPLOYMENTS, "kept").await);
    f.define(&app_service::crd()).await;
    f.create(&APPS, &app("again", "again", &json!({}))).await;
    f.ready("again").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_kind_that_is_gone_has_left_in_the_cache_is_nobody() {
    let f = fixture().await;
    f.serve(&shop(&json!({}))).await;
    // Its end is not seen.
    let seen = f.sandbox.revision();
    f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    f.undefine().await;
    f.sleep(Duration::from_mins(20)).await;
    f.api.reset();
    f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    assert!(f.names(&DEPLOYMENTS).await.is_empty());
}

/// Its end is not seen, and the children go before anybody has noticed.
#[tokio::test(start_paused = true)]
async fn for_what_is_left_of_a_kind_that_went_unseen_nothing_is_made_again_and_again() {
    let f = fixture().await;
    f.collect().await;
    f.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.stall_watches(Some("/appservices"));
    f.api.reset();
    f.undefine().await;
    f.sleep(Duration::from_mins(2)).await;
    let made = f.api.counts();
    for what in ["POST deployments", "POST services"] {
        assert!(f.api.count(what) <= 1, "{made:?}");
    }
    f.api.reset();
    f.sleep(Duration::from_mins(30)).await;
    assert_eq!(f.api.operations(), Vec::<String>::new());
    // A child that was made once is kept while its owner's kind is not served: its absence cannot be proven.
    assert!(f.names(&DEPLOYMENTS).await.len() <= 1);
    f.api.stall_watches(None);
    f.define(&app_service::crd()).await;
    f.serve(&shop(&json!({}))).await;
}

/// The same with one `AppService`, of a kind that stays.
#[tokio::test(start_paused = true)]
async fn for_one_that_went_unseen_nothing_is_made_again_and_again() {
    for policy in ["Delete", "Orphan"] {
        let f = fixture().await;
        f.collect().await;
        f.serve(&shop(&json!({"deletionPolicy": policy}))).await;
        f.sleep(Duration::from_secs(10)).await;
        let seen = f.sandbox.revision();
        f.api.lag().hold_at("appservices.appcontroller.k8s.io", seen);
        f.api.reset();
        // By force, if need be.
        f.patch(&APPS, "shop", &json!({"metadata": {"finalizers": null}}))
            .await;
        f.delete(&APPS, "shop", Propagation::Background).await;
        if policy == "Orphan" {
            f.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
        }
        f.sleep(Duration::from_mins(30)).await;
        let counts = f.api.counts();
        // What refers to nobody would stay for ever.
        let most = usize::from(policy != "Orphan");
        assert!(f.api.count("POST deployments") <= most, "{policy} {counts:?}");
        assert!(f.names(&DEPLOYMENTS).await.is_empty(), "{policy} {counts:?}");
        // It is asked about from time to time, until the cache shows what has happened.
        assert!(counts.values().sum::<usize>() < 200, "{policy} {counts:?}");
        f.api.lag().release();
        f.serve(&shop(&json!({"deletionPolicy": policy}))).await;
    }
}

/// What a manager says of itself, by controller.
struct Manned {
    checks: Checks,
    registry: Registry,
}

impl Manned {
    /// A manager that hosts all that it takes.
    fn start(f: &Fixture) -> Self {
        let (checks, registry) = (Checks::new(), Registry::new());
        let options = manager::Options {
            name: "coxswain",
            limit: None,
            scope: Scope::default(),
            start_interval: Duration::ZERO,
            shutdown_timeout: None,
        };
        let mut manager =
            Manager::new(&f.env, &registry, &checks, f.direct_transport(), options).expect("a manager");
        let settings = Settings {
            instance: "test".to_owned(),
            assume_no_kube_controller_manager: true,
            garbage_collector: None,
            ..Settings::default()
        };
        registry::host(&mut manager, |_| Some(EnabledBy::Name), &settings).expect("hosted");
        drop(f.env.tasks.spawn(manager.run(None, CancellationToken::new())));
        Self { checks, registry }
    }

    /// What a controller waits for; none if it works.
    fn waits(&self, name: &str) -> Option<String> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather());
        let line = format!("coxswain_controller_waiting{{name=\"{name}\"}} ");
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
            Health::Failed(why) => panic!("{why}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_says_who_waits_and_the_others_work() {
    let f = bare();
    let manned = Manned::start(&f);
    f.sleep(Duration::from_mins(1)).await;
    let waits = manned.waits("appservice-controller").expect("it waits");
    assert!(
        waits.starts_with("waits for appservices.appcontroller.k8s.io"),
        "{waits}"
    );
    assert_eq!(manned.waits("deployment-controller"), None);
    f.create(&DEPLOYMENTS, &foreign("theirs")).await;
    f.until(async |f| f.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 1)
        .await;
    f.define(&app_service::crd()).await;
    f.serve(&shop(&json!({}))).await;
    assert_eq!(manned.waits("appservice-controller"), None);
    f.undefine().await;
    f.until(async |_| manned.waits("appservice-controller").is_some())
        .await;
    f.patch(&DEPLOYMENTS, "theirs", &json!({"spec": {"replicas": 2}}))
        .await;
    f.until(async |f| f.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 2)
        .await;
    assert_eq!(manned.waits("deployment-controller"), None);
    f.define(&app_service::crd()).await;
    f.serve(&app("again", "again", &json!({}))).await;
    assert_eq!(manned.waits("appservice-controller"), None);
}

impl Fixture {
    /// Has the kind no longer served.
    async fn undefine(&self) {
        let key = Key::cluster("appservices.appcontroller.k8s.io");
        let definition: Value = self.admin.get(&DEFINITIONS, &key).await.expect("it is there");
        let uid = Uid::from(definition["metadata"]["uid"].as_str().expect("a uid"));
        self.admin
            .delete(&DEFINITIONS, &key, &Delete::of(uid))
            .await
            .expect("deleted");
    }
}
