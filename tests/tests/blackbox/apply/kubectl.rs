//! `kubectl apply --server-side`.

use coxswain_tests::{Cluster, Need, Test, fixtures::core, kubectl::Kubectl, test};
use serde_json::json;

use super::{fields, managers};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    let tests = vec![
        test!(server_side_apply_creates_and_removes_fields),
        test!(conflict_is_reported_and_forced),
        test!(client_side_applied_object_is_taken_over),
        test!(server_dry_run_changes_nothing),
    ];
    tests
        .into_iter()
        .map(|test| test.needs(Need::Kubectl).since(1, 36))
        .collect()
}

fn config_map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {data}\n")
}

fn server_side(k: &Kubectl, options: &[&str], manifest: &str) -> coxswain_tests::kubectl::Printed {
    let arguments = [&["apply", "--server-side", "-f", "-"], options].concat();
    k.run_with(&arguments, manifest)
}

async fn server_side_apply_creates_and_removes_fields(c: Cluster) {
    let ns = c.namespace().await;
    let k = Kubectl::new(&c, &ns);
    let path = core(&ns, "configmaps/a");
    let done = server_side(&k, &[], &config_map("{k: '1', l: '2'}")).ok();
    assert_eq!(done, "configmap/a serverside-applied\n");
    let made = c.read(&path).await;
    assert_eq!(managers(&made), ["kubectl"]);
    let done = server_side(&k, &[], &config_map("{l: '3'}")).ok();
    assert_eq!(done, "configmap/a serverside-applied\n");
    let left = c.read(&path).await;
    assert_eq!(left["data"], json!({"l": "3"}));
    assert_eq!(
        left["metadata"].get("annotations"),
        None,
        "no last-applied annotation"
    );
}

async fn conflict_is_reported_and_forced(c: Cluster) {
    let ns = c.namespace().await;
    let k = Kubectl::new(&c, &ns);
    let path = core(&ns, "configmaps/a");
    let _ = server_side(&k, &["--field-manager=one"], &config_map("{k: '1'}")).ok();
    let refused = server_side(&k, &["--field-manager=two"], &config_map("{k: '2'}")).refused();
    assert!(
        refused.contains("Apply failed with 1 conflict: conflict with \"one\": .data.k"),
        "{refused}"
    );
    let forced = ["--field-manager=two", "--force-conflicts"];
    let _ = server_side(&k, &forced, &config_map("{k: '2'}")).ok();
    let taken = c.read(&path).await;
    assert_eq!(taken["data"], json!({"k": "2"}));
    assert_eq!(fields(&taken, "two", "Apply"), json!({"f:data": {"f:k": {}}}));
}

async fn client_side_applied_object_is_taken_over(c: Cluster) {
    let ns = c.namespace().await;
    let k = Kubectl::new(&c, &ns);
    let _ = k
        .run_with(&["apply", "-f", "-"], &config_map("{k: '1', l: '2'}"))
        .ok();
    let _ = server_side(&k, &[], &config_map("{k: '5'}")).ok();
    let taken = c.read(&core(&ns, "configmaps/a")).await;
    assert_eq!(taken["data"], json!({"k": "5"}));
    // A separate manager owns the annotation, so that it stays.
    assert_eq!(managers(&taken), ["kubectl-last-applied", "kubectl"]);
}

async fn server_dry_run_changes_nothing(c: Cluster) {
    let ns = c.namespace().await;
    let k = Kubectl::new(&c, &ns);
    let _ = server_side(&k, &[], &config_map("{k: '1'}")).ok();
    let before = c.read(&core(&ns, "configmaps/a")).await;
    let done = server_side(&k, &["--dry-run=server"], &config_map("{k: '2'}")).ok();
    assert_eq!(done, "configmap/a serverside-applied (server dry run)\n");
    crate::expect::unchanged(&c, &core(&ns, "configmaps/a"), &before).await;
}
