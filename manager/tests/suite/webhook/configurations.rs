//! Foreign changes of the webhook configurations.

use serde_json::json;

use super::{MUTATING, SECOND, VALIDATING, bytes, cluster, configuration};

#[tokio::test(start_paused = true)]
async fn only_bundles_of_own_webhooks_are_written() {
    let cluster = cluster().await;
    let mut before = Vec::new();
    for resource in [MUTATING, VALIDATING] {
        before.push(cluster.get(&resource, &configuration()).await.expect("an object"));
    }
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    for (resource, mut before) in [MUTATING, VALIDATING].into_iter().zip(before) {
        let mut after = cluster.get(&resource, &configuration()).await.expect("an object");
        let bundle = &mut after["webhooks"][0]["clientConfig"];
        assert!(
            bundle
                .as_object_mut()
                .expect("a config")
                .remove("caBundle")
                .is_some()
        );
        for object in [&mut before, &mut after] {
            let meta = object["metadata"].as_object_mut().expect("metadata");
            meta.retain(|key, _| key == "name" || key == "annotations" || key == "uid");
        }
        assert_eq!(after, before);
    }
}

#[tokio::test(start_paused = true)]
async fn changed_bundle_is_restored_immediately() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    cluster.serves(&leader, None).await;
    cluster.env.clock.sleep(SECOND).await;
    leader.faults.take();
    for wrong in [json!(bytes("hunter2")), json!(null)] {
        for resource in [MUTATING, VALIDATING] {
            let webhook = json!({"name": "ours.example.test", "clientConfig": {"caBundle": wrong}});
            cluster
                .patch(&resource, &configuration(), &json!({"webhooks": [webhook]}))
                .await;
            cluster.env.clock.sleep(SECOND).await;
            assert!(cluster.verified(&leader).await.is_some(), "{wrong}");
            let writes = leader.faults.take_writes();
            assert_eq!(writes.len(), 1, "{writes:?}");
            assert!(writes[0].contains(&*resource.plural), "{writes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recreated_configuration_gets_the_bundle() {
    let cluster = cluster().await;
    let leader = cluster.leader();
    let first = cluster.serves(&leader, None).await;
    cluster.delete(&MUTATING, &configuration()).await;
    cluster.env.clock.sleep(SECOND).await;
    cluster.configure(&MUTATING).await;
    cluster.env.clock.sleep(SECOND).await;
    assert_eq!(cluster.verified(&leader).await, Some(first));
}
