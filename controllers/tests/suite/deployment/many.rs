//! Many concurrent rollouts: the work queue holds each Deployment at most once, and each has as many writes as alone.

use std::collections::BTreeMap;

use super::*;

const MANY: usize = 50;

fn numbered(index: usize, image: &str) -> Value {
    let mut deployment = web(2, image);
    let name = format!("web-{index}");
    deployment["metadata"]["name"] = json!(name);
    deployment["spec"]["selector"]["matchLabels"]["app"] = json!(name);
    deployment["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
    deployment
}

/// Returns the number of items in the work queue.
fn depth(registry: &Registry) -> f64 {
    let families = registry.gather();
    let depth = families.iter().find(|it| it.name() == "workqueue_depth");
    let metrics = depth.expect("a work queue").get_metric();
    metrics.iter().map(|it| it.get_gauge().get_value()).sum()
}

/// Rolls `count` Deployments at once. Returns the writes and the largest depth of the work queue.
async fn roll(count: usize) -> (BTreeMap<String, usize>, f64) {
    let f = without_deployments();
    let registry = Registry::new("steersman");
    let caches = f.caches(&f.transport, "reader", &registry);
    let recorder = f.recorder(&f.transport, "deployment-controller", &registry);
    let client = f.transport.reader("controller", None);
    let controller = deployment::build(&f.env, &caches, client, &registry, recorder, 5);
    f.run(controller.expect("a controller"));
    for index in 0..count {
        f.create(&DEPLOYMENTS, &numbered(index, "one")).await;
    }
    let complete = async |f: &Fixture| {
        let all = f.list(&DEPLOYMENTS).await;
        all.iter().all(|it| {
            let counted = ["replicas", "updatedReplicas", "availableReplicas"];
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
                && counted.iter().all(|field| it["status"][field] == 2)
        })
    };
    f.until(complete).await;
    f.sleep(Duration::from_secs(10)).await;
    f.api.reset();
    for index in 0..count {
        f.update(&format!("web-{index}"), &image("two")).await;
    }
    let mut deepest: f64 = 0.0;
    while !complete(&f).await {
        deepest = deepest.max(depth(&registry));
        f.sleep(Duration::from_millis(50)).await;
    }
    f.sleep(Duration::from_mins(1)).await;
    let mut writes = f.api.counts();
    writes.retain(|what, _| !what.starts_with("GET"));
    f.api.reset();
    f.sleep(Duration::from_mins(10)).await;
    assert_eq!(f.api.counts(), [].into(), "at rest");
    (writes, deepest)
}

#[tokio::test(start_paused = true)]
async fn concurrent_rollouts_have_as_many_writes_each_as_one() {
    let (one, _) = roll(1).await;
    let (all, deepest) = roll(MANY).await;
    println!("{one:?} for one, {all:?} for {MANY}, work queue depth {deepest}");
    assert!(deepest <= 50.0, "{deepest}");
    for (what, count) in all {
        let alone = one.get(&what).copied().unwrap_or(0);
        assert!(count <= alone * MANY, "{what}: {count} of {MANY} x {alone}");
    }
}
