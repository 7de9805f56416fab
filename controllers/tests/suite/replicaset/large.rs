//! Objects of almost the largest size that etcd takes (1.5 MiB): pods are created from them, and caches do not keep them.

use super::*;
use crate::ground::cached_bytes;

const SIZE: usize = 1_500_000;

#[tokio::test(start_paused = true)]
async fn replicaset_of_1500_kb_runs_its_pods_and_is_not_kept_in_the_cache() {
    let bed = bed(REPLICA_SET).await;
    let mut owner = bed.owner("web", 2);
    owner["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["x".repeat(SIZE)]);
    bed.create_owner(&owner).await;
    bed.ready("web", 2).await;
    let pods = bed.pods().await;
    let args = |it: &Value| it["spec"]["containers"][0]["args"][0].as_str().map(str::len);
    assert!(pods.iter().all(|it| args(it) == Some(SIZE)));
    assert_eq!(bed.door.count("POST pods"), 2);
    let bytes = cached_bytes(&bed.registry, "pods");
    assert!(bytes > 0.0 && bytes < 100_000.0, "{bytes} bytes of pods");
    bed.scale("web", 1).await;
    bed.ready("web", 1).await;
}

/// The API server takes no pod of this size.
#[tokio::test(start_paused = true)]
async fn replicaset_whose_pods_are_too_large_reports_replica_failure_and_backs_off() {
    let bed = bed(REPLICA_SET).await;
    let too_large = json!({"reason": "RequestEntityTooLarge", "message": "limit is 3145728"});
    bed.door.judge(move |method, path, _| {
        if *method == http::Method::POST && path.ends_with("/pods") {
            Answer::Refused(413, too_large.clone())
        } else {
            Answer::Done
        }
    });
    bed.create_owner(&bed.owner("web", 3)).await;
    bed.sleep(Duration::from_mins(10)).await;
    let (status, reason) = crate::ground::condition(&bed.get("web").await, "ReplicaFailure");
    assert_eq!((&*status, &*reason), ("True", "FailedCreate"));
    let posts = bed.door.count("POST pods");
    assert!((2..=40).contains(&posts), "{posts} in ten minutes");
}
