//! A leader that is suspended between two writes, and resumes when another process leads.

use super::*;

/// The writes of a process since an instant.
fn writes_since(cluster: &Cluster, by: &str, since: Instant) -> Vec<Write> {
    let mut writes = cluster.writes();
    writes.retain(|it| it.by == by && it.at >= since);
    writes
}

/// The fence alone keeps the next write back: the response to the last one arrives before the process learns that its term is over.
#[tokio::test(start_paused = true)]
async fn suspended_leader_writes_nothing_after_it_resumes() {
    let cluster = Cluster::new();
    let first = cluster.start("first", "coxswain", 100);
    cluster.leads(&first).await;
    let second = cluster.start("second", "coxswain", 100);
    cluster.deploy("before", 3).await;
    cluster.complete("before").await;
    cluster.sleep(30 * SECOND).await;

    // The first pod is created alone, and the others when its response arrives.
    first.hold_responses(true);
    let begun = cluster.env.clock.now();
    cluster.deploy("web", 8).await;
    cluster
        .until("the first pod is created", async || {
            let writes = writes_since(&cluster, "first", begun);
            writes.iter().any(|it| it.what.ends_with("/pods"))
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
    cluster.is_at_rest().await;
}
