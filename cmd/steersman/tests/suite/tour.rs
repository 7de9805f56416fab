//! `steersman tour`.

use std::process::Stdio;

use steersman_harness::time;

use crate::PROGRAM;

#[tokio::test]
async fn tour_completes_all_steps() {
    let tour = tokio::process::Command::new(PROGRAM)
        .arg("tour")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = time::within(std::time::Duration::from_mins(2), tour).await;
    let ended = ended.expect("it ends").expect("it runs");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let steps = text.lines().filter(|it| it.starts_with("    expected: ")).count();
    let observed = text.lines().filter(|it| it.starts_with("    observed: ")).count();
    assert_eq!((steps, observed), (14, 14), "{text}");
    for word in [
        "foreground",
        "background",
        "orphan",
        "Roll out",
        "Undo",
        "Kill the manager",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
