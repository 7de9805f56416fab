//! A controller whose service account has no token.

use coxswain_manager::client::ServiceAccounts;
use coxswain_manager::controller::AuthenticatedController;
use coxswain_manager::health::{Health, Probes};
use coxswain_manager::object::Resource;
use serde_json::{Value, json};

use super::test_controller::{Behavior, Shared, TestController};
use super::{Process, Running, SECOND, sandbox};

const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");

fn health(running: &Running, probe: Probes) -> Health {
    let checks = running.checks.run(probe).into_iter();
    let mut own = checks.filter(|(name, _)| name == "probe");
    own.next().expect("a check").1
}

#[tokio::test(start_paused = true)]
async fn controller_without_a_token_runs_and_is_unhealthy_until_it_has_one() {
    let sandbox = sandbox();
    let mut process = Process::new(sandbox.service(), "first");
    let admin = process.transport.unfenced("admin", None);
    // The namespace of the account does not exist.
    let accounts = ServiceAccounts::new(&process.env, admin.clone(), process.transport.clone(), "late");
    process.manager.use_service_accounts(accounts);
    let account = process
        .manager
        .service_account("robot")
        .expect("service accounts are used");
    let controller = TestController::new(Behavior::Stops);
    let authenticated = AuthenticatedController::new(Shared(controller.clone()), account);
    process.manager.add(authenticated);
    let running = process.elect();
    controller.started(1).await;
    running.env.clock.sleep(SECOND).await;
    let Health::Failed(reason) = health(&running, Probes::HEALTHZ) else {
        panic!("the controller has no token");
    };
    assert!(
        reason.contains("late/robot") && reason.contains("namespace"),
        "{reason}"
    );
    assert!(
        matches!(health(&running, Probes::LIVEZ), Health::Note(_)),
        "a restart would not help"
    );

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
    admin
        .create::<Value>(&NAMESPACES, "", namespace.to_string().into())
        .await
        .expect("created");
    running.env.clock.sleep(100 * SECOND).await;
    assert_eq!(
        health(&running, Probes::HEALTHZ),
        Health::Ok,
        "without a request of the controller"
    );
    assert_eq!(controller.counts(), (1, 0), "it was not restarted");
    running.stop().await.expect("an orderly shutdown");
}
