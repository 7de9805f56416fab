//! An orderly stop: the successor leads and writes within a second.

use super::*;

#[tokio::test(start_paused = true)]
async fn successor_writes_within_a_second_of_an_orderly_stop() {
    let cluster = Cluster::new();
    let first = cluster.start("first", "coxswain", 100);
    cluster.leads(&first).await;
    let second = cluster.start("second", "coxswain", 100);
    cluster.deploy("before", 3).await;
    cluster.complete("before").await;
    cluster.sleep(30 * SECOND).await;
    assert!(
        cluster.writes().iter().all(|it| it.by == "first"),
        "a standby wrote"
    );

    let stopped = cluster.env.clock.now();
    first.stop.cancel();
    // From here on the first one takes no more work.
    cluster.sleep(SECOND / 1000).await;
    cluster.deploy("after", 3).await;
    first.running.await.expect("no panic").expect("an orderly end");
    cluster.complete("after").await;
    let writes = cluster.writes();
    let creates = |it: &&Write| it.at >= stopped && it.what.starts_with("POST");
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
