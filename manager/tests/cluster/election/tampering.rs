//! Foreign changes of the Lease: the leader stops, and no other candidate leads while it may believe it is the leader.

use std::collections::BTreeMap;

use futures_util::future::select;
use serde_json::{Value, json};
use steersman_harness::fixtures::MERGE;
use steersman_harness::{Cluster, Test, test};
use steersman_manager::client::Takeover;
use steersman_manager::election::{released_by_annotation, written_versions_annotation};

use crate::candidate::{self, Candidate, LEASE, one_at_a_time};

pub fn tests() -> Vec<Test> {
    vec![
        test!(deleted_lease_ends_the_term_and_delays_the_next),
        test!(foreign_holder_ends_the_term_and_delays_the_next),
        test!(cleared_holder_is_not_a_release),
        test!(foreign_fields_of_the_lease_are_preserved),
    ]
}

async fn deleted_lease_ends_the_term_and_delays_the_next(c: Cluster) {
    tampered(&c, async |path| {
        c.api().delete(path, ()).await.expect(200);
    })
    .await;
}

async fn foreign_holder_ends_the_term_and_delays_the_next(c: Cluster) {
    tampered(&c, async |path| {
        let change = json!({"spec": {"holderIdentity": "other"}});
        c.api().patch(path, MERGE, change).await.expect(200);
    })
    .await;
}

async fn cleared_holder_is_not_a_release(c: Cluster) {
    tampered(&c, async |path| {
        let change = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        c.api().patch(path, MERGE, change).await.expect(200);
    })
    .await;
}

/// Changes the Lease that one of two candidates holds. `manager/tests/suite/election/tampering.rs` asserts how soon the leader
/// stops, under a paused clock.
async fn tampered(c: &Cluster, tamper: impl AsyncFnOnce(&str)) {
    let ns = c.namespace().await;
    let mut a = Candidate::short(c, &ns).await;
    let (term, _) = a.leads().await;
    a.watching().await;
    let mut b = Candidate::short(c, &ns).await;
    b.watching().await;
    // Now it knows the leader. A candidate that finds no Lease would not wait for one.
    candidate::is_renewed(c, &ns).await;
    let clock = a.process.env.clock.clone();
    let fences = [&a.fence.clone(), &b.fence.clone()];
    one_at_a_time(&fences, async {
        let begun = clock.now();
        tamper(&candidate::path(&ns)).await;
        a.steps_down().await;
        let stopped = clock.now() - begun;
        assert!(!a.fence.allows(term));
        let next = select(Box::pin(a.leads()), Box::pin(b.leads())).await;
        let (_, takeover) = next.factor_first().0;
        let took = clock.now() - begun;
        assert_eq!(takeover, Takeover::Unclean);
        assert!(
            took >= LEASE,
            "after {took:?} the former leader may believe it is the leader"
        );
        println!("change of the lease until the leader stops: {stopped:?}, until the next term: {took:?}");
    })
    .await;
    assert!(!a.fence.allows(term), "the term continues");
    candidate::is_renewed(c, &ns).await;
}

async fn foreign_fields_of_the_lease_are_preserved(c: Cluster) {
    let ns = c.namespace().await;
    let mut a = Candidate::steady(&c, &ns).await;
    let (term, _) = a.leads().await;
    let foreign = json!({"metadata": {
        "labels": {"example.com/team": "blue"},
        "annotations": {"example.com/note": "hands off"},
        "finalizers": ["example.com/hold"],
    }});
    let path = candidate::path(&ns);
    c.api().patch(&path, MERGE, &foreign).await.expect(200);
    let assert_foreign_fields = |lease: &Value| {
        let metadata = &lease["metadata"];
        assert_eq!(metadata["labels"]["example.com/team"], "blue", "{lease:#}");
        assert_eq!(
            metadata["annotations"]["example.com/note"], "hands off",
            "{lease:#}"
        );
        assert_eq!(metadata["finalizers"], json!(["example.com/hold"]), "{lease:#}");
    };
    candidate::is_renewed(&c, &ns).await;
    candidate::is_renewed(&c, &ns).await;
    assert_foreign_fields(&candidate::read(&c, &ns).await);
    assert!(a.fence.allows(term), "ended by a change of metadata");

    let _process = a.release(term, BTreeMap::new()).await;
    let released = candidate::read(&c, &ns).await;
    assert_foreign_fields(&released);
    assert_eq!(released["spec"]["holderIdentity"], "");
    let name = released["metadata"]["name"].as_str().expect("a name");
    assert!(released["metadata"]["annotations"][released_by_annotation(name)].is_string());

    let mut b = Candidate::steady(&c, &ns).await;
    b.leads().await;
    let taken = candidate::read(&c, &ns).await;
    assert_foreign_fields(&taken);
    for trace in [released_by_annotation(name), written_versions_annotation(name)] {
        assert!(taken["metadata"]["annotations"][&trace].is_null(), "{taken:#}");
    }
}
