//! The handover of leadership.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::select_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::json;
use steersman_harness::{Cluster, Test, fixtures, test, time};
use steersman_manager::client::Takeover;

use crate::candidate::{self, Candidate, LEASE, NAME, RETRY, one_at_a_time};

pub fn tests() -> Vec<Test> {
    vec![
        test!(first_candidate_leads),
        test!(second_candidate_waits_while_the_lease_is_renewed),
        test!(released_lease_is_acquired_with_written_versions),
        test!(lease_of_a_crashed_leader_is_acquired_after_expiry),
        test!(exactly_one_candidate_acquires_an_expired_lease),
    ]
}

async fn first_candidate_leads(c: Cluster) {
    let ns = c.namespace().await;
    let mut a = Candidate::steady(&c, &ns).await;
    let (term, takeover) = a.leads().await;
    assert_eq!(takeover, Takeover::Unclean, "without written versions");
    assert!(a.fence.allows(term));
    let holder = candidate::spec(&c, &ns).await.holder_identity;
    assert_eq!(holder.as_deref(), Some(&*a.config.identity));
}

async fn second_candidate_waits_while_the_lease_is_renewed(c: Cluster) {
    let ns = c.namespace().await;
    let mut a = Candidate::short(&c, &ns).await;
    let (term, _) = a.leads().await;
    let b = Candidate::short(&c, &ns).await;
    let begun = b.process.env.clock.wall();
    let fences = [&a.fence, &b.fence];
    one_at_a_time(&fences, async {
        b.watching().await;
        let renewed = time::eventually(time::ANSWER, async || {
            let spec = candidate::spec(&c, &ns).await;
            assert!(!b.is_leading());
            (at(spec.renew_time) > begun + LEASE + RETRY).then_some(())
        });
        assert!(renewed.await.is_some(), "the lease is not renewed");
    })
    .await;
    assert!(a.fence.allows(term), "the term ended");
    assert_eq!(candidate::spec(&c, &ns).await.lease_transitions, Some(0));
}

/// The duration is asserted under a paused clock.
async fn released_lease_is_acquired_with_written_versions(c: Cluster) {
    let mut took = Vec::new();
    for _ in 0..5 {
        took.push(hand_over(&c).await);
    }
    took.sort();
    println!("handover after a release: {took:?}");
}

/// One leader releases the Lease and the next one acquires it. Returns the time it took.
async fn hand_over(c: &Cluster) -> Duration {
    let ns = c.namespace().await;
    // Polling at this interval would be too late.
    let times = (
        Duration::from_secs(30),
        Duration::from_secs(25),
        Duration::from_secs(20),
    );
    let mut a = Candidate::start(c, &ns, times).await;
    let (term, _) = a.leads().await;
    let mut b = Candidate::start(c, &ns, times).await;
    b.watching().await;
    let clock = b.process.env.clock.clone();
    let fences = [&a.fence.clone(), &b.fence.clone()];
    let written = BTreeMap::from([("pods".to_owned(), "17".to_owned())]);
    let (took, takeover) = one_at_a_time(&fences, async {
        let begun = clock.now();
        a.release(term, written.clone()).await;
        let (_, takeover) = b.leads().await;
        (clock.now() - begun, takeover)
    })
    .await;
    assert_eq!(takeover, Takeover::Clean(written));
    let spec = candidate::spec(c, &ns).await;
    assert_eq!(spec.holder_identity.as_deref(), Some(&*b.config.identity));
    assert_eq!(spec.lease_transitions, Some(1));
    took
}

async fn lease_of_a_crashed_leader_is_acquired_after_expiry(c: Cluster) {
    let ns = c.namespace().await;
    let mut a = Candidate::short(&c, &ns).await;
    a.leads().await;
    let mut b = Candidate::short(&c, &ns).await;
    b.watching().await;
    candidate::is_renewed(&c, &ns).await;
    let lease = candidate::read(&c, &ns).await;
    let version = lease["metadata"]["resourceVersion"].as_str().expect("a version");
    let watch = format!("{}?watch=1&resourceVersion={version}", fixtures::leases(&ns));
    let mut writes = c.api().watch(&watch).await;
    let clock = b.process.env.clock.clone();
    let fences = [&a.fence.clone(), &b.fence.clone()];
    let (took, takeover) = one_at_a_time(&fences, async {
        let begun = clock.now();
        drop(a);
        let (_, takeover) = b.leads().await;
        (clock.now() - begun, takeover)
    })
    .await;
    // A renewal that was in flight is stored after the crash.
    let mut last = at(candidate::spec_of(lease).renew_time);
    let acquired = loop {
        let spec = candidate::spec_of(writes.expect("MODIFIED").await);
        if spec.holder_identity.as_deref() == Some(&*b.config.identity) {
            break at(spec.acquire_time);
        }
        last = at(spec.renew_time);
    };
    let idle = acquired.duration_since(last);
    assert!(
        idle >= SignedDuration::try_from(LEASE).expect("seconds"),
        "acquired {idle} after the last renewal"
    );
    assert_eq!(takeover, Takeover::Unclean);
    println!("takeover after a crash: {took:?}, lease duration {LEASE:?}");
    assert_eq!(candidate::spec(&c, &ns).await.lease_transitions, Some(1));
}

async fn exactly_one_candidate_acquires_an_expired_lease(c: Cluster) {
    let ns = c.namespace().await;
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let expired = json!({"spec": {
        "holderIdentity": "expired", "leaseDurationSeconds": 1, "leaseTransitions": 7,
        "acquireTime": long_ago, "renewTime": long_ago,
    }});
    let expired = fixtures::with(fixtures::lease(NAME), expired);
    c.api().post(&fixtures::leases(&ns), expired).await.expect(201);
    let mut candidates = Vec::new();
    for _ in 0..4 {
        candidates.push(Candidate::short(&c, &ns).await);
    }
    let fences: Vec<_> = candidates.iter().map(|it| it.fence.clone()).collect();
    one_at_a_time(&fences.iter().collect::<Vec<_>>(), async {
        let leading = candidates.iter_mut().map(|it| Box::pin(it.leads()));
        let ((_, takeover), winner, _) = select_all(leading).await;
        assert_eq!(takeover, Takeover::Unclean);
        // The others observe it, whether or not they have tried.
        candidate::is_renewed(&c, &ns).await;
        candidate::is_renewed(&c, &ns).await;
        let leaders: Vec<_> = (0..4).filter(|it| candidates[*it].is_leading()).collect();
        assert_eq!(leaders, [winner]);
        let spec = candidate::spec(&c, &ns).await;
        assert_eq!(spec.lease_transitions, Some(8));
        assert_eq!(
            spec.holder_identity.as_deref(),
            Some(&*candidates[winner].config.identity)
        );
    })
    .await;
}

fn at(time: Option<MicroTime>) -> Timestamp {
    time.expect("a time").0
}
