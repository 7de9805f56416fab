//! Name collisions of `ReplicaSet`s.

use serde_json::json;
use steersman_harness::Test;
use steersman_harness::fixtures::with;

use super::fixture::Fixture;
use super::objects::{HASH, controller, deployment, image, name, replica_set, text};

pub fn tests() -> Vec<Test> {
    vec![
        fixture_test!(name_collision_changes_the_hash),
        fixture_test!(released_set_keeps_its_name),
        fixture_test!(recreated_deployment_does_not_take_sets_of_the_first),
        fixture_test!(set_with_a_changed_template_is_old),
        fixture_test!(set_with_a_changed_template_does_not_block_a_rollout),
        fixture_test!(collision_count_is_kept),
    ]
}

async fn name_collision_changes_the_hash(s: Fixture) {
    let first = s.completed(deployment("a", 0)).await;
    let taken = name(&s.set_of(&first, "i:1").await);
    s.delete(&first).await;
    // The garbage collector may have deleted it already.
    s.completed(deployment("b", 0)).await;
    drop(s.c.api().delete(&s.path("replicasets", &taken), ()).await);
    let foreign = s.create_set(replica_set("foreign", &taken, 0)).await;

    let d = s.completed(deployment("a", 2)).await;
    let now = s.get(&d).await;
    assert_eq!(now["status"]["collisionCount"], 1, "{now:#}");
    let set = s.set_of(&d, "i:1").await;
    assert_ne!(name(&set), taken);
    assert_eq!(
        name(&set),
        format!("a-{}", text(&set["metadata"]["labels"][HASH]))
    );
    s.has_pods("i:1", 2).await;
    let now = s.get_set(&taken).await;
    assert_eq!(now["metadata"]["uid"], foreign["metadata"]["uid"]);
    for field in ["labels", "annotations", "ownerReferences"] {
        assert_eq!(now["metadata"][field], foreign["metadata"][field], "{now:#}");
    }
    assert_eq!(now["spec"], foreign["spec"]);
}

async fn released_set_keeps_its_name(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let lost = s.set_of(&d, "i:1").await;
    let change = json!({"metadata": {"labels": {"app": "b"}}});
    s.change_set(&name(&lost), change).await;
    let now = s
        .status(&d, "it needs another", |status| status["collisionCount"] == 1)
        .await;
    // Until the new one is created, the status counts the lost one.
    s.has_sizes(&d, &[("i:1", 2)]).await;
    s.complete(&d).await;
    let set = s.set_of(&d, "i:1").await;
    assert_ne!(name(&set), name(&lost), "{now:#}");
    let now = s.get_set(&name(&lost)).await;
    assert_eq!(controller(&now), None, "{now:#}");
    assert_eq!(now["spec"], lost["spec"]);
}

/// While the `ReplicaSet`s of the first still exist.
async fn recreated_deployment_does_not_take_sets_of_the_first(s: Fixture) {
    let first = s.completed(deployment("a", 1)).await;
    let old = s.set_of(&first, "i:1").await;
    s.add_finalizer(&name(&old)).await;
    s.delete(&first).await;
    let second = s.completed(deployment("a", 1)).await;
    assert_ne!(first.uid, second.uid);
    let new = s.set_of(&second, "i:1").await;
    assert_ne!(name(&new), name(&old));
    assert_eq!(s.get(&second).await["status"]["collisionCount"], 1);
    let now = s.get_set(&name(&old)).await;
    assert_eq!(controller(&now), Some(&*first.uid));
    assert_eq!(now["spec"], old["spec"]);
}

/// The template identifies a `ReplicaSet`, not the name.
async fn set_with_a_changed_template_is_old(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let changed = name(&s.set_of(&d, "i:1").await);
    s.change_set(&changed, image("i:9")).await;
    s.status(&d, "it has another", |status| status["collisionCount"] == 1)
        .await;
    s.complete(&d).await;
    s.has_sizes(&d, &[("i:1", 2), ("i:9", 0)]).await;
    let now = s.get_set(&changed).await;
    assert_eq!(controller(&now), Some(&*d.uid));
}

async fn set_with_a_changed_template_does_not_block_a_rollout(s: Fixture) {
    let d = s.completed(deployment("a", 2)).await;
    let changed = name(&s.set_of(&d, "i:1").await);
    s.change_set(&changed, image("i:9")).await;
    s.rolled_out(&d, "i:2").await;
    let sizes = s.sizes(&d).await;
    assert_eq!((sizes["i:2"], sizes.values().sum::<u64>()), (2, 2), "{sizes:?}");
}

async fn collision_count_is_kept(s: Fixture) {
    let d = s.completed(deployment("a", 1)).await;
    let lost = name(&s.set_of(&d, "i:1").await);
    s.change_set(&lost, json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.status(&d, "it has another", |status| status["collisionCount"] == 1)
        .await;
    s.rolled_out(&d, "i:2").await;
    s.scale(&d, 2).await;
    let now = s.complete(&d).await;
    assert_eq!(now["status"]["collisionCount"], 1, "{now:#}");
    // The hash without the collision count is not used again.
    let now = s.rolled_out(&d, "i:1").await;
    assert_eq!(now["status"]["collisionCount"], 1, "{now:#}");
    let wanted = with(json!({}), json!({"i:1": 2, "i:2": 0}));
    assert_eq!(json!(s.sizes(&d).await), wanted);
}
