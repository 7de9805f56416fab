//! A namespace with failing, hanging or excessive work does not delay other namespaces.

use std::collections::BTreeMap;

use steersman_manager::client::RateLimit;

use super::*;

const LIMIT: RateLimit = RateLimit { qps: 40.0, burst: 30 };
const SECOND: Duration = Duration::from_secs(1);

/// Returns a fixture with a rate-limited collector and a namespace `other` beside `default`.
async fn rate_limited() -> Fixture {
    let f = unstarted();
    let client = f.transport.reader("generic-garbage-collector", Some(LIMIT));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    f.create(&NAMESPACES, "other", &[]).await;
    f.sleep(Duration::from_secs(2)).await;
    f
}

/// Creates an owner with one config map in namespace `other`.
async fn create_pair(f: &Fixture, n: usize) -> Value {
    let create = async |resource: &Resource, name: String, owners: &[Value]| -> Value {
        let body = object(resource, &name, owners).to_string();
        let created = f.admin.create(resource, "other", body.into()).await;
        created.expect("created")
    };
    let owner = create(&SECRETS, format!("owner-{n}"), &[]).await;
    create(&MAPS, format!("healthy-{n}"), &[reference(&owner)]).await;
    owner
}

/// Deletes the owner in namespace `other` and returns the time until its config map is deleted.
async fn collect_pair(f: &Fixture, n: usize, owner: &Value) -> Duration {
    let uid = Uid::from(owner["metadata"]["uid"].as_str().expect("a uid"));
    let key = Key::new("other", format!("owner-{n}"));
    let start = f.env.clock.now();
    let deleted = f.admin.delete(&SECRETS, &key, &Delete::of(uid)).await;
    deleted.expect("deleted");
    let map = Key::new("other", format!("healthy-{n}"));
    while f.admin.get::<Value>(&MAPS, &map).await.is_ok() {
        f.sleep(Duration::from_millis(10)).await;
        assert!(f.env.clock.now() - start < HOUR, "{:#?}", f.api.counts());
    }
    f.env.clock.now() - start
}

/// Returns an effect that answers with a Status after this time.
fn slow_status(time: Duration, code: u16) -> Effect {
    Effect::All(vec![Effect::Delay(time), status_reply(code, json!({}))])
}

fn is_delete_in_default(it: &Recorded) -> bool {
    it.operation == "DELETE configmaps" && it.path.contains("/namespaces/default/")
}

