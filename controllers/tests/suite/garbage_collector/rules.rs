//! Rules of garbage collection: dry run, references, cycles, scope, terms and kinds.

use steersman_manager::controller::Unhealthy;

use super::*;

#[tokio::test(start_paused = true)]
async fn dry_run_writes_nothing_and_becomes_idle() {
    let f = unstarted();
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    f.run(f.build(options, Scope::default()));
    f.sleep(Duration::from_secs(2)).await;
    let owner = f.create_owner("owner", 10).await;
    f.create(&MAPS, "lost", &[dangling(&SECRETS, "never")]).await;
    f.create(&NODES, "node", &[]).await;
    f.delete(&SECRETS, &owner, Propagation::Background).await;
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let owner = f
            .create(&SECRETS, &format!("{policy:?}").to_lowercase(), &[])
            .await;
        f.create(&PODS, &format!("{policy:?}").to_lowercase(), &[blocking(&owner)])
            .await;
        f.settle().await;
        f.delete(&SECRETS, &owner, policy).await;
    }
    f.sleep(HOUR).await;
    assert_eq!(f.api.writes(), 0);
    assert_eq!(f.left(&MAPS).await, 10);
    assert!(f.api.recorded().len() <= 5, "{:?}", f.api.counts());
    let would = |action: &str| {
        let name = "steersman_garbage_collector_objects_total";
        f.metric(&format!("{name}{{action=\"{action}\",dry_run=\"true\"}}"))
    };
    assert_eq!(would("delete"), Some(12.0));
    assert_eq!(would("remove_owners"), Some(1.0));
    assert_eq!(would("remove_finalizer"), Some(1.0));
    assert!(f.list(&EVENTS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unresolvable_references_delete_nothing_and_cost_no_requests() {
    let f = fixture().await;
    let unknown = json!({"apiVersion": "gone.dev/v1", "kind": "Thing", "name": "x", "uid": "1"});
    let unserved = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "x", "uid": "2"});
    for (i, reference) in [unknown, unserved].iter().enumerate() {
        f.create(&MAPS, &format!("dependent-{i}"), std::slice::from_ref(reference))
            .await;
    }
    // A cluster-scoped dependent of a namespaced owner: the namespace is unknown.
    f.create(&ROLES, "role", &[dangling(&SECRETS, "x")]).await;
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts().len(), 0, "{:?}", f.api.counts());
    assert_eq!(f.left(&MAPS).await, 2);
    assert!(f.get(&ROLES, "role").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn owner_in_another_namespace_is_absent_and_reported_by_an_event() {
    let f = fixture().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    f.create(&MAPS, "dependent-good", &[reference(&owner)]).await;
    f.create(&NAMESPACES, "elsewhere", &[]).await;
    let body = object(&MAPS, "bad", &[reference(&owner)]);
    let body = body.to_string().into();
    let bad: Result<Value, _> = f.admin.create(&MAPS, "elsewhere", body).await;
    bad.expect("created");
    f.until(async |f| {
        let key = Key::new("elsewhere", "bad");
        f.admin.get::<Value>(&MAPS, &key).await.is_err()
    })
    .await;
    f.sleep(Duration::from_secs(5)).await;
    assert!(f.get(&MAPS, "dependent-good").await.is_some());
    let query = ListQuery::default();
    let events = f.admin.list(&EVENTS, "elsewhere", &query, View::Full).await;
    let events: Value = serde_json::from_slice(&events.expect("a list")).expect("JSON");
    let event = &events["items"][0];
    assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["source"]["component"], "garbage-collector-controller");
    let message = event["message"].as_str().expect("a message");
    let start = "ownerRef [v1/Secret, namespace: elsewhere, name: owner, uid: ";
    assert!(message.starts_with(start) && message.ends_with("does not exist in namespace \"elsewhere\""));
}

