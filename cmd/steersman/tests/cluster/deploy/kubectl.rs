//! `kubectl apply` of `deploy/`, the examples of `deploy/README.md`, and `helm test`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use steersman_harness::kubectl::Kubectl;
use steersman_harness::{Cluster, program, tools};

use super::manifests::{self, Kustomization};
use super::{monitoring, own_cluster};
use crate::PROGRAM;

/// Both versions of kubectl that `tests/tools.sh` provides.
fn kubectls() -> [PathBuf; 2] {
    [manifests::kubectl(), tools::path("KUBECTL_NEXT")]
}

/// Applies a kustomization, and fails if kubectl prints a warning.
fn apply(kubectl: &Kubectl, folder: &str, components: &[&str]) -> String {
    let kustomization = Kustomization::of(folder, components);
    kubectl.run_with(&["apply", "-k", kustomization.path()], "").ok()
}

pub async fn kubectl_applies_all_without_warnings(_: Cluster) {
    for program in kubectls() {
        let own = own_cluster().await;
        let c = &own.running.cluster;
        let kubectl = Kubectl::new(c, "").with_program(program);
        let created = apply(&kubectl, "base", &[]);
        let count = manifests::render("base", &[]).len();
        assert_eq!(created.lines().count(), count, "{created}");
        assert!(created.lines().all(|it| it.ends_with(" created")), "{created}");
        // kubectl reports a PodDisruptionBudget as configured each time, because its selector is replaced as a whole.
        let again = apply(&kubectl, "base", &[]);
        let same = |it: &str| it.ends_with(" unchanged") || it.starts_with("poddisruptionbudget.policy/");
        assert!(again.lines().all(same), "{again}");

        monitoring::create_crds(c).await;
        let added = apply(&kubectl, "base", &["monitoring"]);
        assert!(
            added.contains("servicemonitor.monitoring.coreos.com/steersman created"),
            "{added}"
        );
        monitoring::selects_the_service(c).await;
        for overlay in ["overlays/standalone", "overlays/static-pod"] {
            apply(&kubectl, overlay, &[]);
        }
        let pod = manifests::root().join("static-pod/steersman.yaml");
        let pod = pod.to_str().expect("a path in UTF-8");
        assert_eq!(
            kubectl.run_with(&["apply", "-f", pod], "").ok(),
            "pod/steersman created\n"
        );
    }
}

/// Every YAML block of `deploy/README.md` is a kustomization, an addition to it, an object, or values of the chart.
pub async fn examples_of_the_readme_work(_: Cluster) {
    let own = own_cluster().await;
    let c = &own.running.cluster;
    let kubectl = Kubectl::new(c, "");
    monitoring::create_crds(c).await;
    monitoring::create_crd(c, "cert-manager.io/v1", "Certificate").await;
    let readme = fs::read_to_string(manifests::root().join("README.md")).expect("README.md");
    let blocks = readme.split("```yaml\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|it| it.split("```").next().expect("a block"))
        .collect();
    let (kustomization, blocks) = blocks.split_first().expect("blocks");
    let (additions, blocks): (Vec<&str>, Vec<&str>) =
        blocks.iter().partition(|it| it.starts_with("patches:\n"));
    let (objects, values): (Vec<&str>, Vec<&str>) =
        blocks.into_iter().partition(|it| it.starts_with("apiVersion:"));

    let created = Kustomization::new(kustomization);
    let created = kubectl.run_with(&["apply", "-k", created.path()], "").ok();
    assert!(created.lines().all(|it| it.ends_with(" created")), "{created}");
    let deployment = kubectl
        .run("get deployment steersman -n steersman-system -o yaml")
        .ok();
    contains(&deployment, "image: registry.example.com/steersman:0.1.0\n");
    for it in &objects {
        let created = kubectl.run_with(&["apply", "-f", "-"], it).ok();
        assert!(created.ends_with(" created\n"), "{created}");
    }
    assert_eq!(objects.len(), 2, "a NetworkPolicy and a Certificate");

    let all: String = additions
        .iter()
        .map(|it| {
            Kustomization::new(&format!(
                "{kustomization}components:\n- ../components/monitoring\n{it}"
            ))
            .render()
        })
        .collect();
    for expected in [
        "- --controllers=*,replicaset-controller\n",
        "release: prometheus\n",
        "runbook_url: https://git.example.com/steersman/docs/runbooks.md#",
    ] {
        contains(&all, expected);
    }

    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = Vec::new();
    for (number, text) in values.iter().enumerate() {
        let file = folder.path().join(format!("{number}.yaml"));
        fs::write(&file, text).expect("a file");
        arguments.extend(["--values".to_owned(), file.display().to_string()]);
    }
    let rendered = template(&arguments);
    for expected in [
        "image: registry.example.com/steersman:0.1.0\n",
        "- --controllers=*,-garbage-collector-controller\n",
        "secretName: steersman-serving\n",
        "release: prometheus\n",
        "runbook_url: https://git.example.com/steersman/docs/runbooks.md#",
    ] {
        contains(&rendered, expected);
    }
}

#[track_caller]
fn contains(text: &str, expected: &str) {
    assert!(text.contains(expected), "{expected} is not in:\n{text}");
}

/// `helm test` starts a pod; the program accepts its arguments.
pub async fn helm_test_succeeds(_: Cluster) {
    let of_test = "templates/tests/configuration.yaml".to_owned();
    let pod = template(&["--show-only".to_owned(), of_test]);
    contains(&pod, "helm.sh/hook: test\n");
    let arguments: Vec<&str> = pod
        .lines()
        .filter_map(|it| it.trim().strip_prefix("- --"))
        .collect();
    assert_eq!(arguments.last(), Some(&"validate-only"), "{pod}");
    let arguments: Vec<String> = arguments.into_iter().map(|it| format!("--{it}")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = program::run(PROGRAM, &arguments).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "The configuration is valid\n");
}

/// Renders the chart.
fn template(arguments: &[String]) -> String {
    let output = Command::new(tools::path("HELM"))
        .args(["template", "steersman", "--namespace", "steersman-system"])
        .arg(manifests::root().join("chart"))
        .args(arguments)
        .output()
        .expect("helm runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}
