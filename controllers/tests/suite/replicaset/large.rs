//! Objects of almost the largest size that etcd takes (1.5 MiB): pods are created from them, and caches do not keep them.

use super::*;
use crate::fixture::cached_bytes;

const SIZE: usize = 1_500_000;

#[tokio::test(start_paused = true)]
async fn replicaset_of_1500_kb_runs_its_pods_and_is_not_kept_in_the_cache() {
    let f = fixture(REPLICA_SET).await;
    let mut owner = f.owner("web", 2);
    owner["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(SIZE)]);
    f.create_owner(&owner).await;
    f.ready("web", 2).await;
    let pods = f.pods().await;
    let args = |it: &Value| it["spec"]["containers"][0]["args"][0].as_str().map(str::len);
    assert!(pods.iter().all(|it| args(it) == Some(SIZE)));
    assert_eq!(f.api.count("POST pods"), 2);
    let bytes = cached_bytes(&f.registry, "pods");
    assert!(bytes > 0.0 && bytes < 100_000.0, "{bytes} bytes of pods");
    f.scale_ready("web", 1).await;
}

/// The API server takes no pod of this size.
#[tokio::test(start_paused = true)]
async fn replicaset_whose_pods_are_too_large_reports_replica_failure_and_backs_off() {
    let f = fixture(REPLICA_SET).await;
    let too_large = json!({"reason": "RequestEntityTooLarge", "message": "limit is 3145728"});
    f.api.inject(move |method, path, _| {
        if *method == http::Method::POST && path.ends_with("/pods") {
            status_reply(413, too_large.clone())
        } else {
            Effect::Pass
        }
    });
    f.create_owner(&f.owner("web", 3)).await;
    f.sleep(Duration::from_mins(10)).await;
    let (status, reason) = crate::fixture::condition(&f.get("web").await, "ReplicaFailure");
    assert_eq!((&*status, &*reason), ("True", "FailedCreate"));
    let posts = f.api.count("POST pods");
    assert!((2..=40).contains(&posts), "{posts} in ten minutes");
}