#[tokio::test(start_paused = true)]
async fn cycle_of_blocking_dependents_is_deleted() {
    for policy in [Propagation::Foreground, Propagation::Background] {
        let f = fixture().await;
        let a = f.create(&SECRETS, "a", &[]).await;
        let b = f.create(&MAPS, "b", &[blocking(&a)]).await;
        let back = json!({"metadata": {"ownerReferences": [blocking(&b)]}});
        let a = f.patch(&SECRETS, "a", &back).await;
        f.settle().await;
        f.delete(&SECRETS, &a, policy).await;
        f.until(async |f| f.get(&SECRETS, "a").await.is_none() && f.get(&MAPS, "b").await.is_none())
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn collector_with_a_restricted_scope_does_not_run() {
    for scope in [
        Scope {
            namespaces: vec!["default".to_owned()],
            ..Scope::default()
        },
        Scope {
            label_selector: "a=b".to_owned(),
            ..Scope::default()
        },
    ] {
        let f = unstarted();
        let collector = f.build(Options::default(), scope);
        let health = collector.health();
        assert!(
            matches!(&health, Err(Unhealthy::Refused { reason }) if reason.contains("--namespaces")),
            "{health:?}"
        );
        f.run(collector);
        f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
            .await;
        f.sleep(HOUR).await;
        assert_eq!((f.left(&MAPS).await, f.api.recorded().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn new_term_rebuilds_the_graph_and_leaves_no_tasks() {
    let f = unstarted();
    let collector = f.build(Options::default(), Scope::default());
    let fence = Fence::new(f.env.clock.clone());
    for round in 0..3 {
        let owner = f.create_owner("owner", 5).await;
        let (term, stop) = (fence.open_forever(), CancellationToken::new());
        let mut run = std::pin::pin!(collector.run(&fence, term, stop.clone()));
        let clock = f.env.clock.clone();
        assert!(clock.timeout(Duration::from_secs(5), &mut run).await.is_none());
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        assert!(clock.timeout(Duration::from_secs(5), &mut run).await.is_none());
        assert_eq!(f.left(&MAPS).await, 0, "{round}");
        if round == 1 {
            fence.close();
        } else {
            stop.cancel();
        }
        let ended = clock.timeout(Duration::from_secs(1), run).await;
        ended.expect("within a second").expect("no error");
        assert!(collector.running().is_empty());
        // Nothing is sent between terms.
        let count = f.api.recorded().len();
        f.create(&MAPS, "lost", &[dangling(&SECRETS, "never")]).await;
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.api.recorded().len(), count);
        let lost = f.get(&MAPS, "lost").await.expect("it exists");
        f.delete(&MAPS, &lost, Propagation::Background).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kind_no_longer_collected_deletes_nothing() {
    let f = fixture().await;
    f.define_widgets().await;
    let owner = f.create(&WIDGETS, "owner", &[]).await;
    f.create_dependents(&MAPS, &owner, 5).await;
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    f.sleep(HOUR).await;
    assert_eq!((f.left(&MAPS).await, f.api.writes()), (5, 0));
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS, WIDGETS])));
    f.sleep(Duration::from_secs(5)).await;
    f.delete(&WIDGETS, &owner, Propagation::Background).await;
    f.until(async |f| f.left(&MAPS).await == 0).await;
}

/// Objects deleted while their kind is not watched leave no nodes, neither owners nor blocking dependents.
#[tokio::test(start_paused = true)]
async fn kind_collected_again_has_no_stale_nodes() {
    let f = fixture().await;
    f.define_widgets().await;
    let owner = f.create(&SECRETS, "owner", &[]).await;
    let blocker = f.create(&WIDGETS, "blocker", &[blocking(&owner)]).await;
    f.create_dependents(&MAPS, &blocker, 5).await;
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    f.sleep(Duration::from_secs(10)).await;
    f.delete(&WIDGETS, &blocker, Propagation::Background).await;
    f.sleep(Duration::from_secs(1)).await;
    f.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS, WIDGETS])));
    f.until(async |f| f.left(&MAPS).await == 0).await;
    f.delete(&SECRETS, &owner, Propagation::Foreground).await;
    f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
}

/// A monitor replaced while its kind stays would leave nodes without a cache.
#[tokio::test(start_paused = true)]
async fn kinds_published_again_keep_their_monitors() {
    let f = fixture().await;
    let reads = |f: &Fixture| f.api.all_recorded().iter().filter(|it| !it.by_controller).count();
    let before = reads(&f);
    for round in 0..3 {
        let owner = f.create_owner("owner", 5).await;
        let all = [MAPS, SECRETS, PODS, NODES, ROLES, SETS];
        f.kinds.send_replace(Some(kinds_of(&all)));
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.sleep(Duration::from_secs(2)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{round}");
    }
    assert_eq!(reads(&f), before);
}

#[tokio::test(start_paused = true)]
async fn unserved_kind_triggers_discovery_once() {
    let f = fixture().await;
    let all = [MAPS, SECRETS, WIDGETS];
    let notified = std::pin::pin!(f.refresh.notified());
    f.kinds.send_replace(Some(kinds_of(&all)));
    let clock = &f.env.clock;
    let limit = Duration::from_secs(1);
    assert!(clock.timeout(limit, notified).await.is_some(), "404");
    let again = clock.timeout(HOUR, f.refresh.notified()).await;
    assert!(again.is_none(), "more than once");
}
