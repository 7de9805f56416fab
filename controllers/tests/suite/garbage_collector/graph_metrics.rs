//! The sizes of the graph.

use super::*;

#[tokio::test(start_paused = true)]
async fn graph_sizes_are_exported_while_a_term_lasts() {
    let f = unstarted();
    let options = Options {
        dry_run: true,
        ..Options::default()
    };
    let collector = f.build(options, Scope::default());
    let size = |state: &str| {
        let series = format!("steersman_garbage_collector_graph_objects{{state=\"{state}\"}}");
        f.metric(&series)
    };
    let fence = Fence::new(f.env.clock.clone());
    let (term, stop) = (fence.open_forever(), CancellationToken::new());
    let stopped = stop.clone();
    let run = async move { collector.run(&fence, term, stopped).await };
    let ended = f.env.tasks.spawn(run);
    f.sleep(Duration::from_secs(2)).await;
    let before = size("observed");
    f.create_owner("owner", 3).await;
    f.create(&PODS, "pod", &[dangling(&SECRETS, "never")]).await;
    f.settle().await;
    assert_eq!(size("observed"), before.map(|it| it + 5.0));
    assert_eq!(size("virtual"), Some(0.0));
    assert_eq!(
        size("absent"),
        Some(1.0),
        "a dry run keeps the pod, and with it its owner"
    );
    stop.cancel();
    ended.await.expect("no panic").expect("stopped");
    for state in ["observed", "virtual", "absent"] {
        assert_eq!(size(state), Some(0.0), "{state}");
    }
}
