//! Every fault at every write: the rotation completes, and the served certificate is always trusted.

use steersman_manager::health::{Health, Probes};
use steersman_sandbox::faults::{Effect, Refusal};

use super::{Cluster, DAY, Replica, SECOND, cluster};
use crate::fixture::proxy_reply;

fn faults() -> [Effect; 4] {
    let (internal_error, conflict) = (proxy_reply(500), proxy_reply(409));
    [Effect::LoseRequest, Effect::LoseAnswer, internal_error, conflict]
}

/// Asserts for five seconds that a served certificate is verified.
async fn stays_trusted(cluster: &Cluster, replica: &Replica, what: &str) {
    for _ in 0..25 {
        let served = !matches!(replica.check("webhook", Probes::READYZ), Health::Failed(_));
        let verified = cluster.verified(replica).await.is_some();
        assert!(verified || !served, "{what}");
        cluster.env.clock.sleep(SECOND / 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn first_certificate_is_issued_despite_any_fault() {
    for fault in faults() {
        for write in 0..4 {
            let cluster = cluster().await;
            let leader = cluster.leader();
            leader.faults.plan(write, fault.clone());
            stays_trusted(&cluster, &leader, &format!("{fault:?} at {write}")).await;
            cluster.serves(&leader, None).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_completes_despite_any_fault() {
    for fault in faults() {
        for write in 0..4 {
            let cluster = cluster().await;
            let leader = cluster.leader();
            let first = cluster.serves(&leader, None).await;
            leader.faults.plan(4 + write, fault.clone());
            cluster.later(61 * DAY, &[&leader]);
            // The resync period is at most ten minutes.
            for _ in 0..30 {
                assert!(cluster.verified(&leader).await.is_some(), "{fault:?} at {write}");
                cluster.env.clock.sleep(20 * SECOND).await;
            }
            stays_trusted(&cluster, &leader, &format!("{fault:?} at {write}")).await;
            cluster.serves(&leader, Some(&first)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn crash_between_two_writes_leaves_a_trusted_certificate() {
    for write in 0..4 {
        let cluster = cluster().await;
        let leader = cluster.leader();
        let standby = cluster.standby().await;
        let first = cluster.serves(&leader, None).await;
        cluster.serves(&standby, None).await;
        leader.faults.stop_at(4 + write);
        cluster.later(61 * DAY, &[&leader, &standby]);
        for _ in 0..35 {
            assert!(cluster.verified(&leader).await.is_some());
            assert!(cluster.verified(&standby).await.is_some());
            cluster.env.clock.sleep(20 * SECOND).await;
        }
        assert!(leader.faults.is_stopped(), "no write was lost");
        drop(leader);
        let next = cluster.leader();
        stays_trusted(&cluster, &standby, "the next leader").await;
        cluster.serves(&standby, Some(&first)).await;
        assert!(cluster.verified(&next).await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_day_is_capped() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    leader
        .faults
        .plan(0, Effect::Refuse(Refusal::new(503).retry_after(86_400)));
    cluster.serves(&leader, None).await;
}
