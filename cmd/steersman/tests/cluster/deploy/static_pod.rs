//! The static pod of `deploy/static-pod`, which is not rendered from the chart.

use steersman_harness::Cluster;

use super::manifests::{self, Manifest};

/// Lines of a manifest that begin with `prefix`, without indentation and quotes.
fn lines(manifest: &Manifest, prefix: &str) -> Vec<String> {
    let lines = manifest.text.lines().map(|line| line.trim().replace('"', ""));
    lines.filter(|line| line.starts_with(prefix)).collect()
}

/// Both have the same version and run the same controllers.
pub async fn static_pod_is_the_pod_of_standalone(_: Cluster) {
    let rendered = manifests::render("overlays/standalone", &[]);
    let deployment = rendered.iter().find(|it| it.kind == "Deployment");
    let deployment = deployment.expect("a Deployment");
    let pod = manifests::read("static-pod/steersman.yaml").remove(0);
    for prefix in [
        "image: ",
        "app.kubernetes.io/version: ",
        "- --controllers=",
        "- --leader-elect",
    ] {
        let expected = lines(deployment, prefix);
        assert!(!expected.is_empty(), "{prefix}");
        assert_eq!(lines(&pod, prefix), expected);
    }
    // The overlay has the objects of standalone that the pod needs, such as its roles.
    let kinds = ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"];
    let is_needed = |it: &&Manifest| !kinds.contains(&it.kind.as_str()) && it.component != "webhook";
    let paths = |all: &[Manifest]| {
        all.iter()
            .filter(is_needed)
            .map(Manifest::path)
            .collect::<Vec<_>>()
    };
    let of_pod = manifests::render("overlays/static-pod", &[]);
    assert!(of_pod.iter().all(|it| is_needed(&it)));
    assert_eq!(paths(&of_pod), paths(&rendered));
}
