//! The clients of the harness: both reach the same cluster, with a kubeconfig that only its owner can read.

use std::os::unix::fs::PermissionsExt as _;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_harness::{
    Cluster, Test,
    fixtures::{config_map, core},
    test,
};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    vec![
        test!(typed_client_reads_posted_object),
        test!(kubeconfig_is_private),
    ]
}

async fn typed_client_reads_posted_object(c: Cluster) {
    let ns = c.namespace().await;
    c.create(&core(&ns, "configmaps"), config_map("a")).await;
    let typed: kube::Api<ConfigMap> = kube::Api::namespaced(c.client(), &ns);
    let read = typed.get("a").await.expect("the posted object");
    assert_eq!(
        read.data.unwrap_or_default().get("k").map(String::as_str),
        Some("v")
    );
}

async fn kubeconfig_is_private(c: Cluster) {
    let metadata = std::fs::metadata(c.kubeconfig()).expect("a kubeconfig");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}
