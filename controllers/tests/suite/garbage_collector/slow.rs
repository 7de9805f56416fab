//! Servers that take seconds to answer a GET.

use super::*;

const SLOW: Duration = Duration::from_secs(5);
const MANY: usize = 65;

async fn blocked(bed: &Bed, count: usize) -> Value {
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    for i in 0..count {
        bed.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    bed.settle().await;
    owner
}

fn slow_gets(bed: &Bed, time: Duration) {
    bed.door.judge(move |it| {
        if it.ours && it.what.starts_with("GET") {
            Answer::Slow(time)
        } else {
            Answer::Done
        }
    });
}

async fn time_until(bed: &Bed, holds: impl AsyncFn(&Bed) -> bool) -> Duration {
    let start = bed.env.clock.now();
    bed.until(holds).await;
    bed.env.clock.now() - start
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_finishes_although_each_get_takes_seconds() {
    for (time, limit) in [
        (Duration::from_secs(3), Duration::from_secs(12)),
        (SLOW, Duration::from_secs(20)),
        (Duration::from_secs(8), Duration::from_secs(30)),
    ] {
        let bed = bed().await;
        slow_gets(&bed, time);
        let owner = blocked(&bed, MANY).await;
        bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
        let took = time_until(&bed, async |bed| bed.get(&SECRETS, "owner").await.is_none()).await;
        assert!(took <= limit, "{took:?} with GETs of {time:?}");
        assert_eq!(bed.left(&MAPS).await, 0);
        let gets = bed.door.count("GET secrets");
        assert!(gets <= 4, "{gets}");
        assert_eq!(bed.door.count("DELETE configmaps"), MANY);
    }
}

#[tokio::test(start_paused = true)]
async fn background_deletion_is_not_delayed_by_slow_gets() {
    let bed = bed().await;
    slow_gets(&bed, SLOW);
    let owner = blocked(&bed, 500).await;
    let other = bed.create(&SECRETS, "other", &[]).await;
    bed.dependents(&PODS, &other, 20).await;
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.sleep(Duration::from_millis(200)).await;
    bed.delete(&SECRETS, &other, Propagation::Background).await;
    let took = time_until(&bed, async |bed| bed.left(&PODS).await == 0).await;
    assert!(took <= Duration::from_millis(500), "{took:?}");
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_take_longer_than_ten_seconds_delete_nothing_and_are_not_requested_all_the_time() {
    let bed = bed().await;
    slow_gets(&bed, Duration::from_secs(12));
    let owner = blocked(&bed, MANY).await;
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.left(&MAPS).await, MANY);
    let gets = bed.door.count("GET secrets");
    // One at a time.
    assert!((2..=51).contains(&gets), "{gets}");
    bed.door.judge(|_| Answer::Done);
    bed.sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.left(&MAPS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_orphaned_during_a_slow_get_keeps_its_dependents() {
    let bed = bed().await;
    slow_gets(&bed, SLOW);
    // The latency of the server is known from an earlier deletion.
    let first = bed.create(&SECRETS, "first", &[]).await;
    bed.create(&PODS, "dependent-0", &[blocking(&first)]).await;
    bed.settle().await;
    bed.delete(&SECRETS, &first, Propagation::Foreground).await;
    bed.until(async |bed| bed.get(&SECRETS, "first").await.is_none())
        .await;
    let owner = blocked(&bed, MANY).await;
    bed.door.reset();
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.until(async |bed| bed.door.count("GET secrets") == 1).await;
    bed.sleep(Duration::from_secs(2)).await;
    // The answer on its way says that the owner waits; the cache shows the orphan finalizer before it arrives.
    bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    bed.sleep(HOUR).await;
    assert_eq!(bed.left(&MAPS).await, MANY);
    assert_eq!(bed.door.count("DELETE configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_answer_of_a_slow_server_expires_within_its_latency_and_a_second() {
    let bed = bare();
    let limit = coxswain_manager::client::Limit { qps: 10.0, burst: 1 };
    let client = bed.transport.client("generic-garbage-collector", Some(limit));
    bed.run(bed.build_with(client, Options::default(), Scope::default()));
    bed.sleep(Duration::from_secs(2)).await;
    slow_gets(&bed, SLOW);
    let owner = blocked(&bed, MANY).await;
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
    let mut sent = Vec::new();
    for it in bed.door.asked() {
        match it.what.as_str() {
            "GET secrets" => sent.push(it.at),
            "DELETE configmaps" => {
                // The latest answer that had arrived.
                let answered = sent.iter().rev().find(|at| it.at - **at >= SLOW);
                let age = it.at - *answered.expect("an answer");
                assert!(age <= SLOW + Duration::from_secs(1), "{age:?}");
            }
            _ => {}
        }
    }
    assert_eq!(bed.door.count("DELETE configmaps"), MANY);
}
