//! `kubectl apply -k` of `deploy/` and of the overlays in `deploy/README.md`.

use std::fs;
use std::path::{Component, Path};

use coxswain_tests::Cluster;
use coxswain_tests::cluster::Running;
use coxswain_tests::kubectl::Kubectl;
use serde_json::Value;

use super::{manifests, monitoring, own_cluster};

/// Oldest minor version of kubectl that supports `components`.
const MIN_MINOR: u32 = 21;

/// Returns none if the installed kubectl is too old.
fn kubectl(running: &Running) -> Option<Kubectl> {
    let kubectl = Kubectl::new(&running.cluster, "");
    let version: Value =
        serde_json::from_str(&kubectl.run("version --client -o json").ok()).expect("a version in JSON");
    let minor = version["clientVersion"]["minor"]
        .as_str()
        .expect("a minor version");
    if minor.trim_end_matches('+').parse::<u32>().expect("a number") < MIN_MINOR {
        println!("kubectl 1.{minor} is too old");
        return None;
    }
    Some(kubectl)
}

pub async fn kubectl_applies_base_without_warnings(_: Cluster) {
    let (_exclusive, running) = own_cluster().await;
    let Some(kubectl) = kubectl(&running) else {
        return;
    };
    let folder = manifests::root().join("base");
    let folder = folder.to_str().expect("a path in UTF-8");
    let apply = || kubectl.run_with(&["apply", "-k", folder], "").ok();
    let created = apply();
    assert_eq!(
        created.lines().count(),
        manifests::read("base").len(),
        "{created}"
    );
    assert!(created.lines().all(|it| it.ends_with(" created")), "{created}");
    // kubectl reports a PodDisruptionBudget as configured each time, because its selector is replaced as a whole.
    let again = apply();
    let same = |it: &str| it.ends_with(" unchanged") || it.starts_with("poddisruptionbudget.policy/");
    assert!(again.lines().all(same), "{again}");
}

/// The overlay, and each of its patches.
pub async fn kubectl_applies_overlays_of_the_readme(_: Cluster) {
    let (_exclusive, running) = own_cluster().await;
    let Some(kubectl) = kubectl(&running) else {
        return;
    };
    monitoring::create_crd(&running.cluster).await;
    let readme = fs::read_to_string(manifests::root().join("README.md")).expect("README.md");
    let mut blocks = readme.split("```yaml\n").skip(1);
    let mut block = || {
        blocks
            .next()
            .and_then(|it| it.split("```").next())
            .expect("a block")
    };
    let (overlay, take_over, without_collector) = (block(), block(), block());
    // The README has one component; the test adds the other.
    let overlay = overlay.replace("components:\n", "components:\n- ../components/webhook\n");
    let folder = tempfile::tempdir().expect("a folder");
    let up = relative_path(&manifests::root(), folder.path());
    let write = |patches: &str| {
        let text = format!("{overlay}{patches}").replace("- ../", &format!("- {up}/"));
        fs::write(folder.path().join("kustomization.yaml"), text).expect("a file");
    };
    let path = folder.path().to_str().expect("a path in UTF-8");
    let build = |patches: &str| {
        write(patches);
        kubectl.run_with(&["kustomize", path], "").ok()
    };
    let replaced = build(take_over);
    assert!(
        replaced.contains("- --controllers=*,replicaset-controller\n"),
        "{replaced}"
    );
    let collector = "coxswain:garbage-collector-controller";
    assert!(replaced.contains(collector));
    let left = build(without_collector);
    assert!(
        left.contains("- --controllers=*,-garbage-collector-controller\n"),
        "{left}"
    );
    let controllers = "- --controllers=*,-garbage-collector-controller\n";
    assert!(
        !left.replace(controllers, "").contains("garbage-collector"),
        "{left}"
    );

    write("");
    let created = kubectl.run_with(&["apply", "-k", path], "").ok();
    assert!(created.lines().all(|it| it.ends_with(" created")), "{created}");
    let all = ["base", "components/servicemonitor", "components/webhook"];
    let all: usize = all.map(|it| manifests::read(it).len()).iter().sum();
    assert_eq!(created.lines().count(), all, "{created}");
    let deployment = kubectl
        .run("get deployment coxswain -n coxswain-system -o yaml")
        .ok();
    for word in [
        "- --webhook-port=9443\n",
        "image: registry.example.com/coxswain:0.1.0\n",
    ] {
        assert!(deployment.contains(word), "{word}: {deployment}");
    }
}

/// Returns the relative path that an overlay in `from` needs.
fn relative_path(folder: &Path, from: &Path) -> String {
    let (folder, from) = [folder, from]
        .map(|it| it.canonicalize().expect("a folder"))
        .into();
    let below = |it: &Path| {
        let names = it.components().filter(|it| matches!(it, Component::Normal(_)));
        names
            .map(|it| it.as_os_str().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    let up = below(&from).into_iter().map(|_| "..".to_owned());
    up.chain(below(&folder)).collect::<Vec<_>>().join("/")
}
