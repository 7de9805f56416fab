//! Servers that take seconds to answer a GET.

use super::*;

const SLOW: Duration = Duration::from_secs(5);
const MANY: usize = 65;

async fn blocked(f: &Fixture, count: usize) -> Value {
    let owner = f.create(&SECRETS, "owner", &[]).await;
    for i in 0..count {
        f.create(&MAPS, &format!("dependent-{i}"), &[blocking(&owner)])
            .await;
    }
    f.settle().await;
    owner
}

fn slow_gets(f: &Fixture, time: Duration) {
    f.api.inject_all(move |it| {
        if it.by_controller && it.operation.starts_with("GET") {
            Fault::SlowResponse(time)
        } else {
            Fault::None
        }
    });
}

async fn time_until(f: &Fixture, holds: impl AsyncFn(&Fixture) -> bool) -> Duration {
    let start = f.env.clock.now();
    f.until(holds).await;
    f.env.clock.now() - start
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_finishes_although_each_get_takes_seconds() {
    for (time, limit) in [
        (Duration::from_secs(3), Duration::from_secs(12)),
        (SLOW, Duration::from_secs(20)),
        (Duration::from_secs(8), Duration::from_secs(30)),
    ] {
        let f = fixture().await;
        slow_gets(&f, time);
        let owner = blocked(&f, MANY).await;
        f.delete(&SECRETS, &owner, Propagation::Foreground).await;
        let took = time_until(&f, async |f| f.get(&SECRETS, "owner").await.is_none()).await;
        assert!(took <= limit, "{took:?} with GETs of {time:?}");
        assert_eq!(f.left(&MAPS).await, 0);
        let gets = f.api.count("GET secrets");
        assert!(gets <= 4, "{gets}");
        assert_eq!(f.api.count("DELETE configmaps"), MANY);
    }
}

#[tokio::test(start_paused = true)]
async fn background_deletion_is_not_delayed_by_slow_gets() {
    let f = fixture().await;
    slow_gets(&f, SLOW);
    let owner = blocked(&f, 500).await;
    let other = f.create(&SECRETS, "other", &[]).await;
    f.dependents(&PODS, &other, 20).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.sleep(Duration::from_millis(200)).await;
    f.delete(&SECRETS, &other, Propagation::Background).await;
    let took = time_until(&f, async |f| f.left(&PODS).await == 0).await;
    assert!(took <= Duration::from_millis(500), "{took:?}");
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_take_longer_than_ten_seconds_delete_nothing_and_are_not_requested_all_the_time() {
    let f = fixture().await;
    slow_gets(&f, Duration::from_secs(12));
    let owner = blocked(&f, MANY).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.left(&MAPS).await, MANY);
    let gets = f.api.count("GET secrets");
    // One at a time.
    assert!((2..=51).contains(&gets), "{gets}");
    f.api.inject_all(|_| Fault::None);
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.left(&MAPS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_orphaned_during_a_slow_get_keeps_its_dependents() {
    let f = fixture().await;
    slow_gets(&f, SLOW);
    // The latency of the server is known from an earlier deletion.
    let first = f.create(&SECRETS, "first", &[]).await;
    f.create(&PODS, "dependent-0", &[blocking(&first)]).await;
    f.settle().await;
    f.delete(&SECRETS, &first, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "first").await.is_none()).await;
    let owner = blocked(&f, MANY).await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.api.count("GET secrets") == 1).await;
    f.sleep(Duration::from_secs(2)).await;
    // The answer on its way says that the owner waits; the cache shows the orphan finalizer before it arrives.
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, MANY);
    assert_eq!(f.api.count("DELETE configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_answer_of_a_slow_server_expires_within_its_latency_and_a_second() {
    let f = bare();
    let limit = coxswain_manager::client::RateLimit { qps: 10.0, burst: 1 };
    let client = f.transport.client("generic-garbage-collector", Some(limit));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    slow_gets(&f, SLOW);
    let owner = blocked(&f, MANY).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    let mut sent = Vec::new();
    for it in f.api.recorded() {
        match it.operation.as_str() {
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
    assert_eq!(f.api.count("DELETE configmaps"), MANY);
}
