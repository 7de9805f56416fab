//! Whatever happens, in any order: at most one acts, and when all is well again one does.

use super::*;

use coxswain_manager::env::Rng;
use coxswain_tests::seeds;
use jiff::SignedDuration;

/// What can happen to a candidate, or to the Lease.
async fn happen(world: &mut World, all: &mut [Candidate], rng: &Rng, frozen: &mut [bool]) {
    let who = usize::try_from(rng.below(all.len() as u64)).expect("few");
    let troubles = [
        Trouble::Unavailable,
        Trouble::RequestLost,
        Trouble::AnswerLost,
        Trouble::Reset,
        Trouble::Conflict,
    ];
    let trouble = troubles[usize::try_from(rng.below(5)).expect("few")];
    let candidate = &mut all[who];
    match rng.below(20) {
        0..=3 => candidate.net.trouble(trouble),
        4..=5 => {
            candidate.net.trouble(Trouble::None);
            candidate.net.watches(WatchTrouble::None);
        }
        6 => candidate.net.watches(WatchTrouble::Refused),
        7 => candidate.net.watches(WatchTrouble::Silent),
        8..=9 if who == 0 => {
            let seconds = i64::try_from(rng.below(7200)).expect("small") - 3600;
            candidate
                .env
                .clock
                .inject(Fault::Skew(SignedDuration::from_secs(seconds)));
        }
        // Not the one whose wall clock goes wrong: a machine has another clock that goes on, and this one has not.
        8..=10 if who != 0 => {
            frozen[who] = !frozen[who];
            if frozen[who] {
                candidate.freeze();
            } else {
                candidate.thaw();
            }
        }
        11..=12 => {
            // A new process that finds no Lease cannot know of those who had it.
            let others = (0..all.len()).any(|other| other != who && all[other].leads());
            if world.lease().await.is_some() || !others {
                let orderly = rng.below(2) == 0 && !frozen[who] && all[who].finish.is_some();
                if orderly {
                    all[who].release(&[]);
                    world.wait(Duration::from_millis(rng.below(200))).await;
                }
                frozen[who] = false;
                if world.lease().await.is_some() {
                    all[who] = world.start("x");
                }
            }
        }
        13 if world.lease().await.is_some() => world.delete().await,
        14 if world.lease().await.is_some() => {
            world.rewrite(json!({"spec": {"holderIdentity": ""}})).await;
        }
        15 if world.lease().await.is_some() => {
            world
                .rewrite(json!({"spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 1}}))
                .await;
        }
        16 if world.lease().await.is_some() => {
            let name = all[who].identity.clone();
            world.rewrite(json!({"spec": {"holderIdentity": name}})).await;
        }
        17 if world.lease().await.is_some() => {
            world
                .rewrite(json!({"metadata": {"labels": {"a": rng.number().to_string()}}}))
                .await;
        }
        18 => candidate.net.latency(Duration::from_millis(rng.below(2000))),
        _ => {}
    }
}

async fn run(seed: u64) {
    let rng = Rng::from_seed(seed);
    let mut world = World::new().await;
    let mut all = [world.start("a"), world.start("b"), world.start("c")];
    let mut frozen = [false; 3];
    for _ in 0..25 {
        happen(&mut world, &mut all, &rng, &mut frozen).await;
        world
            .wait(rng.between(Duration::ZERO, Duration::from_secs(6)))
            .await;
    }
    for (candidate, frozen) in all.iter().zip(frozen) {
        if frozen {
            candidate.thaw();
        }
        candidate.net.trouble(Trouble::None);
        candidate.net.watches(WatchTrouble::None);
        candidate.net.latency(Duration::ZERO);
    }
    // A record that is seen only now, and a request that hangs before that.
    world.wait(RENEW / 2 + AGAIN + LEASE).await;
    let leaders = all.iter().filter(|candidate| candidate.leads()).count();
    assert_eq!(leaders, 1, "after all was well again");
    world.check();
}

#[test]
fn at_most_one_acts_and_one_does_in_the_end() {
    for seed in seeds::of(60) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(run(seed));
    }
}
