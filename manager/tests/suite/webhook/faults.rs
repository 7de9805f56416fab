//! Each write goes wrong in each way: in the end all is well, and at no time is anything served that is not trusted.

use coxswain_manager::serve::{Health, Probes};

use super::door::Fault;
use super::{Cluster, DAY, Replica, SECOND, cluster};

const FAULTS: [Fault; 4] = [Fault::Lost, Fault::AnswerLost, Fault::Code(500), Fault::Code(409)];

/// Looks for a while; what is served is verified whenever there is something.
async fn watched(cluster: &Cluster, replica: &Replica, what: &str) {
    for _ in 0..25 {
        let served = !matches!(replica.check("webhook", Probes::READYZ), Health::Failed(_));
        let verified = cluster.verified(replica).await.is_some();
        assert!(verified || !served, "{what}");
        cluster.env.clock.sleep(SECOND / 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_certificate_comes_whatever_goes_wrong() {
    for fault in FAULTS {
        for write in 0..4 {
            let cluster = cluster().await;
            let leader = cluster.leader().await;
            leader.faults.plan(write, fault);
            watched(&cluster, &leader, &format!("{fault:?} at {write}")).await;
            cluster.serves(&leader, None).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_comes_to_its_end_whatever_goes_wrong() {
    for fault in FAULTS {
        for write in 0..4 {
            let cluster = cluster().await;
            let leader = cluster.leader().await;
            let first = cluster.serves(&leader, None).await;
            leader.faults.plan(4 + write, fault);
            cluster.later(61 * DAY, &[&leader]);
            // It looks within ten minutes.
            for _ in 0..30 {
                assert!(cluster.verified(&leader).await.is_some(), "{fault:?} at {write}");
                cluster.env.clock.sleep(20 * SECOND).await;
            }
            watched(&cluster, &leader, &format!("{fault:?} at {write}")).await;
            cluster.serves(&leader, Some(&first)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_between_two_writes_leaves_a_working_state() {
    for write in 0..4 {
        let cluster = cluster().await;
        let leader = cluster.leader().await;
        let standby = cluster.standby().await;
        let first = cluster.serves(&leader, None).await;
        cluster.serves(&standby, None).await;
        // It gets no further than this write.
        leader.faults.stop_at(4 + write);
        cluster.later(61 * DAY, &[&leader, &standby]);
        for _ in 0..35 {
            assert!(cluster.verified(&leader).await.is_some());
            assert!(cluster.verified(&standby).await.is_some());
            cluster.env.clock.sleep(20 * SECOND).await;
        }
        assert!(leader.faults.is_stopped(), "it has come that far");
        drop(leader);
        let next = cluster.leader().await;
        watched(&cluster, &standby, "the next leader").await;
        cluster.serves(&standby, Some(&first)).await;
        assert!(cluster.verified(&next).await.is_some());
    }
}
