//! A leader suspended between two writes that resumes when another process leads.

use super::*;

fn writes_since(cluster: &Cluster, by: &str, since: Instant) -> Vec<Write> {
    let mut writes = cluster.writes();
    writes.retain(|it| it.by == by && it.at >= since);
    writes
}

/// Only the fence prevents the next write: the response to the last one arrives before the process notices the end of its term.
#[tokio::test(start_paused = true)]
async fn suspended_leader_writes_nothing_after_resuming() {
    let cluster = Cluster::new();
    let (first, second) = cluster.start_pair().await;

    // The other pods are created after the response to the first create.
    first.hold_responses(true);
    let begun = cluster.env.clock.now();
    cluster.deploy("web", 8).await;
    cluster
        .until("the first pod is created", async || {
            let writes = writes_since(&cluster, "first", begun);
            writes.iter().any(|it| it.operation.ends_with("/pods"))
        })
        .await;
    first.suspend();
    cluster.leads(&second).await;
    cluster.complete("web").await;
    assert!(!first.leads());

    let resumed = cluster.env.clock.now();
    first.resume();
    cluster.sleep(300 * SECOND).await;
    let late = writes_since(&cluster, "first", resumed);
    assert!(late.is_empty(), "{late:#?}");
    assert!(!first.leads() && second.leads());
    cluster.complete("web").await;
    cluster.assert_idle().await;
}