/// Deletes ten owners in namespace `other` at different times after `begin` has caused work in `default`.
async fn assert_other_namespace_is_not_delayed(f: &Fixture, begin: impl AsyncFnOnce()) {
    let mut owners = Vec::new();
    for n in 0..10 {
        owners.push(create_pair(f, n).await);
    }
    f.settle().await;
    begin().await;
    for (n, owner) in owners.iter().enumerate() {
        let took = collect_pair(f, n, owner).await;
        assert!(took <= SECOND, "{n}: {took:?}");
        f.sleep(Duration::from_millis(700 * n as u64)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn failing_deletes_do_not_delay_other_namespaces() {
    for code in [500, 502, 504, 403, 429] {
        let f = rate_limited().await;
        let owner = f.create_owner("owner", 50).await;
        f.api.inject_all(move |it| {
            if is_delete_in_default(it) {
                status_reply(code, json!({"reason": "InternalError"}))
            } else {
                Effect::Pass
            }
        });
        assert_other_namespace_is_not_delayed(&f, async || {
            f.delete(&SECRETS, &owner, Propagation::Background).await;
        })
        .await;
        // Each object has its own backoff.
        f.sleep(Duration::from_mins(5)).await;
        let sent = f.api.recorded_of("DELETE configmaps").len();
        f.sleep(Duration::from_mins(10)).await;
        let sent = f.api.recorded_of("DELETE configmaps").len() - sent;
        assert!((400..=500).contains(&sent), "{sent} in ten minutes, {code}");
        f.api.inject_all(|_| Effect::Pass);
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_deletes_do_not_delay_other_namespaces() {
    for fault in [
        Effect::Hang,
        slow_status(Duration::from_secs(10), 500),
        slow_status(Duration::from_secs(29), 504),
    ] {
        let f = rate_limited().await;
        let owner = f.create_owner("owner", 200).await;
        let injected = fault.clone();
        f.api.inject_all(move |it| {
            if is_delete_in_default(it) {
                injected.clone()
            } else {
                Effect::Pass
            }
        });
        assert_other_namespace_is_not_delayed(&f, async || {
            f.delete(&SECRETS, &owner, Propagation::Background).await;
            f.sleep(Duration::from_millis(100)).await;
        })
        .await;
        // One per worker before the circuit breaker opens, then probes after 1, 3 and 7 seconds.
        let sent = f.api.recorded_of("DELETE configmaps");
        let start = sent.iter().find(|it| is_delete_in_default(it)).expect("sent").at;
        let is_early = |it: &&Recorded| is_delete_in_default(it) && it.at - start < 9 * SECOND;
        let early = sent.iter().filter(is_early).count();
        assert!((20..=23).contains(&early), "{early} {fault:?}");
        f.sleep(Duration::from_mins(10)).await;
        let sent = f.api.recorded_of("DELETE configmaps").len();
        // The backoff of each object: 5 ms, doubled up to a minute.
        assert!(sent <= 200 * 23, "{sent} {fault:?}");
        f.api.inject_all(|_| Effect::Pass);
        f.sleep(Duration::from_mins(2)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_with_13000_owners_does_not_delay_other_namespaces() {
    const OWNERS: usize = 13_000;
    let f = rate_limited().await;
    let owners: Vec<Value> = (0..OWNERS)
        .map(|n| {
            // Reads of cluster-scoped owners count against the namespace of the dependent too.
            let resource = if n % 2 == 0 { SECRETS } else { NODES };
            let mut owner = dangling(&resource, &format!("absent-{n}"));
            owner["uid"] = json!(format!("00000000-0000-4000-8000-{n:012}"));
            owner
        })
        .collect();
    assert_other_namespace_is_not_delayed(&f, async || {
        f.create(&MAPS, "dependent-0", &owners).await;
        f.settle().await;
    })
    .await;
    assert_eq!(f.left(&MAPS).await, 1);
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.left(&MAPS).await, 0);
    // Each owner is read once.
    assert_eq!(f.api.count("GET secrets") + f.api.count("GET nodes"), OWNERS);
    assert_eq!(f.api.count("DELETE configmaps"), 11);
}

#[tokio::test(start_paused = true)]
async fn object_with_many_owners_of_an_unwatched_kind_is_evaluated() {
    let f = unstarted();
    let served = [MAPS, SECRETS].map(Kind::new);
    let kinds = Kinds::new(served, &BTreeSet::from([MAPS]));
    f.kinds.send_replace(Some(Arc::new(kinds)));
    let client = f.transport.reader("generic-garbage-collector", Some(LIMIT));
    f.run(f.build_with(client, Options::default(), Scope::default()));
    let mut owners = Vec::new();
    for n in 0..100 {
        let owner = f.create(&SECRETS, &format!("owner-{n}"), &[]).await;
        owners.push(reference(&owner));
    }
    owners.push(dangling(&SECRETS, "never"));
    f.create(&MAPS, "dependent-0", &owners).await;
    f.sleep(Duration::from_mins(1)).await;
    let map = f.get(&MAPS, "dependent-0").await.expect("it has owners");
    assert_eq!(
        map["metadata"]["ownerReferences"].as_array().map(Vec::len),
        Some(100)
    );
    assert_eq!(f.api.writes(), 1);
}

/// One pass takes one token of the rate limiter, so its number of reads is bounded.
#[tokio::test(start_paused = true)]
async fn owners_in_foreground_deletion_are_read_in_batches() {
    let f = rate_limited().await;
    let mut owners = Vec::new();
    for n in 0..100 {
        owners.push(f.create(&SECRETS, &format!("owner-{n}"), &[]).await);
    }
    let references: Vec<Value> = owners.iter().map(blocking).collect();
    f.create(&MAPS, "dependent-0", &references).await;
    f.settle().await;
    for owner in &owners {
        f.delete(&SECRETS, owner, Propagation::Foreground).await;
    }
    f.sleep(Duration::from_mins(1)).await;
    assert_eq!((f.left(&MAPS).await, f.list(&SECRETS).await.len()), (0, 0));
    let mut reads = BTreeMap::new();
    for read in f.api.recorded_of("GET secrets") {
        *reads.entry(read.at).or_insert(0) += 1;
    }
    assert_eq!(reads.values().max(), Some(&16), "{reads:?}");
}
