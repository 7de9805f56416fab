//! Writes that the API server executes twice.

use super::*;

#[tokio::test(start_paused = true)]
async fn duplicated_writes_collect_the_same_objects() {
    for replay in [false, true] {
        for policy in [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ] {
            let f = fixture().await;
            let twice = if replay { f.api.replay() } else { Effect::Duplicate };
            f.api.inject_all(move |request| {
                let write = ["DELETE", "PATCH"]
                    .iter()
                    .any(|it| request.operation.starts_with(it));
                if write { twice.clone() } else { Effect::Pass }
            });
            let (owner, alive) = (
                f.create(&SECRETS, "owner", &[]).await,
                f.create(&SECRETS, "alive", &[]).await,
            );
            for i in 0..5 {
                let name = format!("dependent-{i}");
                let dependent = f.create(&MAPS, &name, &[blocking(&owner)]).await;
                f.create(&PODS, &name, &[blocking(&dependent)]).await;
                let shared = [reference(&owner), reference(&alive)];
                f.create(&MAPS, &format!("shared-{i}"), &shared).await;
            }
            f.settle().await;
            f.delete(&SECRETS, &owner, policy).await;
            f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
            f.sleep(Duration::from_mins(1)).await;
            let left = if policy == Propagation::Orphan { 5 } else { 0 };
            let case = format!("replay: {replay}, {policy:?}");
            assert_eq!(f.left(&MAPS).await, left, "{case}");
            assert_eq!(f.left(&PODS).await, left, "{case}");
            let shared = f.list(&MAPS).await.len() - left;
            assert!(shared >= 5, "a dependent of a live owner was deleted: {case}");
            f.api.reset();
            f.sleep(Duration::from_mins(10)).await;
            assert_eq!(f.api.counts(), [].into(), "at rest: {case}");
        }
    }
}
