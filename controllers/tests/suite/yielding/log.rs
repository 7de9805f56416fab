//! What is said in the log, and how often.

use coxswain_tests::Log;
use tracing::level_filters::LevelFilter;

use super::*;

#[tokio::test(start_paused = true)]
async fn each_controller_says_once_that_it_yields_and_once_that_it_does_no_more() {
    let log = Log::keep(LevelFilter::INFO);
    let bed = bed();
    renew(&bed.admin, &bed.env, "kcm").await;
    let running = bed.run();
    running.alive_for(Duration::from_mins(5)).await;
    // The reason changes; that it yields does not.
    running.fault(Fault::Refuse(403));
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
        format!("INFO {what} controller={controller:?} lease={lease}")
    };
    let names = ["one", "two", "three"];
    let yields = "Controller yields to kube-controller-manager";
    assert_eq!(lines(yields), names.map(|it| line(it, yields, "held by kcm")));
    let wakes = "Controller yields no more";
    assert_eq!(lines(wakes), names.map(|it| line(it, wakes, "held by nobody")));
    assert_eq!(lines("Cannot watch the lease").len(), 1, "{log}");
}
