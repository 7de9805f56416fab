//! Names that are taken already.

use coxswain_tests::Test;
use coxswain_tests::fixtures::with;
use serde_json::json;

use super::objects::{HASH, controller, deployment, image, name, replica_set, text};
use super::stage::Stage;

/// What is registered of this surface.
pub fn tests() -> Vec<Test> {
    vec![
        staged!(a_name_that_is_taken_makes_another_hash),
        staged!(one_that_was_let_go_keeps_its_name),
        staged!(a_deployment_made_again_does_not_take_those_of_the_first),
        staged!(a_template_that_somebody_changes_is_another_one),
        staged!(a_template_that_somebody_changes_does_not_get_in_the_way),
        staged!(the_count_is_kept),
    ]
}

async fn a_name_that_is_taken_makes_another_hash(s: Stage) {
    let first = s.completed(deployment("a", 0)).await;
    let taken = name(&s.set_of(&first, "i:1").await);
    s.delete(&first).await;
    // Whoever would make it again knows by then that nobody wants it; whoever collects it may have been faster.
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

async fn one_that_was_let_go_keeps_its_name(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let lost = s.set_of(&d, "i:1").await;
    let change = json!({"metadata": {"labels": {"app": "b"}}});
    s.change_set(&name(&lost), change).await;
    let now = s
        .status(&d, "it needs another", |status| status["collisionCount"] == 1)
        .await;
    // Until that is made, the status is that of the one that it has lost.
    s.sized(&d, &[("i:1", 2)]).await;
    s.complete(&d).await;
    let set = s.set_of(&d, "i:1").await;
    assert_ne!(name(&set), name(&lost), "{now:#}");
    let now = s.get_set(&name(&lost)).await;
    assert_eq!(controller(&now), None, "{now:#}");
    assert_eq!(now["spec"], lost["spec"]);
}

/// As long as those of the first are there.
async fn a_deployment_made_again_does_not_take_those_of_the_first(s: Stage) {
    let first = s.completed(deployment("a", 1)).await;
    let old = s.set_of(&first, "i:1").await;
    s.hold_set(&name(&old)).await;
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

/// A `ReplicaSet` is known by its template, not by its name.
async fn a_template_that_somebody_changes_is_another_one(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let changed = name(&s.set_of(&d, "i:1").await);
    s.change_set(&changed, image("i:9")).await;
    s.status(&d, "it has another", |status| status["collisionCount"] == 1)
        .await;
    s.complete(&d).await;
    s.sized(&d, &[("i:1", 2), ("i:9", 0)]).await;
    let now = s.get_set(&changed).await;
    assert_eq!(controller(&now), Some(&*d.uid));
}

async fn a_template_that_somebody_changes_does_not_get_in_the_way(s: Stage) {
    let d = s.completed(deployment("a", 2)).await;
    let changed = name(&s.set_of(&d, "i:1").await);
    s.change_set(&changed, image("i:9")).await;
    s.rolled(&d, "i:2").await;
    let sizes = s.sizes(&d).await;
    assert_eq!((sizes["i:2"], sizes.values().sum::<u64>()), (2, 2), "{sizes:?}");
}

async fn the_count_is_kept(s: Stage) {
    let d = s.completed(deployment("a", 1)).await;
    let lost = name(&s.set_of(&d, "i:1").await);
    s.change_set(&lost, json!({"metadata": {"labels": {"app": "b"}}}))
        .await;
    s.status(&d, "it has another", |status| status["collisionCount"] == 1)
        .await;
    s.rolled(&d, "i:2").await;
    s.scale(&d, 2).await;
    let now = s.complete(&d).await;
    assert_eq!(now["status"]["collisionCount"], 1, "{now:#}");
    // And nothing is made again of the hash that it was without.
    let now = s.rolled(&d, "i:1").await;
    assert_eq!(now["status"]["collisionCount"], 1, "{now:#}");
    let wanted = with(json!({}), json!({"i:1": 2, "i:2": 0}));
    assert_eq!(json!(s.sizes(&d).await), wanted);
}
