//! kubectl commands that keep running, and quotas. Scenarios run the other commands.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use steersman_harness::kubectl::Kubectl;
use steersman_harness::{Cluster, Need, Test, test};

use crate::support::soon;

pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(get_watch_prints_changes),
        test!(wait_returns_on_deletion),
        test!(quota_is_described_and_enforced).needs(Need::Kcm),
    ];
    tests.into_iter().map(|test| test.needs(Need::Kubectl)).collect()
}

async fn kubectl(c: &Cluster) -> Kubectl {
    Kubectl::new(c, &c.namespace().await)
}

async fn get_watch_prints_changes(c: Cluster) {
    let k = kubectl(&c).await;
    let _ = k.run("create configmap first").ok();
    let arguments = [
        "get",
        "configmaps",
        "-w",
        "-o",
        "name",
        "--field-selector=metadata.name!=kube-root-ca.crt",
    ];
    let mut child = k
        .command(&arguments)
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "configmap/first");
    let _ = k.run("create configmap second").ok();
    assert_eq!(next(), "configmap/second");
    let _ = k.run("delete configmap/second").ok();
    assert_eq!(next(), "configmap/second");
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

async fn wait_returns_on_deletion(c: Cluster) {
    let k = kubectl(&c).await;
    let _ = k.run("create configmap a").ok();
    let mut waiting = k
        .command(&["wait", "configmap/a", "--for=delete", "--timeout=20s"])
        .spawn()
        .expect("kubectl starts");
    let _ = k.run("delete configmap/a").ok();
    assert!(waiting.wait().expect("it ends").success());
}

async fn quota_is_described_and_enforced(c: Cluster) {
    let k = kubectl(&c).await;
    let _ = k.run("create quota q --hard=configmaps=1,pods=3").ok();
    let described = soon("the quota is counted", async || {
        let text = k.run("describe quota q").ok();
        text.contains("configmaps  0").then_some(text)
    })
    .await;
    let rows: Vec<Vec<&str>> = described
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for row in [["configmaps", "0", "1"], ["pods", "0", "3"]] {
        assert!(
            rows.iter().any(|found| found[..] == row),
            "no {row:?} in\n{described}"
        );
    }
    let _ = k.run("create configmap a").ok();
    let refused = soon("the quota is enforced", async || {
        let printed = k.run("create configmap b --dry-run=server");
        (!printed.success).then_some(printed.err)
    })
    .await;
    assert!(
        refused.contains("exceeded quota: q, requested: configmaps=1"),
        "{refused}"
    );
}
