//! Live lists for orphaning: bounded, shared, and not in the way of anything else.

use coxswain_manager::client::Limit;

use super::*;

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
/// The namespaced kinds that are listed.
const LISTED: [&str; 4] = ["configmaps", "secrets", "pods", "replicasets"];

impl Bed {
    async fn create_in(&self, namespace: &str, resource: &Resource, name: &str, owners: &[Value]) -> Value {
        let body = object(resource, name, owners).to_string();
        let created = self.admin.create(resource, namespace, body.into()).await;
        created.expect("created")
    }

    async fn delete_in(&self, namespace: &str, resource: &Resource, object: &Value, policy: Propagation) {
        let uid = Uid::from(object["metadata"]["uid"].as_str().expect("a uid"));
        let key = Key::new(namespace, object["metadata"]["name"].as_str().expect("a name"));
        let delete = Delete::of(uid).propagating(policy);
        let deleted = self.admin.delete(resource, &key, &delete).await;
        deleted.expect("deleted");
    }

    /// Orphans a new secret with one config map, and returns the time that it took.
    async fn orphan_one(&self, n: usize) -> Duration {
        let owner = self.create(&SECRETS, &format!("owner-{n}"), &[]).await;
        self.create(&MAPS, &format!("dependent-{n}"), &[reference(&owner)])
            .await;
        self.settle().await;
        let start = self.env.clock.now();
        self.delete(&SECRETS, &owner, Propagation::Orphan).await;
        self.until(async |bed| bed.get(&SECRETS, &format!("owner-{n}")).await.is_none())
            .await;
        self.env.clock.now() - start
    }
}

