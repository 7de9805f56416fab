//! What is collected, and what is left alone.

use coxswain_manager::controller::Unhealthy;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_and_ends() {
    let bed = bare();
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    bed.run(bed.build(options, Scope::default()));
    bed.sleep(Duration::from_secs(2)).await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 10).await;
    bed.create(&MAPS, "lost", &[dangling(&SECRETS, "never")]).await;
    bed.create(&NODES, "node", &[]).await;
    bed.delete(&SECRETS, &owner, Propagation::Background).await;
    for policy in [Propagation::Foreground, Propagation::Orphan] {
        let owner = bed
            .create(&SECRETS, &format!("{policy:?}").to_lowercase(), &[])
            .await;
        bed.create(&PODS, &format!("{policy:?}").to_lowercase(), &[blocking(&owner)])
            .await;
        bed.settle().await;
        bed.delete(&SECRETS, &owner, policy).await;
    }
    bed.sleep(HOUR).await;
    assert_eq!(bed.door.writes(), 0);
    assert_eq!(bed.left(&MAPS).await, 10);
    assert!(bed.door.asked().len() <= 5, "{:?}", bed.door.counts());
    let would = |action: &str| {
        let name = "coxswain_garbage_collector_objects_total";
        bed.metric(&format!("{name}{{action=\"{action}\",dry_run=\"true\"}}"))
    };
    assert_eq!(would("delete"), Some(12.0));
    assert_eq!(would("remove_owners"), Some(1.0));
    assert_eq!(would("remove_finalizer"), Some(1.0));
    assert!(bed.list(&EVENTS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn references_that_nobody_can_resolve_delete_nothing_and_cost_nothing() {
    let bed = bed().await;
    let unknown = json!({"apiVersion": "gone.dev/v1", "kind": "Thing", "name": "x", "uid": "1"});
    let unserved = json!({"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "x", "uid": "2"});
    for (i, reference) in [unknown, unserved].iter().enumerate() {
        bed.create(&MAPS, &format!("dependent-{i}"), std::slice::from_ref(reference))
            .await;
    }
    // A cluster-scoped object of one in a namespace: nobody can say in which.
    bed.create(&ROLES, "role", &[dangling(&SECRETS, "x")]).await;
    bed.sleep(Duration::from_mins(10)).await;
    assert_eq!(bed.door.counts().len(), 0, "{:?}", bed.door.counts());
    assert_eq!(bed.left(&MAPS).await, 2);
    assert!(bed.get(&ROLES, "role").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_told_and_harms_only_who_refers_to_it() {
    let bed = bed().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    bed.create(&MAPS, "dependent-good", &[reference(&owner)]).await;
    let namespaces = Resource::cluster("", "v1", "namespaces", "Namespace");
    bed.create(&namespaces, "elsewhere", &[]).await;
    let body = object(&MAPS, "bad", &[reference(&owner)]);
    let body = body.to_string().into();
    let bad: Result<Value, _> = bed.admin.create(&MAPS, "elsewhere", body).await;
    bad.expect("created");
    bed.until(async |bed| {
        let key = Key::new("elsewhere", "bad");
        bed.admin.get::<Value>(&MAPS, &key).await.is_err()
    })
    .await;
    bed.sleep(Duration::from_secs(5)).await;
    assert!(bed.get(&MAPS, "dependent-good").await.is_some());
    let query = ListQuery::default();
    let events = bed.admin.list(&EVENTS, "elsewhere", &query, View::Full).await;
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
async fn a_circle_of_those_who_wait_for_each_other_is_opened() {
    for policy in [Propagation::Foreground, Propagation::Background] {
        let bed = bed().await;
        let a = bed.create(&SECRETS, "a", &[]).await;
        let b = bed.create(&MAPS, "b", &[blocking(&a)]).await;
        let back = json!({"metadata": {"ownerReferences": [blocking(&b)]}});
        let a = bed.patch(&SECRETS, "a", &back).await;
        bed.settle().await;
        bed.delete(&SECRETS, &a, policy).await;
        bed.until(async |bed| bed.get(&SECRETS, "a").await.is_none() && bed.get(&MAPS, "b").await.is_none())
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_part_of_the_cluster_it_refuses_to_run() {
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
        let bed = bare();
        let collector = bed.build(Options::default(), scope);
        let health = collector.health();
        assert!(
            matches!(&health, Err(Unhealthy::Refused { reason }) if reason.contains("--namespaces")),
            "{health:?}"
        );
        bed.run(collector);
        bed.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
            .await;
        bed.sleep(HOUR).await;
        assert_eq!((bed.left(&MAPS).await, bed.door.asked().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn each_term_begins_anew_and_leaves_nothing_behind() {
    let bed = bare();
    let collector = bed.build(Options::default(), Scope::default());
    let fence = Fence::new(bed.env.clock.clone());
    for round in 0..3 {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, 5).await;
        let (term, stop) = (fence.open_for_ever(), CancellationToken::new());
        let mut run = std::pin::pin!(collector.run(&fence, term, stop.clone()));
        let clock = bed.env.clock.clone();
        assert!(clock.timeout(Duration::from_secs(5), &mut run).await.is_none());
        bed.delete(&SECRETS, &owner, Propagation::Background).await;
        assert!(clock.timeout(Duration::from_secs(5), &mut run).await.is_none());
        assert_eq!(bed.left(&MAPS).await, 0, "{round}");
        if round == 1 {
            fence.close();
        } else {
            stop.cancel();
        }
        let ended = clock.timeout(Duration::from_secs(1), run).await;
        ended.expect("at once").expect("in order");
        assert!(collector.running().is_empty());
        // Between terms nobody acts.
        let count = bed.door.asked().len();
        bed.create(&MAPS, "lost", &[dangling(&SECRETS, "never")]).await;
        bed.sleep(Duration::from_mins(1)).await;
        assert_eq!(bed.door.asked().len(), count);
        let lost = bed.get(&MAPS, "lost").await.expect("it is there");
        bed.delete(&MAPS, &lost, Propagation::Background).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_no_longer_collected_takes_nothing_with_it() {
    let bed = bed().await;
    bed.define_widgets().await;
    let owner = bed.create(&WIDGETS, "owner", &[]).await;
    bed.dependents(&MAPS, &owner, 5).await;
    bed.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    bed.sleep(HOUR).await;
    assert_eq!((bed.left(&MAPS).await, bed.door.writes()), (5, 0));
    bed.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS, WIDGETS])));
    bed.sleep(Duration::from_secs(5)).await;
    bed.delete(&WIDGETS, &owner, Propagation::Background).await;
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
}

/// Objects that are deleted while their kind is not watched leave no nodes behind: neither owners nor blocking dependents.
#[tokio::test(start_paused = true)]
async fn kind_that_returns_has_no_ghost_nodes() {
    let bed = bed().await;
    bed.define_widgets().await;
    let owner = bed.create(&SECRETS, "owner", &[]).await;
    let blocker = bed.create(&WIDGETS, "blocker", &[blocking(&owner)]).await;
    bed.dependents(&MAPS, &blocker, 5).await;
    bed.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS])));
    bed.sleep(Duration::from_secs(10)).await;
    bed.delete(&WIDGETS, &blocker, Propagation::Background).await;
    bed.sleep(Duration::from_secs(1)).await;
    bed.kinds.send_replace(Some(kinds_of(&[MAPS, SECRETS, WIDGETS])));
    bed.until(async |bed| bed.left(&MAPS).await == 0).await;
    bed.delete(&SECRETS, &owner, Propagation::Foreground).await;
    bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
        .await;
}

/// A monitor that is replaced while its kind stays would leave nodes without a cache.
#[tokio::test(start_paused = true)]
async fn kinds_that_are_published_again_keep_their_monitors() {
    let bed = bed().await;
    let reads = |bed: &Bed| bed.door.all().iter().filter(|it| !it.ours).count();
    let before = reads(&bed);
    for round in 0..3 {
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, 5).await;
        let all = [MAPS, SECRETS, PODS, NODES, ROLES, SETS];
        bed.kinds.send_replace(Some(kinds_of(&all)));
        bed.delete(&SECRETS, &owner, Propagation::Background).await;
        bed.sleep(Duration::from_secs(2)).await;
        assert_eq!(bed.left(&MAPS).await, 0, "{round}");
    }
    assert_eq!(reads(&bed), before);
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_not_served_triggers_discovery_once() {
    let bed = bed().await;
    let all = [MAPS, SECRETS, WIDGETS];
    let notified = std::pin::pin!(bed.refresh.notified());
    bed.kinds.send_replace(Some(kinds_of(&all)));
    let clock = &bed.env.clock;
    let limit = Duration::from_secs(1);
    assert!(clock.timeout(limit, notified).await.is_some(), "404");
    let again = clock.timeout(HOUR, bed.refresh.notified()).await;
    assert!(again.is_none(), "once");
}
