//! API servers that take seconds to answer.

use http::Method;

use super::*;

const SLOW: Duration = Duration::from_secs(5);
const MANY: usize = 65;

async fn create_blocked_owner(f: &Fixture, count: usize) -> Value {
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
            Effect::DelayAnswer(time)
        } else {
            Effect::Pass
        }
    });
}

async fn measure_until(f: &Fixture, holds: impl AsyncFn(&Fixture) -> bool) -> Duration {
    let start = f.env.clock.now();
    f.until(holds).await;
    f.env.clock.now() - start
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_finishes_with_slow_gets() {
    for (time, limit) in [
        (Duration::from_secs(3), Duration::from_secs(12)),
        (SLOW, Duration::from_secs(20)),
        (Duration::from_secs(8), Duration::from_secs(30)),
    ] {
        let f = fixture().await;
        slow_gets(&f, time);
        let owner = create_blocked_owner(&f, MANY).await;
        f.delete(&SECRETS, &owner, Propagation::Foreground).await;
        let took = measure_until(&f, async |f| f.get(&SECRETS, "owner").await.is_none()).await;
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
    let owner = create_blocked_owner(&f, 500).await;
    let other = f.create(&SECRETS, "other", &[]).await;
    f.create_dependents(&PODS, &other, 20).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.sleep(Duration::from_millis(200)).await;
    f.delete(&SECRETS, &other, Propagation::Background).await;
    let took = measure_until(&f, async |f| f.left(&PODS).await == 0).await;
    assert!(took <= Duration::from_millis(500), "{took:?}");
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn gets_slower_than_ten_seconds_delete_nothing_and_back_off() {
    let f = fixture().await;
    slow_gets(&f, Duration::from_secs(12));
    let owner = create_blocked_owner(&f, MANY).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.left(&MAPS).await, MANY);
    let gets = f.api.count("GET secrets");
    // One at a time.
    assert!((2..=51).contains(&gets), "{gets}");
    f.api.inject_all(|_| Effect::Pass);
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!(f.left(&MAPS).await, 0);
}

#[tokio::test(start_paused = true)]
async fn owner_orphaned_during_a_slow_get_keeps_its_dependents() {
    let f = fixture().await;
    slow_gets(&f, SLOW);
    // An earlier deletion measures the latency of the server.
    let first = f.create(&SECRETS, "first", &[]).await;
    f.create(&PODS, "dependent-0", &[blocking(&first)]).await;
    f.settle().await;
    f.delete(&SECRETS, &first, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "first").await.is_none()).await;
    let owner = create_blocked_owner(&f, MANY).await;
    f.api.reset();
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.api.count("GET secrets") == 1).await;
    f.sleep(Duration::from_secs(2)).await;
    // The response in flight shows a foreground deletion; the cache shows the orphan finalizer before it arrives.
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, MANY);
    assert_eq!(f.api.count("DELETE configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn live_read_of_a_slow_server_expires_within_its_latency_and_a_second() {
    let f = unstarted();
    let limit = steersman_manager::client::RateLimit { qps: 10.0, burst: 1 };
    let client = f.transport.reader("generic-garbage-collector", Some(limit));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    slow_gets(&f, SLOW);
    let owner = create_blocked_owner(&f, MANY).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    let mut sent = Vec::new();
    for it in f.api.recorded() {
        match it.operation.as_str() {
            "GET secrets" => sent.push(it.at),
            "DELETE configmaps" => {
                // The latest read whose response had arrived.
                let read = sent.iter().rev().find(|at| it.at - **at >= SLOW);
                let age = it.at - *read.expect("a response");
                assert!(age <= SLOW + Duration::from_secs(1), "{age:?}");
            }
            _ => {}
        }
    }
    assert_eq!(f.api.count("DELETE configmaps"), MANY);
}

/// With a dead admission webhook whose failures are ignored, every write takes as long as the timeout of the webhook.
#[tokio::test(start_paused = true)]
async fn writes_that_take_ten_seconds_are_not_repeated() {
    const DEPENDENTS: usize = 30;
    let f = fixture().await;
    f.api.inject_all(|it| {
        if it.by_controller && it.method != Method::GET {
            Effect::Delay(Duration::from_secs(10))
        } else {
            Effect::Pass
        }
    });
    // All dependents are orphaned.
    let owner = f.create_owner("owner", DEPENDENTS).await;
    f.delete(&SECRETS, &owner, Propagation::Orphan).await;
    let took = measure_until(&f, async |f| f.get(&SECRETS, "owner").await.is_none()).await;
    assert!(took <= Duration::from_secs(40), "{took:?}");
    let writes = (
        f.api.count("PATCH configmaps"),
        f.api.count("PATCH secrets"),
        f.api.writes(),
    );
    assert_eq!(writes, (DEPENDENTS, 1, DEPENDENTS + 1));
    f.api.reset();
    // A dependent with another owner blocks a foreground deletion until it is patched.
    let [blocked, solid] = [
        f.create(&SECRETS, "blocked", &[]).await,
        f.create(&SECRETS, "solid", &[]).await,
    ];
    f.create(&PODS, "dependent-0", &[blocking(&blocked), reference(&solid)])
        .await;
    f.settle().await;
    f.delete(&SECRETS, &blocked, Propagation::Foreground).await;
    let took = measure_until(&f, async |f| f.get(&SECRETS, "blocked").await.is_none()).await;
    assert!(took <= Duration::from_secs(25), "{took:?}");
    let writes = (
        f.api.count("PATCH pods"),
        f.api.count("PATCH secrets"),
        f.api.writes(),
    );
    assert_eq!(writes, (1, 1, 2));
    assert_eq!((f.left(&PODS).await, f.left(&MAPS).await), (1, DEPENDENTS));
}

/// The owners of one object need several passes, which follow each other at once, also if the backoff of the object is long.
#[tokio::test(start_paused = true)]
async fn object_with_many_foreground_owners_is_deleted_after_an_outage_of_reads() {
    const OWNERS: usize = 100;
    let f = fixture().await;
    let mut owners = Vec::new();
    for n in 0..OWNERS {
        owners.push(f.create(&SECRETS, &format!("owner-{n}"), &[]).await);
    }
    let references: Vec<Value> = owners.iter().map(blocking).collect();
    f.create(&MAPS, "dependent-0", &references).await;
    f.settle().await;
    f.api.inject_all(|it| match it.operation.as_str() {
        "GET secrets" if it.by_controller => status_reply(500, json!({"reason": "InternalError"})),
        _ => Effect::Pass,
    });
    for owner in &owners {
        f.delete(&SECRETS, owner, Propagation::Foreground).await;
    }
    f.sleep(HOUR).await;
    assert_eq!(f.left(&MAPS).await, 1);
    slow_gets(&f, Duration::from_millis(400));
    f.api.reset();
    // The backoff, and the reads.
    f.sleep(Duration::from_secs(70)).await;
    assert_eq!((f.left(&MAPS).await, f.list(&SECRETS).await.len()), (0, 0));
    assert_eq!(
        (f.api.count("GET secrets"), f.api.count("DELETE configmaps")),
        (OWNERS, 1)
    );
}
