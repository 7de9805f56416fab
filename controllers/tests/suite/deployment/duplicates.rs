//! Writes that are applied twice, at once or before the next write, do not change the result of a rollout.

use http::Method;

use super::*;

#[tokio::test(start_paused = true)]
async fn writes_applied_twice_do_not_change_a_rollout() {
    for replay in [false, true] {
        let f = fixture();
        let twice = if replay { f.api.replay() } else { Effect::Duplicate };
        f.api.inject(move |method, _, _| match *method {
            Method::GET => Effect::Pass,
            _ => twice.clone(),
        });
        f.deploy(&web(4, "one")).await;
        f.update("web", &image("two")).await;
        f.complete("web").await;
        assert_eq!(f.images().await, ["two"; 4], "replay: {replay}");
        f.update("web", &json!({"replicas": 2})).await;
        f.update("web", &image("one")).await;
        let done = f.complete("web").await;
        assert_eq!(f.images().await, ["one"; 2], "replay: {replay}");
        let sets = f.sets().await;
        assert_eq!((sets.len(), revision(&done)), (2, "3"), "replay: {replay}");
        assert_eq!(
            sets.iter().map(size).collect::<Vec<_>>(),
            [0, 2],
            "replay: {replay}"
        );
        f.sleep(Duration::from_mins(1)).await;
        f.api.reset();
        f.sleep(Duration::from_mins(10)).await;
        assert_eq!(f.api.counts(), [].into(), "at rest: replay: {replay}");
    }
}