#[tokio::test(start_paused = true)]
async fn orphaning_in_many_namespaces_lists_each_once_and_does_not_delay_deletes() {
    const COUNT: usize = 400;
    let bed = bare();
    let limit = Limit { qps: 10.0, burst: 10 };
    let client = bed.transport.client("generic-garbage-collector", Some(limit));
    bed.run(bed.build_with(client, Options::default(), Scope::default()));
    let mut owners = Vec::new();
    for n in 0..COUNT {
        let namespace = format!("many-{n}");
        bed.create(&NAMESPACES, &namespace, &[]).await;
        let owner = bed.create_in(&namespace, &SECRETS, "owner", &[]).await;
        bed.create_in(&namespace, &MAPS, "dependent", &[reference(&owner)])
            .await;
        owners.push((namespace, owner));
    }
    let other = bed.create(&SECRETS, "other", &[]).await;
    bed.dependents(&MAPS, &other, 1).await;
    bed.sleep(Duration::from_secs(5)).await;
    bed.door.reset();
    for (namespace, owner) in &owners {
        bed.delete_in(namespace, &SECRETS, owner, Propagation::Orphan)
            .await;
    }
    bed.sleep(Duration::from_mins(1)).await;
    // It goes on from namespace to namespace.
    assert!(bed.door.count("PATCH secrets") > 50, "{:?}", bed.door.counts());
    let start = bed.env.clock.now();
    bed.delete(&SECRETS, &other, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    let took = bed.env.clock.now() - start;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    bed.sleep(Duration::from_mins(5)).await;
    for resource in LISTED {
        assert_eq!(bed.door.count(&format!("LIST {resource}")), COUNT, "{resource}");
    }
    assert_eq!(bed.door.count("PATCH secrets"), COUNT);
    assert_eq!(bed.door.count("PATCH configmaps"), COUNT);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_owners_in_one_namespace_shares_a_list() {
    const COUNT: usize = 200;
    let bed = bed().await;
    let mut owners = Vec::new();
    for n in 0..COUNT {
        owners.push(bed.create(&SECRETS, &format!("owner-{n}"), &[]).await);
        bed.create(&MAPS, &format!("dependent-{n}"), &[reference(&owners[n])])
            .await;
    }
    bed.settle().await;
    bed.door.judge(|it| match it.what.as_str() {
        "LIST configmaps" => Answer::Slow(Duration::from_secs(1)),
        _ => Answer::Done,
    });
    for owner in &owners {
        bed.delete(&SECRETS, owner, Propagation::Orphan).await;
    }
    bed.until(async |bed| bed.list(&SECRETS).await.is_empty()).await;
    assert_eq!(bed.left(&MAPS).await, COUNT);
    let lists = bed.door.count("LIST configmaps");
    assert!(lists <= 2, "{lists}");
    assert_eq!(bed.door.count("PATCH configmaps"), COUNT);
}

#[tokio::test(start_paused = true)]
async fn an_unlistable_resource_delays_the_first_orphaning_only() {
    for answer in [
        Answer::Refused(403, json!({"reason": "Forbidden"})),
        Answer::Refused(500, json!({"reason": "InternalError"})),
        Answer::Plain(200, "{\"items\":"),
        Answer::Hangs,
    ] {
        let bed = bed().await;
        let broken = answer.clone();
        bed.door.judge(move |it| match it.what.as_str() {
            "LIST pods" if it.ours => broken.clone(),
            _ => Answer::Done,
        });
        let first = bed.orphan_one(0).await;
        assert!(first >= Duration::from_secs(30), "{first:?} {answer:?}");
        assert!(first <= Duration::from_secs(75), "{first:?} {answer:?}");
        let lists = bed.door.count("LIST pods");
        assert!(lists <= 4, "{lists} {answer:?}");
        for n in 1..10 {
            let took = bed.orphan_one(n).await;
            assert!(took <= Duration::from_secs(1), "{took:?} {answer:?}");
        }
        assert_eq!(bed.door.count("LIST pods"), lists, "{answer:?}");
        // It is tried now and then, until a list succeeds.
        bed.sleep(Duration::from_secs(30)).await;
        bed.orphan_one(10).await;
        assert_eq!(bed.door.count("LIST pods"), lists + 1, "{answer:?}");
        bed.door.judge(|_| Answer::Done);
        bed.sleep(Duration::from_secs(30)).await;
        bed.orphan_one(11).await;
        let series = "coxswain_garbage_collector_unlisted_total{resource=\"pods\"}";
        assert_eq!(bed.metric(series), Some(11.0), "{answer:?}");
        let before = bed.door.count("LIST pods");
        bed.orphan_one(12).await;
        assert_eq!(bed.door.count("LIST pods"), before + 1, "{answer:?}");
        assert_eq!(bed.metric(series), Some(11.0), "{answer:?}");
        assert_eq!(bed.left(&MAPS).await, 13, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_patch_does_not_cost_another_list() {
    let bed = bed().await;
    bed.door.judge(|it| match it.what.as_str() {
        "PATCH configmaps" if it.before < 5 => Answer::Refused(500, json!({"reason": "InternalError"})),
        _ => Answer::Done,
    });
    bed.orphan_one(0).await;
    assert_eq!(bed.door.count("PATCH configmaps"), 6);
    assert_eq!(bed.door.count("LIST configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_relists_only_what_is_behind() {
    let bed = bed().await;
    let owner = bed.create(&ROLES, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 3).await;
    // The other kinds are idle: their caches are at versions of long ago.
    bed.door.lag().hold_at("pods", bed.sandbox.revision());
    bed.create(&PODS, "dependent-0", &[reference(&owner)]).await;
    bed.settle().await;
    bed.door.reset();
    bed.delete(&ROLES, &owner, Propagation::Orphan).await;
    bed.until(async |bed| bed.get(&ROLES, "owner").await.is_none())
        .await;
    let all = bed.door.all();
    let relists = all.iter().filter(|it| !it.ours && it.what.starts_with("LIST"));
    let relists: Vec<_> = relists.map(|it| it.what.as_str()).collect();
    assert_eq!(relists, ["LIST pods"]);
    bed.door.lag().release();
    bed.sleep(HOUR).await;
    assert_eq!((bed.left(&MAPS).await, bed.left(&PODS).await), (3, 1));
}

impl Bed {
    /// Orphans a new secret with config maps on different pages, which only a live list shows.
    async fn orphan_paged(&self, n: usize) -> Duration {
        self.door.lag().hold_at("configmaps", self.sandbox.revision());
        let owner = self.create(&SECRETS, &format!("owner-{n}"), &[]).await;
        for name in ["a", "b", "z"] {
            self.create(&MAPS, &format!("{name}-{n}"), &[reference(&owner)])
                .await;
        }
        self.settle().await;
        self.door.reset();
        let start = self.env.clock.now();
        self.delete(&SECRETS, &owner, Propagation::Orphan).await;
        self.until(async |bed| bed.get(&SECRETS, &format!("owner-{n}")).await.is_none())
            .await;
        let took = self.env.clock.now() - start;
        self.door.lag().release();
        self.sleep(HOUR).await;
        for name in ["a", "b", "z"] {
            let orphan = self.get(&MAPS, &format!("{name}-{n}")).await.expect("an orphan");
            assert_eq!(orphan["metadata"].get("ownerReferences"), None);
        }
        took
    }

    /// The continue tokens of the first lists of config maps expire before the second page.
    fn expire(&self, tokens: usize) {
        let expired = std::sync::atomic::AtomicUsize::new(0);
        self.door.judge(move |it| {
            let continues = it.ours && it.what == "LIST configmaps" && it.query.contains("continue=");
            if continues && expired.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < tokens {
                Answer::Refused(410, json!({"reason": "Expired"}))
            } else {
                Answer::Done
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn list_whose_continue_token_expires_starts_again() {
    const UNLISTED: &str = "coxswain_garbage_collector_unlisted_total{resource=\"configmaps\"}";
    let bed = bed().await;
    for n in 0..600 {
        bed.create(&MAPS, &format!("map-{n}"), &[]).await;
    }
    bed.settle().await;
    for expired in 0..=3 {
        bed.expire(expired);
        let took = bed.orphan_paged(expired).await;
        assert!(took <= Duration::from_secs(1), "{expired}: {took:?}");
        assert_eq!(bed.door.count("LIST configmaps"), 2 * (expired + 1));
        assert_eq!(bed.door.count("PATCH configmaps"), 3, "{expired}");
    }
    assert_eq!(bed.metric(UNLISTED), None);
    // The fourth one counts as a failure: orphaning waits, and lists again.
    bed.expire(4);
    let took = bed.orphan_paged(4).await;
    assert!(took >= Duration::from_secs(10), "{took:?}");
    assert_eq!(bed.door.count("LIST configmaps"), 8 + 2);
    assert_eq!(bed.metric(UNLISTED), None);
    // A list that never ends does not delay orphaning without a limit.
    bed.expire(usize::MAX);
    let took = bed.orphan_paged(5).await;
    assert!(took <= Duration::from_secs(75), "{took:?}");
    assert_eq!(bed.metric(UNLISTED), Some(1.0));
}
