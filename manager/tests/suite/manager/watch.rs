//! Health of a controller whose watch does not work.

use steersman_manager::cache::Cache;
use steersman_manager::controller::{self, Action, Builder, ReconcileContext, ReconcileError, Reconciler};
use steersman_manager::handler::Handler;
use steersman_manager::health::{Health, Probes};
use steersman_manager::object::{Key, MetaObject, Resource};
use steersman_manager::source::Source;
use steersman_sandbox::faults::{Faults, Matcher};

use super::health::{WIDGETS, check};
use super::{MAPS, Process, Running, SECOND, sandbox};

/// Reconciles a key by waiting for its name in seconds, if that is a number, and failing otherwise.
pub(super) struct Waiter;

impl Reconciler for Waiter {
    async fn reconcile(&self, context: ReconcileContext, key: Key) -> Result<Action, ReconcileError> {
        match key.name.parse::<u32>() {
            Ok(seconds) => {
                context.env.clock.sleep(seconds * SECOND).await;
                Ok(Action::Done)
            }
            Err(_) => Err(ReconcileError::terminal(format!("{} has no number", key.name))),
        }
    }
}

/// Adds a controller of a resource under the name of the resource.
pub(super) fn add(process: &mut Process, resource: &Resource) -> Cache<MetaObject> {
    let cache: Cache<MetaObject> = process.manager.caches().of(resource);
    let source = Source::new(cache.clone(), Handler::for_object());
    let client = process.transport.reader("waiter", None);
    let name = resource.plural.to_string();
    let controller = Builder::new(name, controller::Options::default(), Waiter)
        .watch(source)
        .build(&process.env, client, &process.registry)
        .expect("a controller");
    process.manager.add(controller);
    cache
}

fn live(running: &Running) -> bool {
    let results = running.checks.run(Probes::LIVEZ);
    !results
        .iter()
        .any(|(_, health)| matches!(health, Health::Failed(_)))
}

#[tokio::test(start_paused = true)]
async fn controller_is_unhealthy_when_its_watch_had_no_contact_for_10_minutes() {
    let sandbox = sandbox();
    let faults = Faults::new();
    let mut process = Process::over(faults.wrap(sandbox.service()), "a");
    let maps = add(&mut process, &MAPS);
    let running = process.run(None);
    maps.synced().await;
    let health = || check(&running, Probes::HEALTHZ, "configmaps");
    running.env.clock.sleep(1000 * SECOND).await;
    assert_eq!(health(), Some(Health::Ok), "an idle cluster");

    let unreachable = faults.on(Matcher::any()).lose_request();
    let silence = || maps.silence().expect("a served resource");
    // The open watch lasts for some more minutes.
    while silence() < 600 * SECOND {
        assert_eq!(health(), Some(Health::Ok), "{:?}", silence());
        running
            .env
            .clock
            .sleep((600 * SECOND).saturating_sub(silence()))
            .await;
    }
    assert_eq!(silence(), 600 * SECOND);
    assert_eq!(health(), Some(Health::Ok));
    running.env.clock.sleep(SECOND).await;
    assert!(live(&running), "a restart does not help");
    let Some(Health::Failed(reason)) = health() else {
        panic!("unhealthy")
    };
    assert!(
        reason.starts_with("the watch of configmaps has had no event, bookmark or reconnect for 601 s ")
            && reason.ends_with(
                "(retrying: GET /api/v1/configmaps: connection reset by a fault before the request arrived)"
            ),
        "{reason}"
    );

    unreachable.remove();
    running.env.clock.sleep(60 * SECOND).await;
    assert_eq!(health(), Some(Health::Ok), "the watch was reopened");
    running.stop().await.expect("an orderly shutdown");
}

#[tokio::test(start_paused = true)]
async fn controller_that_waits_for_a_missing_crd_stays_healthy() {
    let sandbox = sandbox();
    let mut process = Process::new(sandbox.service(), "a");
    let widgets = add(&mut process, &WIDGETS);
    let running = process.run(None);
    running.env.clock.sleep(1000 * SECOND).await;
    assert_eq!(widgets.silence(), None);
    let health = check(&running, Probes::HEALTHZ, "widgets");
    assert!(
        matches!(&health, Some(Health::Note(why)) if why.starts_with("waiting for widgets.test.dev")),
        "{health:?}"
    );
    assert!(live(&running));
    running.stop().await.expect("an orderly shutdown");
}
