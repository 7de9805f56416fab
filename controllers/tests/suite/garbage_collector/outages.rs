//! Outages: few requests are sent, and work resumes afterwards.

use super::*;

const OUTAGE: Duration = Duration::from_mins(10);
const PENDING: usize = 500;

fn outage_faults() -> [Effect; 3] {
    let unavailable = status_reply(503, json!({"reason": "ServiceUnavailable"}));
    [Effect::LoseRequest, Effect::Hang, unavailable]
}

/// Injects `fault` into all requests of the collector for a time; returns the number of requests in that time.
async fn outage(f: &Fixture, fault: &Effect, begin: impl AsyncFnOnce(&Fixture)) -> usize {
    let injected = fault.clone();
    f.api.inject_all(move |it| {
        if it.by_controller {
            injected.clone()
        } else {
            Effect::Pass
        }
    });
    f.api.reset();
    begin(f).await;
    f.sleep(OUTAGE).await;
    let sent = f.api.recorded().len();
    f.api.inject_all(|_| Effect::Pass);
    sent
}

#[tokio::test(start_paused = true)]
async fn total_outage_costs_few_requests_and_deletion_resumes() {
    for fault in outage_faults() {
        let f = fixture().await;
        let owner = f.create_owner("owner", PENDING).await;
        let sent = outage(&f, &fault, async |f| {
            f.delete(&SECRETS, &owner, Propagation::Background).await;
        })
        .await;
        assert!((10..=600).contains(&sent), "{sent} {fault:?}");
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn total_outage_costs_few_requests_for_foreground_and_orphan_deletion() {
    for fault in outage_faults() {
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
            let sent = outage(&f, &fault, async |f| {
                for owner in &owners {
                    f.delete(&SECRETS, owner, policy).await;
                }
            })
            .await;
            assert!((10..=600).contains(&sent), "{sent} {fault:?} {policy:?}");
            f.sleep(Duration::from_mins(1)).await;
            assert!(f.list(&SECRETS).await.is_empty(), "{fault:?} {policy:?}");
            let left = if policy == Propagation::Orphan { 100 } else { 0 };
            assert_eq!(f.left(&MAPS).await, left);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resource_without_responses_does_not_delay_other_resources() {
    for fault in [
        Effect::LoseRequest,
        status_reply(500, json!({"reason": "InternalError"})),
    ] {
        let f = fixture().await;
        let broken = f.create(&SECRETS, "broken", &[]).await;
        f.create_dependents(&PODS, &broken, 300).await;
        let injected = fault.clone();
        f.api.inject_all(move |it| match it.operation.as_str() {
            "DELETE pods" => injected.clone(),
            // The healthy resource needs one retry too.
            "DELETE configmaps" if it.before == 0 => injected.clone(),
            _ => Effect::Pass,
        });
        f.delete(&SECRETS, &broken, Propagation::Background).await;
        f.sleep(Duration::from_mins(5)).await;
        let owner = f.create_owner("owner", 1).await;
        let start = f.env.clock.now();
        f.delete(&SECRETS, &owner, Propagation::Background).await;
        f.until(async |f| f.left(&MAPS).await == 0).await;
        let took = f.env.clock.now() - start;
        assert!(took < Duration::from_secs(2), "{took:?} {fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_rejected_requests_are_retried_within_a_minute() {
    for fault in [
        status_reply(403, json!({"reason": "Forbidden"})),
        status_reply(500, json!({"reason": "InternalError"})),
        text_reply(404, "404 page not found\n"),
    ] {
        let f = fixture().await;
        let injected = fault.clone();
        f.api.inject_all(move |it| {
            if it.by_controller {
                injected.clone()
            } else {
                Effect::Pass
            }
        });
        f.create(&MAPS, "dependent-0", &[dangling(&SECRETS, "never")])
            .await;
        let owner = f.create(&SECRETS, "owner", &[]).await;
        f.create(&PODS, "dependent-1", &[blocking(&owner)]).await;
        f.settle().await;
        f.delete(&SECRETS, &owner, Propagation::Orphan).await;
        f.sleep(HOUR).await;
        f.api.inject_all(|_| Effect::Pass);
        f.sleep(Duration::from_mins(1)).await;
        assert_eq!(f.left(&MAPS).await, 0, "{fault:?}");
        assert!(f.get(&SECRETS, "owner").await.is_none(), "{fault:?}");
        assert_eq!(f.left(&PODS).await, 1, "{fault:?}");
    }
}
