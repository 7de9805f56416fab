//! Writes that are applied twice, at once or before the next write: garbage goes, orphans and owned objects stay.

use super::*;

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_collect_the_same() {
    for answer in [Fault::Duplicated, Fault::Replayed] {
        for policy in [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ] {
            let f = fixture().await;
            let twice = answer.clone();
            f.api.inject_all(move |asked| {
                let write = ["DELETE", "PATCH"]
                    .iter()
                    .any(|it| asked.operation.starts_with(it));
                if write { twice.clone() } else { Fault::None }
            });
            let (owner, living) = (
                f.create(&SECRETS, "owner", &[]).await,
                f.create(&SECRETS, "living", &[]).await,
            );
            for i in 0..5 {
                let name = format!("dependent-{i}");
                let dependent = f.create(&MAPS, &name, &[blocking(&owner)]).await;
                f.create(&PODS, &name, &[blocking(&dependent)]).await;
                let shared = [reference(&owner), reference(&living)];
                f.create(&MAPS, &format!("shared-{i}"), &shared).await;
            }
            f.settle().await;
            f.delete(&SECRETS, &owner, policy).await;
            f.until(async |f| f.get(&SECRETS, "owner").await.is_none()).await;
            f.sleep(Duration::from_mins(1)).await;
            let left = if policy == Propagation::Orphan { 5 } else { 0 };
            let what = format!("{answer:?} {policy:?}");
            assert_eq!(f.left(&MAPS).await, left, "{what}");
            assert_eq!(f.left(&PODS).await, left, "{what}");
            let shared = f.list(&MAPS).await.len() - left;
            assert!(shared >= 5, "a map with a living owner is gone: {what}");
            f.api.reset();
            f.sleep(Duration::from_mins(10)).await;
            assert_eq!(f.api.counts(), [].into(), "at rest: {what}");
        }
    }
}
