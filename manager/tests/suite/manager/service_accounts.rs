//! Controllers and tasks with the identity of a service account.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_manager::client::{Patch, ServiceAccounts};
use steersman_manager::controller::{
    Action, AuthenticatedController, Context, Controller, Definition, ReconcileError, TaskContext,
};
use steersman_manager::events::EventType;
use steersman_manager::health::{Health, Probes};
use steersman_manager::manager::Manager;
use steersman_manager::object::Resource;
use steersman_sandbox::faults::Matcher;
use tokio_util::sync::CancellationToken;

use super::test_controller::{Behavior, Shared, TestController};
use super::{Process, Running, SECOND, sandbox};
use crate::fixture::fixture;

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
    let account = process.manager.service_account("robot");
    assert!(account.is_some(), "service accounts are used");
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

#[tokio::test(start_paused = true)]
async fn writes_and_events_of_typed_controllers_and_tasks_have_the_user_of_the_service_account() {
    let f = fixture();
    let controller = Controller::<ConfigMap>::new("seen").reconcile(async |ctx: Context<ConfigMap>| {
        ctx.event(EventType::Normal, "Seen", "The ConfigMap was seen.");
        let patch = Patch::merge(&json!({"data": {"seen": "true"}}));
        ctx.api::<ConfigMap>().patch(ctx.key(), patch).await?;
        Ok::<_, ReconcileError>(Action::Done)
    });
    let task = Definition::task("seed", async |task: TaskContext| {
        let map = json!({"metadata": {"name": "seed", "namespace": "default"}});
        let map: ConfigMap = serde_json::from_value(map)?;
        task.client.api().create(&map).await?;
        Ok(())
    });
    let manager = Manager::builder("test")
        .service_accounts("default")
        .controller(controller)
        .controller(task);
    let (env, transport) = (f.env.clone(), f.transport.clone());
    f.env.tasks.spawn(async move {
        let ended = manager.run_with(&env, transport, CancellationToken::new());
        ended.await.expect("an orderly end");
    });
    f.env.clock.sleep(10 * SECOND).await;
    let sent = f.faults.requests(&Matcher::writes()).into_iter();
    let sent = sent.filter(|it| ["configmaps", "events"].contains(&it.resource.as_str()));
    let users: BTreeSet<_> = sent.map(|it| format!("{}: {}", it.resource, it.user)).collect();
    let expected = [
        "configmaps: system:serviceaccount:default:seed",
        "configmaps: system:serviceaccount:default:seen",
        "events: system:serviceaccount:default:seen",
    ];
    assert_eq!(users, expected.map(str::to_owned).into());
}
