//! While nobody answers little is asked, and when somebody answers again everything goes on.

use super::*;

const OUTAGE: Duration = Duration::from_mins(10);
const PENDING: usize = 500;

fn down() -> [Fault; 3] {
    let unavailable = Fault::Status(503, json!({"reason": "ServiceUnavailable"}));
    [Fault::RequestLost, Fault::RequestHangs, unavailable]
}

/// Nothing of the collector is answered for a while. Returns how much it has sent meanwhile.
async fn outage(f: &Fixture, answer: &Fault, begin: impl AsyncFnOnce(&Fixture)) -> usize {
    let broken = answer.clone();
    f.api.inject_all(move |it| {
        if it.by_controller {
            broken.clone()
        } else {
            Fault::None
        }
    });
    f.api.reset();
    begin(f).await;
    f.sleep(OUTAGE).await;
    let sent = f.api.recorded().len();
    f.api.inject_all(|_| Fault::None);
    sent
}

#[tokio::test(start_paused = true)]
async fn in_a_total_outage_little_is_asked_however_much_there_is_to_do() {
    for answer in down() {
        let f = fixture().await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.dependents(&MAPS, &owner, PENDING).await;
        let sent = outage(&f, &answer, async |f| {
            f.delete(&SECRETS, &owner, Propagation::Background).await;
        })
        .await;
        assert!((10..=600).contains(&sent), "{sent} {answer:?}");
        // And then all of it goes, soon.
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_that_wait_or_let_go_ask_little_too() {
    for answer in down() {
        for policy in [Propagation::Foreground, Propagation::Orphan] {
            let f = fixture().await;
            let mut owners = Vec::new();
            for i in 0..10 {
                let owner = f.create(&SECRETS, &format!("owner-{i}"), &[]).await;
                for j in 0..10 {
                    let name = format!("dependent-{i}-{j}");
                    f.create(&MAPS, &name, &[blocking(&owner)]).await;
                }
                owners.push(owner);
            }
            f.settle().await;
            let sent = outage(&f, &answer, async |f| {
                for owner in &owners {
                    f.delete(&SECRETS, owner, policy).await;
                }
            })
            .await;
            assert!((10..=600).contains(&sent), "{sent} {answer:?} {policy:?}");
            f.sleep(Duration::from_mins(1)).await;
            assert!(f.list(&SECRETS).await.is_empty(), "{answer:?} {policy:?}");
            let left = if policy == Propagation::Orphan { 100 } else { 0 };
            assert_eq!(f.left(&MAPS).await, left);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_answers_for_delays_no_other() {
    for answer in [
        Fault::RequestLost,
        Fault::Status(500, json!({"reason": "InternalError"})),
    ] {
        let f = fixture().await;
        let broken = f.create(&SECRETS, "broken", &[]).await;
        f.dependents(&PODS, &broken, 300).await;
        let refused = answer.clone();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "DELETE pods" => refused.clone(),
            // It needs to be tried twice, like anything may.
            "DELETE configmaps" if it.before == 0 => refused.clone(),
            _ => Fault::None,
        });
        f.delete(&SECRETS, &broken, Propagation::Background).await;
        f.sleep(Duration::from_mins(5)).await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.dependents(&MAPS, &owner, 1).await;
        let start = f.env.clock.now();
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.until(async |f| f.left(&MAPS).await == 0).await;
        let took = f.env.clock.now() - start;
        assert!(took < Duration::from_secs(2), "{took:?} {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_was_refused_for_long_is_tried_again_within_a_minute() {
    for answer in [
        Fault::Status(403, json!({"reason": "Forbidden"})),
        Fault::Status(500, json!({"reason": "InternalError"})),
        Fault::Text(404, "404 page not found\n"),
    ] {
        let f = fixture().await;
        let refused = answer.clone();
        f.api.inject_all(move |it| {
            if it.by_controller {
                refused.clone()
            } else {
                Fault::None
            }
        });
        f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
            .await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create(&PODS, "dependent-1", &[blocking(&owner)]).await;
        f.settle().await;
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
        f.sleep(HOUR).await;
        f.api.inject_all(|_| Fault::None);
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{answer:?}");
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{answer:?}");
        assert_eq!(f.left(&PODS).await, 1, "{answer:?}");
    }
}
