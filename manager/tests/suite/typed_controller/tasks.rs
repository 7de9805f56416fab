//! Tasks beside the controllers, with and without leadership.

use k8s_openapi::api::coordination::v1::Lease;
use steersman_manager::controller::TaskContext;

use super::*;

#[tokio::test(start_paused = true)]
async fn tasks_run_with_and_without_leadership() {
    let (f, seen) = (Fixture::new(), Seen::default());
    let (of_leader, of_all) = (seen.clone(), seen.clone());
    let task = Definition::task("seed", move |task: TaskContext| {
        let seen = of_leader.clone();
        async move {
            let map = json!({"metadata": {"name": "seed", "namespace": "default"}});
            let map: ConfigMap = serde_json::from_value(map)?;
            task.client.api().create(&map).await?;
            seen.add("leader");
            task.stop.cancelled().await;
            seen.add("leader stopped");
            Ok(())
        }
    });
    let manager = Manager::builder("test")
        .leader_election("default", "test")
        .controller(task)
        .background("all", async move |_, stop: CancellationToken| {
            of_all.add("all");
            stop.cancelled().await;
            of_all.add("all stopped");
            Ok(())
        });
    let lease = json!({"metadata": {"name": "test"}, "spec":
        {"holderIdentity": "another", "leaseDurationSeconds": 15}});
    f.create(&Resource::of::<Lease>(), lease).await;
    let stop = CancellationToken::new();
    let (env, transport, stopping) = (f.env.clone(), f.transport.clone(), stop.clone());
    let running = f
        .env
        .tasks
        .spawn(async move { manager.run_with(&env, transport, stopping).await });
    f.settle().await;
    assert_eq!(seen.take(), ["all"], "the Lease is held");
    f.env.clock.sleep(60 * SECOND).await;
    assert_eq!(seen.take(), ["leader"]);
    stop.cancel();
    running.await.expect("no panic").expect("an orderly end");
    assert_eq!(seen.take(), ["leader stopped", "all stopped"]);
}

#[tokio::test(start_paused = true)]
async fn failed_task_ends_the_manager() {
    let f = Fixture::new();
    let failing = || Definition::task("seed", async |_| Err("no seed".into()));
    let manager = Manager::builder("test").controller(failing());
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    let error = ended.expect_err("it failed").to_string();
    assert!(error.contains("task seed: no seed"), "{error}");
    let manager = Manager::builder("test").background("all", async |_, _| Err("no reason".into()));
    let ended = manager
        .run_with(&f.env, f.transport.clone(), CancellationToken::new())
        .await;
    let error = ended.expect_err("it failed").to_string();
    assert_eq!(error, "background task all failed: no reason");
}
