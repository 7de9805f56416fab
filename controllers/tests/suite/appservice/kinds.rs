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
    let bed = bare();
    bed.workloads();
    bed.apps();
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.door.order(), Vec::<String>::new());
    bed.define(&app_service::crd()).await;
    bed.create(&APPS, &shop(&json!({}))).await;
    bed.sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.door.count("POST deployments"), 1, "at once");
    bed.ready("shop").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_takes_nothing_with_it_that_is_not_its_own_and_may_come_back() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({}))).await;
    bed.serve(&app("kept", "kept", &json!({"deletionPolicy": "Orphan"})))
        .await;
    bed.undefine().await;
    bed.sleep(Duration::from_mins(5)).await;
    bed.door.reset();
    // Whatever happens to what is left of it.
    if bed.exists(&DEPLOYMENTS, "web").await {
        bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    }
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(
        bed.door.order(),
        Vec::<String>::new(),
        "nothing is made for what is gone"
    );
    assert!(!bed.exists(&DEPLOYMENTS, "web").await);
    assert!(bed.exists(&DEPLOYMENTS, "kept").await);
    bed.define(&app_service::crd()).await;
    bed.create(&APPS, &app("again", "again", &json!({}))).await;
    bed.ready("again").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_kind_that_is_gone_has_left_in_the_cache_is_nobody() {
    let bed = bed().await;
    bed.serve(&shop(&json!({}))).await;
    // Its end is not seen.
    let seen = bed.sandbox.revision();
    bed.door.lag().hold_at("appservices.appcontroller.k8s.io", seen);
    bed.undefine().await;
    bed.sleep(Duration::from_mins(20)).await;
    bed.door.reset();
    bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.door.order(), Vec::<String>::new());
    assert!(bed.names(&DEPLOYMENTS).await.is_empty());
}

/// Its end is not seen, and the children go before anybody has noticed.
#[tokio::test(start_paused = true)]
async fn for_what_is_left_of_a_kind_that_went_unseen_nothing_is_made_again_and_again() {
    let bed = bed().await;
    bed.collect().await;
    bed.serve(&shop(&json!({"ports": [{"port": 80}]}))).await;
    bed.sleep(Duration::from_secs(10)).await;
    bed.door.silence(Some("/appservices"));
    bed.door.reset();
    bed.undefine().await;
    bed.sleep(Duration::from_mins(2)).await;
    let made = bed.door.counts();
    for what in ["POST deployments", "POST services"] {
        assert!(bed.door.count(what) <= 1, "{made:?}");
    }
    bed.door.reset();
    bed.sleep(Duration::from_mins(30)).await;
    assert_eq!(bed.door.order(), Vec::<String>::new());
    // A child that was made once is kept while its owner's kind is not served: its absence cannot be proven.
    assert!(bed.names(&DEPLOYMENTS).await.len() <= 1);
    bed.door.silence(None);
    bed.define(&app_service::crd()).await;
    bed.serve(&shop(&json!({}))).await;
}

/// The same with one `AppService`, of a kind that stays.
#[tokio::test(start_paused = true)]
async fn for_one_that_went_unseen_nothing_is_made_again_and_again() {
    for policy in ["Delete", "Orphan"] {
        let bed = bed().await;
        bed.collect().await;
        bed.serve(&shop(&json!({"deletionPolicy": policy}))).await;
        bed.sleep(Duration::from_secs(10)).await;
        let seen = bed.sandbox.revision();
        bed.door.lag().hold_at("appservices.appcontroller.k8s.io", seen);
        bed.door.reset();
        // By force, if need be.
        bed.patch(&APPS, "shop", &json!({"metadata": {"finalizers": null}}))
            .await;
        bed.delete(&APPS, "shop", Propagation::Background).await;
        if policy == "Orphan" {
            bed.delete(&DEPLOYMENTS, "web", Propagation::Background).await;
        }
        bed.sleep(Duration::from_mins(30)).await;
        let counts = bed.door.counts();
        // What refers to nobody would stay for ever.
        let most = usize::from(policy != "Orphan");
        assert!(bed.door.count("POST deployments") <= most, "{policy} {counts:?}");
        assert!(bed.names(&DEPLOYMENTS).await.is_empty(), "{policy} {counts:?}");
        // It is asked about from time to time, until the cache shows what has happened.
        assert!(counts.values().sum::<usize>() < 200, "{policy} {counts:?}");
        bed.door.lag().release();
        bed.serve(&shop(&json!({"deletionPolicy": policy}))).await;
    }
}

/// What a manager says of itself, by controller.
struct Manned {
    checks: Checks,
    registry: Registry,
}

impl Manned {
    /// A manager that hosts all that it takes.
    fn start(bed: &Bed) -> Self {
        let (checks, registry) = (Checks::new(), Registry::new());
        let options = manager::Options {
            name: "coxswain",
            limit: None,
            scope: Scope::default(),
            start_interval: Duration::ZERO,
            shutdown_timeout: None,
        };
        let mut manager =
            Manager::new(&bed.env, &registry, &checks, bed.plain(), options).expect("a manager");
        let settings = Settings {
            instance: "test".to_owned(),
            assume_no_kube_controller_manager: true,
            garbage_collector: None,
            ..Settings::default()
        };
        registry::host(&mut manager, |_| Some(EnabledBy::Name), &settings).expect("hosted");
        drop(bed.env.tasks.spawn(manager.run(None, CancellationToken::new())));
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
    let bed = bare();
    let manned = Manned::start(&bed);
    bed.sleep(Duration::from_mins(1)).await;
    let waits = manned.waits("appservice-controller").expect("it waits");
    assert!(
        waits.starts_with("waits for appservices.appcontroller.k8s.io"),
        "{waits}"
    );
    assert_eq!(manned.waits("deployment-controller"), None);
    bed.create(&DEPLOYMENTS, &foreign("theirs")).await;
    bed.until(async |bed| bed.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 1)
        .await;
    bed.define(&app_service::crd()).await;
    bed.serve(&shop(&json!({}))).await;
    assert_eq!(manned.waits("appservice-controller"), None);
    bed.undefine().await;
    bed.until(async |_| manned.waits("appservice-controller").is_some())
        .await;
    bed.patch(&DEPLOYMENTS, "theirs", &json!({"spec": {"replicas": 2}}))
        .await;
    bed.until(async |bed| bed.get(&DEPLOYMENTS, "theirs").await["status"]["availableReplicas"] == 2)
        .await;
    assert_eq!(manned.waits("deployment-controller"), None);
    bed.define(&app_service::crd()).await;
    bed.serve(&app("again", "again", &json!({}))).await;
    assert_eq!(manned.waits("appservice-controller"), None);
}

impl Bed {
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
