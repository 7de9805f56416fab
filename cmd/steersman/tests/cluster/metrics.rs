//! The metrics reference, `docs/metrics.md`, lists the metrics of a process.

use std::fs;
use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use steersman_harness::cluster::{self, Cluster};
use steersman_harness::metrics::{self, Reference};
use steersman_harness::{Program, Test, certs, fixtures, program, test, time};

use crate::{PROGRAM, QUIET};

/// API groups that the process may access. It cannot sync the resources of others, whose metrics exist only then.
const GROUPS: [&str; 7] = [
    "",
    "apps",
    "appcontroller.k8s.io",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
];
/// Metrics without a series when the process starts.
const LATE: [&str; 4] = [
    "steersman_garbage_collector_unlisted_total{",
    "steersman_garbage_collector_unsynced{",
    "controller_runtime_reconcile_time_seconds_count{",
    "rest_client_response_size_bytes_count{",
];
const ACCOUNT: &str = "metrics";
const RBAC: &str = "rbac.authorization.k8s.io";

pub fn tests() -> Vec<Test> {
    vec![test!(metrics_reference_is_up_to_date)]
}

async fn metrics_reference_is_up_to_date(_: Cluster) {
    let _exclusive = QUIET.write().await;
    let running = cluster::start().await.expect("a cluster");
    let c = &running.cluster;
    let files = tempfile::tempdir().expect("a folder");
    let program = start(c, files.path()).await;
    let page = async || {
        let mut page = program.endpoints().get("/metrics").await.text();
        page += &program.endpoints().get("/metrics/slis").await.text();
        page
    };
    let complete = time::eventually(time::ANSWER, async || {
        let page = page().await;
        LATE.iter().all(|it| page.contains(it)).then_some(page)
    });
    let Some(complete) = complete.await else {
        panic!("one of {LATE:?} is missing:\n{}\n{}", page().await, program.log());
    };
    for usage in ["client", "serving", "webhook"] {
        let series = format!("steersman_certificate_expiration_timestamp_seconds{{usage=\"{usage}\"}} ");
        assert!(complete.contains(&series), "{series}: {complete}");
    }
    let mut rows = metrics::rows(&complete);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let reference = Reference::read(&root);
    // Only a build with the feature otlp exports them; `traces` tests them.
    let traces = |(name, _): &(&String, &String)| name.starts_with("tracing_");
    let traces = reference.rows.iter().filter(traces);
    rows.extend(traces.map(|(name, row)| (name.clone(), row.clone())));
    if std::env::var_os("UPDATE").is_some() {
        return reference.write(&rows);
    }
    let difference: Vec<&String> = { rows.values() }
        .filter(|row| !reference.rows.values().any(|it| it == *row))
        .chain({ reference.rows.values() }.filter(|row| !rows.values().any(|it| it == *row)))
        .collect();
    assert!(
        difference.is_empty(),
        "docs/metrics.md is out of date: run `UPDATE=1 cargo test -p steersman --test cluster metrics_reference` and commit \
         it: {difference:#?}"
    );
}

/// Starts a process with all controllers and webhooks, as a service account with access to [`GROUPS`].
async fn start(c: &Cluster, files: &Path) -> Program {
    let all = json!(["*"]);
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": ACCOUNT},
        "rules": [
            {"apiGroups": GROUPS, "resources": all, "verbs": all},
            {"nonResourceURLs": all, "verbs": ["get"]},
        ],
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
    });
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/{RBAC}/v1/{resource}");
        c.api().post(&path, object).await.expect(201);
    }
    let accounts = fixtures::core("default", "serviceaccounts");
    let account = fixtures::named("v1", "ServiceAccount", ACCOUNT);
    c.api().post(&accounts, account).await.expect(201);
    let token = c.token("default", ACCOUNT).await;

    let text = fs::read(c.kubeconfig()).expect("the kubeconfig of the administrator");
    let mut kubeconfig: Value = serde_json::from_slice(&text).expect("it is written as JSON");
    // The API server does not trust the certificate, and authenticates the token.
    let client = certs::client().expect("a certificate");
    kubeconfig["users"][0]["user"] = json!({
        "token": token,
        "client-certificate-data": BASE64_STANDARD.encode(client.cert),
        "client-key-data": BASE64_STANDARD.encode(client.key),
    });
    let pair = certs::generate().expect("certificates");
    for (file, text) in [
        ("kubeconfig", kubeconfig.to_string()),
        ("tls.crt", pair.cert),
        ("tls.key", pair.key),
    ] {
        fs::write(files.join(file), text).expect("a file");
    }
    let flags = [
        "--controllers=*".to_owned(),
        "--assume-no-kube-controller-manager".to_owned(),
        "--leader-elect-resource-namespace=default".to_owned(),
        format!("--kubeconfig={}", files.join("kubeconfig").display()),
        format!("--webhook-port={}", program::free_address().port()),
        format!("--webhook-cert-dir={}", files.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Program::start(PROGRAM, &flags).await
}
