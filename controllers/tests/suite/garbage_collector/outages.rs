//! While nobody answers little is asked, and when somebody answers again everything goes on.

use super::*;

const OUTAGE: Duration = Duration::from_mins(10);
const PENDING: usize = 500;

fn down() -> [Answer; 3] {
    let unavailable = Answer::Refused(503, json!({"reason": "ServiceUnavailable"}));
    [Answer::Broken, Answer::Hangs, unavailable]
}

/// Nothing of the collector is answered for a while. Returns how much it has sent meanwhile.
async fn outage(bed: &Bed, answer: &Answer, begin: impl AsyncFnOnce(&Bed)) -> usize {
    let broken = answer.clone();
    bed.door
        .judge(move |it| if it.ours { broken.clone() } else { Answer::Done });
    bed.door.reset();
    begin(bed).await;
    bed.sleep(OUTAGE).await;
    let sent = bed.door.asked().len();
    bed.door.judge(|_| Answer::Done);
    sent
}

#[tokio::test(start_paused = true)]
async fn in_a_total_outage_little_is_asked_however_much_there_is_to_do() {
    for answer in down() {
        let bed = bed().await;
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, PENDING).await;
        let sent = outage(&bed, &answer, async |bed| {
            bed.delete(&SECRETS, &owner, Propagation::Background).await;
        })
        .await;
        assert!((10..=600).contains(&sent), "{sent} {answer:?}");
        // And then all of it goes, soon.
        bed.sleep(Duration::from_mins(1)).await;
        assert_eq!(bed.left(&MAPS).await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_that_wait_or_let_go_ask_little_too() {
    for answer in down() {
        for policy in [Propagation::Foreground, Propagation::Orphan] {
            let bed = bed().await;
            let mut owners = Vec::new();
            for i in 0..10 {
                let owner = bed.create(&SECRETS, &format!("owner-{i}"), &[]).await;
                for j in 0..10 {
                    let name = format!("dependent-{i}-{j}");
                    bed.create(&MAPS, &name, &[blocking(&owner)]).await;
                }
                owners.push(owner);
            }
            bed.settle().await;
            let sent = outage(&bed, &answer, async |bed| {
                for owner in &owners {
                    bed.delete(&SECRETS, owner, policy).await;
                }
            })
            .await;
            assert!((10..=600).contains(&sent), "{sent} {answer:?} {policy:?}");
            bed.sleep(Duration::from_mins(1)).await;
            assert!(bed.list(&SECRETS).await.is_empty(), "{answer:?} {policy:?}");
            let left = if policy == Propagation::Orphan { 100 } else { 0 };
            assert_eq!(bed.left(&MAPS).await, left);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_answers_for_delays_no_other() {
    for answer in [
        Answer::Broken,
        Answer::Refused(500, json!({"reason": "InternalError"})),
    ] {
        let bed = bed().await;
        let broken = bed.create(&SECRETS, "broken", &[]).await;
        bed.dependents(&PODS, &broken, 300).await;
        let refused = answer.clone();
        bed.door.judge(move |it| match it.what.as_str() {
            "DELETE pods" => refused.clone(),
            // It needs to be tried twice, like anything may.
            "DELETE configmaps" if it.before == 0 => refused.clone(),
            _ => Answer::Done,
        });
        bed.delete(&SECRETS, &broken, Propagation::Background).await;
        bed.sleep(Duration::from_mins(5)).await;
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.dependents(&MAPS, &owner, 1).await;
        let start = bed.env.clock.now();
        bed.delete(&SECRETS, &owner, Propagation::Background).await;
        bed.until(async |bed| bed.left(&MAPS).await == 0).await;
        let took = bed.env.clock.now() - start;
        assert!(took < Duration::from_secs(2), "{took:?} {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_was_refused_for_long_is_tried_again_within_a_minute() {
    for answer in [
        Answer::Refused(403, json!({"reason": "Forbidden"})),
        Answer::Refused(500, json!({"reason": "InternalError"})),
        Answer::Plain(404, "404 page not found\n"),
    ] {
        let bed = bed().await;
        let refused = answer.clone();
        bed.door
            .judge(move |it| if it.ours { refused.clone() } else { Answer::Done });
        bed.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
            .await;
        let owner = bed.create(&SECRETS, "owner", &[]).await;
        bed.create(&PODS, "dependent-1", &[blocking(&owner)]).await;
        bed.settle().await;
        bed.delete(&SECRETS, &owner, Propagation::Orphan).await;
        bed.sleep(HOUR).await;
        bed.door.judge(|_| Answer::Done);
        bed.sleep(Duration::from_mins(1)).await;
        assert_eq!(bed.left(&MAPS).await, 0, "{answer:?}");
        assert!(bed.get(&SECRETS, "owner").await.is_none(), "{answer:?}");
        assert_eq!(bed.left(&PODS).await, 1, "{answer:?}");
    }
}
