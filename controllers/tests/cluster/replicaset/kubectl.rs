//! kubectl with `AppReplicaSets`.

use steersman_controllers::api::{self, crd::yaml};
use steersman_harness::kubectl::Kubectl;
use steersman_harness::{Need, Test};

use super::custom::RULES;
use super::fixture::Fixture;

pub fn tests() -> Vec<Test> {
    let all = vec![
        each!(@ get_shows_the_columns_of_a_replicaset, AppReplicaSet),
        each!(@ scale_and_foreground_delete, AppReplicaSet),
        each!(@ printed_crds_can_be_applied, AppReplicaSet),
    ];
    let needed = |test: Test| test.needs(Need::Ours).needs(Need::Kubectl);
    all.into_iter().map(needed).collect()
}

fn kubectl(s: &Fixture) -> Kubectl {
    Kubectl::new(&s.c, &s.ns)
}

/// The cells of a table.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}

async fn get_shows_the_columns_of_a_replicaset(s: Fixture) {
    let owner = s.settled(s.owner("a", 2)).await;
    s.counts(&owner, "readyReplicas", 2).await;
    s.settled(s.owner_on_unmanaged_node("b", 0)).await;
    let table = kubectl(&s).run("get ars").ok();
    let rows = rows(&table);
    assert_eq!(rows[0], ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]);
    assert_eq!(rows[1][..4], ["a", "2", "2", "2"]);
    assert_eq!(rows[2][..4], ["b", "0", "0", "0"]);
    let wide = kubectl(&s)
        .run("get appreplicasets.appcontroller.k8s.io a -o wide")
        .ok();
    let wide = self::rows(&wide);
    assert_eq!(wide[0][4..], ["AGE", "IMAGE", "SELECTOR"]);
    assert_eq!(wide[1].last(), Some(&"app=a"));
    let all = kubectl(&s).run("get steersman -o name").ok();
    assert!(all.contains("appreplicaset.appcontroller.k8s.io/a\n"), "{all}");
}

async fn scale_and_foreground_delete(s: Fixture) {
    let owner = s.settled(s.owner("a", 1)).await;
    let output = kubectl(&s)
        .run("scale ars/a --replicas=3 --current-replicas=1")
        .ok();
    assert_eq!(output, "appreplicaset.appcontroller.k8s.io/a scaled\n");
    s.counts(&owner, "readyReplicas", 3).await;
    let output = kubectl(&s)
        .run("delete ars a --cascade=foreground --timeout=2m")
        .ok();
    assert!(output.contains("\"a\" deleted"), "{output}");
    assert!(s.all_pods().await.is_empty(), "the pods are deleted first");
}

/// In another group and as a dry run, so that other tests are not affected.
async fn printed_crds_can_be_applied(s: Fixture) {
    let printed = yaml::documents(&api::crds()).replace(api::GROUP, "example.com");
    // A server without CEL reports the rules as unknown fields.
    let validate = if s.c.version() >= RULES {
        "--validate=true"
    } else {
        "--validate=false"
    };
    let arguments = ["apply", "--dry-run=server", validate, "-f", "-"];
    let output = kubectl(&s).run_with(&arguments, &printed).ok();
    assert_eq!(output.lines().count(), api::crds().len(), "{output}");
    assert!(
        output
            .lines()
            .all(|line| line.ends_with(" created (server dry run)")),
        "{output}"
    );
}
