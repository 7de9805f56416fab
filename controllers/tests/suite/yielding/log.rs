//! What is said in the log, and how often.

use std::io::Write;

use super::*;

/// What was logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn each_controller_says_once_that_it_yields_and_once_that_it_does_no_more() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // While there is only one, `tracing` asks the thread that first comes to a line whether anybody wants it: that may be the
    // one of another test, where nobody does.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
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

    let log = lines.0.lock().expect("no panic").clone();
    let log = String::from_utf8(log).expect("text");
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
