//! Compares the rules of `deploy/` with the requests that the cluster suites have recorded, in both directions.
//!
//! ```console
//! $ export STEERSMAN_TEST_AUDIT=$(mktemp -d)
//! $ cargo test --workspace --test cluster
//! $ cargo test --workspace --test roles -- --ignored
//! ```

use std::env;
use std::path::Path;

use steersman_harness::audit::{AuditLog, DIRECTORY};
use steersman_harness::{cluster, roles};

/// The verb and the resource of permissions that controllers use only after a failure. Whether a cluster suite causes one depends on
/// time; `controllers/tests/suite/service_accounts.rs` causes one for each account.
const AFTER_FAILURES: [(&str, &str); 1] = [("get", "pods")];

#[tokio::test]
#[ignore = "needs the records of a run of the cluster suites"]
async fn rules_and_recorded_requests_correspond() {
    let directory = env::var_os(DIRECTORY).expect("STEERSMAN_TEST_AUDIT is set");
    let requests = AuditLog::read(Path::new(&directory)).expect("records");
    let running = cluster::start_sandbox().await.expect("a sandbox");
    let rules = roles::create_all(&running.cluster).await;
    let permissions: Vec<_> = rules.iter().flat_map(roles::Rule::permissions).collect();
    assert!(permissions.len() > 100, "only {} permissions", permissions.len());

    let forbidden = requests.iter().filter(|it| !it.allowed).map(ToString::to_string);
    let unused = permissions
        .iter()
        .filter(|it| {
            !AFTER_FAILURES.contains(&(it.verb, it.resource))
                && !requests
                    .iter()
                    .any(|request| request.allowed && it.is_used_by(request))
        })
        .map(|it| format!("UNUSED {it}"));
    let wrong: Vec<String> = forbidden.chain(unused).collect();
    println!(
        "{} permissions, {} distinct requests",
        permissions.len(),
        requests.len()
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
