//! A clean shutdown of the leader.

use super::*;

#[tokio::test(start_paused = true)]
async fn successor_writes_within_a_second_of_a_clean_shutdown() {
    let cluster = Cluster::new();
    let (first, second) = cluster.start_pair().await;
    assert!(
        cluster.writes().iter().all(|it| it.by == "first"),
        "a standby wrote"
    );

    let stopped = cluster.env.clock.now();
    first.stop.cancel();
    // The first process starts no more work.
    cluster.sleep(SECOND / 1000).await;
    cluster.deploy("after", 3).await;
    first.running.await.expect("no panic").expect("a clean shutdown");
    cluster.complete("after").await;
    let writes = cluster.writes();
    let creates = |it: &&Write| it.at >= stopped && it.operation.starts_with("POST");
    let next = writes.iter().find(creates).expect("a create");
    assert_eq!(next.by, "second", "{next:?}");
    assert!(
        next.at - stopped < SECOND,
        "{:?} after the stop",
        next.at - stopped
    );
    assert!(writes.iter().all(|it| it.leaders == 1), "{writes:#?}");
    assert!(second.leads());
}
