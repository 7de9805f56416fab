//! Random faults in any order: at most one candidate leads, and one does after the faults end.

use super::*;

use jiff::SignedDuration;
use steersman_harness::seeds;
use steersman_manager::env::Rng;

/// Injects a random event into a candidate or the Lease.
async fn inject_event(cluster: &mut Cluster, all: &mut [Candidate], rng: &Rng, frozen: &mut [bool]) {
    let index = usize::try_from(rng.below(all.len() as u64)).expect("few");
    let faults = [
        NetworkFault::Unavailable,
        NetworkFault::RequestLost,
        NetworkFault::ResponseLost,
        NetworkFault::Reset,
        NetworkFault::Conflict,
    ];
    let fault = faults[usize::try_from(rng.below(5)).expect("few")];
    let candidate = &mut all[index];
    match rng.below(20) {
        0..=3 => candidate.net.set_fault(fault),
        4..=5 => {
            candidate.net.set_fault(NetworkFault::None);
            candidate.net.set_watch_fault(WatchFault::None);
        }
        6 => candidate.net.set_watch_fault(WatchFault::Rejected),
        7 => candidate.net.set_watch_fault(WatchFault::Silent),
        8..=9 if index == 0 => {
            let seconds = i64::try_from(rng.below(7200)).expect("small") - 3600;
            candidate
                .env
                .clock
                .inject(Fault::Skew(SignedDuration::from_secs(seconds)));
        }
        // Not for the candidate with a skewed wall clock: the simulated machine has no third clock.
        8..=10 if index != 0 => {
            frozen[index] = !frozen[index];
            if frozen[index] {
                candidate.freeze();
            } else {
                candidate.thaw();
            }
        }
        11..=12 => {
            // A new process that finds no Lease cannot know of previous holders.
            let others = (0..all.len()).any(|other| other != index && all[other].leads());
            if cluster.lease().await.is_some() || !others {
                let orderly = rng.below(2) == 0 && !frozen[index] && all[index].finish.is_some();
                if orderly {
                    all[index].release(&[]);
                    cluster.wait(Duration::from_millis(rng.below(200))).await;
                }
                frozen[index] = false;
                if cluster.lease().await.is_some() {
                    all[index] = cluster.start("x");
                }
            }
        }
        13 if cluster.lease().await.is_some() => cluster.delete().await,
        14 if cluster.lease().await.is_some() => {
            cluster.rewrite(json!({"spec": {"holderIdentity": ""}})).await;
        }
        15 if cluster.lease().await.is_some() => {
            cluster
                .rewrite(json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}}))
                .await;
        }
        16 if cluster.lease().await.is_some() => {
            let name = all[index].identity.clone();
            cluster.rewrite(json!({"spec": {"holderIdentity": name}})).await;
        }
        17 if cluster.lease().await.is_some() => {
            cluster
                .rewrite(json!({"metadata": {"labels": {"a": rng.number().to_string()}}}))
                .await;
        }
        18 => candidate.net.latency(Duration::from_millis(rng.below(2000))),
        _ => {}
    }
}

async fn run(seed: u64) {
    let rng = Rng::from_seed(seed);
    let mut cluster = Cluster::new().await;
    let mut all = [cluster.start("a"), cluster.start("b"), cluster.start("c")];
    let mut frozen = [false; 3];
    for _ in 0..25 {
        inject_event(&mut cluster, &mut all, &rng, &mut frozen).await;
        cluster
            .wait(rng.between(Duration::ZERO, Duration::from_secs(6)))
            .await;
    }
    for (candidate, frozen) in all.iter().zip(frozen) {
        if frozen {
            candidate.thaw();
        }
        candidate.net.set_fault(NetworkFault::None);
        candidate.net.set_watch_fault(WatchFault::None);
        candidate.net.latency(Duration::ZERO);
    }
    // A record that is observed only now, and a hanging request before that.
    cluster.wait(RENEW / 2 + FAILOVER_LIMIT + LEASE).await;
    let leaders = all.iter().filter(|candidate| candidate.leads()).count();
    assert_eq!(leaders, 1, "after the faults");
    cluster.check();
}

#[test]
fn random_faults_keep_mutual_exclusion_and_one_leader_follows() {
    for seed in seeds::of(60) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(seed));
    }
}
