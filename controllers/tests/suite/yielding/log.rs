//! Log messages of yielding controllers.

use steersman_harness::Log;
use tracing::level_filters::LevelFilter;

use super::*;

#[tokio::test(start_paused = true)]
async fn each_controller_logs_once_when_it_starts_and_stops_yielding() {
    let log = Log::keep(LevelFilter::INFO);
    let fixture = fixture();
    renew(&fixture.admin, &fixture.env, "kcm").await;
    let running = fixture.run();
    running.alive_for(Duration::from_mins(5)).await;
    // The reason changes, the controllers keep yielding.
    running.fault(Fault::Reject(403));
    running.sleep(Duration::from_mins(5)).await;
    running.fault(Fault::None);
    running.alive_for(Duration::from_mins(5)).await;
    running.until(Running::all_run).await;
    running.stop().await;

    let log = log.text();
    let lines = |what: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.contains(what));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    let line = |controller: &str, what: &str, lease: &str| {
        format!("INFO {what} controller={controller:?} state={lease}")
    };
    let names = ["one", "two", "three"];
    let yields = "Controller yields to kube-controller-manager";
    assert_eq!(lines(yields), names.map(|it| line(it, yields, "held by kcm")));
    let stops = "Controller stopped yielding to kube-controller-manager";
    assert_eq!(lines(stops), names.map(|it| line(it, stops, "not held")));
    assert_eq!(lines("Failed to watch lease").len(), 1, "{log}");
}
