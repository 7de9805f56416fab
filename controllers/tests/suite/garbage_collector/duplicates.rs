//! Writes that are applied twice, at once or before the next write: garbage goes, orphans and owned objects stay.

use super::*;

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_collect_the_same() {
    for answer in [Answer::Twice, Answer::Repeated] {
        for policy in [
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ] {
            let bed = bed().await;
            let twice = answer.clone();
            bed.door.judge(move |asked| {
                let write = ["DELETE", "PATCH"].iter().any(|it| asked.what.starts_with(it));
                if write { twice.clone() } else { Answer::Done }
            });
            let (owner, living) = (
                bed.create(&SECRETS, "owner", &[]).await,
                bed.create(&SECRETS, "living", &[]).await,
            );
            for i in 0..5 {
                let name = format!("dependent-{i}");
                let dependent = bed.create(&MAPS, &name, &[blocking(&owner)]).await;
                bed.create(&PODS, &name, &[blocking(&dependent)]).await;
                let shared = [reference(&owner), reference(&living)];
                bed.create(&MAPS, &format!("shared-{i}"), &shared).await;
            }
            bed.settle().await;
            bed.delete(&SECRETS, &owner, policy).await;
            bed.until(async |bed| bed.get(&SECRETS, "owner").await.is_none())
                .await;
            bed.sleep(Duration::from_mins(1)).await;
            let left = if policy == Propagation::Orphan { 5 } else { 0 };
            let what = format!("{answer:?} {policy:?}");
            assert_eq!(bed.left(&MAPS).await, left, "{what}");
            assert_eq!(bed.left(&PODS).await, left, "{what}");
            let shared = bed.list(&MAPS).await.len() - left;
            assert!(shared >= 5, "a map with a living owner is gone: {what}");
            bed.door.reset();
            bed.sleep(Duration::from_mins(10)).await;
            assert_eq!(bed.door.counts(), [].into(), "at rest: {what}");
        }
    }
}
