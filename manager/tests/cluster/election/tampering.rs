//! A Lease that somebody else writes to: the leader stops at once, and nobody acts while it could still believe to lead.

use std::collections::BTreeMap;

use coxswain_manager::election::{RELEASED_BY_ANNOTATION, Takeover, WRITTEN_VERSIONS_ANNOTATION};
use coxswain_tests::fixtures::MERGE;
use coxswain_tests::{Cluster, Test, test};
use futures_util::future::select;
use serde_json::{Value, json};

use crate::candidate::{self, Candidate, LEASE, one_at_a_time};

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        test!(a_deleted_lease_ends_the_term_and_the_next_one_waits),
        test!(another_holder_ends_the_term_and_the_next_one_waits),
        test!(an_emptied_holder_is_no_release),
        test!(what_others_put_on_the_lease_stays),
    ]
}

async fn a_deleted_lease_ends_the_term_and_the_next_one_waits(c: Cluster) {
    tampered(&c, async |path| {
        c.api().delete(path, ()).await.expect(200);
    })
    .await;
}

async fn another_holder_ends_the_term_and_the_next_one_waits(c: Cluster) {
    tampered(&c, async |path| {
        let change = json!({"spec": {"holderIdentity": "intruder"}});
        c.api().patch(path, MERGE, change).await.expect(200);
    })
    .await;
}

async fn an_emptied_holder_is_no_release(c: Cluster) {
    tampered(&c, async |path| {
        let change = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        c.api().patch(path, MERGE, change).await.expect(200);
    })
    .await;
}

/// What follows when `tamper` changes the Lease that one of two candidates holds. How soon the leader stops is asserted on the
/// paused clock, in `manager/tests/suite/election/foreign.rs`.
async fn tampered(c: &Cluster, tamper: impl AsyncFnOnce(&str)) {
    let ns = c.namespace().await;
    let mut a = Candidate::short(c, &ns).await;
    let (term, _) = a.leads().await;
    a.watches().await;
    let mut b = Candidate::short(c, &ns).await;
    b.watches().await;
    // By then it knows who leads: one that comes to a Lease that is gone knows of nobody to wait for.
    candidate::is_renewed(c, &ns).await;
    let clock = a.process.env.clock.clone();
    let fences = [&a.fence.clone(), &b.fence.clone()];
    one_at_a_time(&fences, async {
        let begun = clock.now();
        tamper(&candidate::path(&ns)).await;
        a.stands_down().await;
        let stopped = clock.now() - begun;
        assert!(!a.fence.allows(term));
        let next = select(Box::pin(a.leads()), Box::pin(b.leads())).await;
        let (_, takeover) = next.factor_first().0;
        let took = clock.now() - begun;
        assert_eq!(takeover, Takeover::Unclean);
        assert!(
            took >= LEASE,
            "after {took:?} the former leader could believe to lead"
        );
        println!("change of the lease until the leader stops: {stopped:?}, until the next term: {took:?}");
    })
    .await;
    assert!(!a.fence.allows(term), "a term does not come back");
    candidate::is_renewed(c, &ns).await;
}

async fn what_others_put_on_the_lease_stays(c: Cluster) {
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
    let kept = |lease: &Value| {
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
    kept(&candidate::read(&c, &ns).await);
    assert!(
        a.fence.allows(term),
        "what is not about the holder is no reason to stop"
    );

    let _process = a.release(term, BTreeMap::new()).await;
    let released = candidate::read(&c, &ns).await;
    kept(&released);
    assert_eq!(released["spec"]["holderIdentity"], "");
    assert!(released["metadata"]["annotations"][RELEASED_BY_ANNOTATION].is_string());

    let mut b = Candidate::steady(&c, &ns).await;
    b.leads().await;
    let taken = candidate::read(&c, &ns).await;
    kept(&taken);
    for trace in [RELEASED_BY_ANNOTATION, WRITTEN_VERSIONS_ANNOTATION] {
        assert!(taken["metadata"]["annotations"][trace].is_null(), "{taken:#}");
    }
}
