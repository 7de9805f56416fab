//! The Lease as other clients read it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_harness::{Cluster, Test, fixtures, test};
use steersman_manager::election::{Config, released_by_annotation, written_versions_annotation};
use steersman_manager::manager::identity;

use crate::candidate::{self, Candidate};
use crate::process::Process;

pub fn tests() -> Vec<Test> {
    vec![
        test!(lease_times_and_transitions_follow_the_api_conventions),
        test!(released_lease_has_no_holder_and_names_the_last_one),
        test!(lease_of_kube_controller_manager_is_not_changed),
    ]
}

async fn lease_times_and_transitions_follow_the_api_conventions(c: Cluster) {
    let ns = c.namespace().await;
    let begun = Timestamp::now();
    let mut a = Candidate::steady(&c, &ns).await;
    let (term, _) = a.leads().await;
    let first = candidate::spec(&c, &ns).await;
    assert_eq!(first.lease_duration_seconds, Some(30));
    assert_eq!(first.lease_transitions, Some(0));
    candidate::is_renewed(&c, &ns).await;
    let lease = candidate::read(&c, &ns).await;
    let acquired = micro_time(&lease["spec"]["acquireTime"]);
    let renewed = micro_time(&lease["spec"]["renewTime"]);
    let now = a.process.env.clock.wall();
    assert!(
        begun <= acquired && acquired < renewed && renewed <= now,
        "{lease:#}"
    );
    let again = candidate::spec(&c, &ns).await;
    assert_eq!(again.acquire_time, first.acquire_time, "changed by a renewal");
    assert_eq!(again.lease_transitions, Some(0));

    let _process = a.release(term, BTreeMap::new()).await;
    let mut b = Candidate::steady(&c, &ns).await;
    b.leads().await;
    let next = candidate::spec(&c, &ns).await;
    assert_eq!(next.lease_transitions, Some(1));
    assert_eq!(next.lease_duration_seconds, Some(30));
    assert!(next.acquire_time > first.acquire_time);
}

async fn released_lease_has_no_holder_and_names_the_last_one(c: Cluster) {
    let ns = c.namespace().await;
    let mut a = Candidate::steady(&c, &ns).await;
    let (term, _) = a.leads().await;
    let identity = a.config.identity.clone();
    let versions = BTreeMap::from([("replicasets.apps".to_owned(), "12".to_owned())]);
    let _process = a.release(term, versions).await;
    let lease = candidate::read(&c, &ns).await;
    // client-go also acquires a Lease without a holder and with a duration of one second immediately.
    assert_eq!(lease["spec"]["holderIdentity"], "");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    let name = lease["metadata"]["name"].as_str().expect("a name");
    let annotation = |name: &str| -> Value {
        let text = lease["metadata"]["annotations"][name].as_str();
        serde_json::from_str(text.expect("an annotation")).expect("JSON")
    };
    assert_eq!(
        annotation(&released_by_annotation(name)),
        json!({"identity": identity, "transitions": 0})
    );
    assert_eq!(
        annotation(&written_versions_annotation(name)),
        json!({"replicasets.apps": "12"})
    );
}

async fn lease_of_kube_controller_manager_is_not_changed(c: Cluster) {
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let spec = json!({"holderIdentity": "kcm", "leaseDurationSeconds": 1, "renewTime": long_ago});
    let kcm = fixtures::with(fixtures::lease("kube-controller-manager"), json!({"spec": spec}));
    let leases = fixtures::leases("kube-system");
    let kcm = c.api().post(&leases, kcm).await.expect(201);
    let process = Process::start(&c).await;
    let config = Config::new("kube-system", "steersman", identity("host", &process.env.rng));
    let mut a = Candidate::with(process, config);
    let (term, _) = a.leads().await;
    assert_eq!(a.config.lease_duration.as_secs(), 15);
    let _process = a.release(term, BTreeMap::new()).await;
    let after = c
        .api()
        .get(&format!("{leases}/kube-controller-manager"))
        .await
        .expect(200);
    assert_eq!(after, kcm);
    c.api().get(&format!("{leases}/steersman")).await.expect(200);
}

/// Parses a `metav1.MicroTime`: exactly six fractional digits, UTC.
fn micro_time(value: &Value) -> Timestamp {
    let text = value.as_str().expect("a time");
    let micros = text.strip_suffix('Z').and_then(|text| text.rsplit_once('.'));
    assert!(micros.is_some_and(|(_, micros)| micros.len() == 6), "{text}");
    text.parse().expect("a time")
}
