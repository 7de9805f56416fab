//! The greeter on an API server in the same process, on a paused clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt as _;
use steersman_manager::client::{Client, Transport};
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::manager::Manager;
use steersman_manager::metrics::Registry;
use steersman_manager::object::Key;
use steersman_sandbox::faults::{Faults, Matcher, Refusal};
use steersman_sandbox::{Env as SandboxEnv, Sandbox};
use tokio_util::sync::CancellationToken;

use super::{Greeting, GreetingSpec, controller};

/// A running greeter, its API server and a client of a user.
struct Fixture {
    env: Env,
    faults: Faults,
    user: Client,
    _tasks: TaskSet,
}

impl Fixture {
    fn start() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let crd = serde_json::to_string(&Greeting::crd()).expect("a CRD");
        let sandbox = Sandbox::builder().env(SandboxEnv::starting_at(now, 1)).crds(crd);
        let (tasks, faults) = (TaskSet::new(), Faults::new());
        let env = Env::starting_at(now, 1, &tasks);
        let service = faults.wrap(sandbox.start().expect("a sandbox").service());
        let transport =
            Transport::from_service(service, "sandbox", "greeter", &env.clock, &Registry::new("test"));
        let transport = transport.expect("a transport");
        let user = transport.unfenced("user", None);
        let of_manager = env.clone();
        env.tasks.spawn(async move {
            let greeter = Manager::builder("greeter").controller(controller());
            let stop = CancellationToken::new();
            greeter
                .run_with(&of_manager, transport, stop)
                .await
                .expect("an orderly end");
        });
        Self {
            env,
            faults,
            user,
            _tasks: tasks,
        }
    }

    async fn greet(&self, text: &str) {
        let spec = GreetingSpec {
            text: text.to_owned(),
        };
        let mut greeting = Greeting::new("hello", spec);
        greeting.metadata.namespace = Some("default".to_owned());
        self.user.api().create(&greeting).await.expect("created");
    }

    /// Waits until the Greeting is ready.
    async fn ready(&self) {
        let greetings = self.user.api::<Greeting>();
        let ready = async {
            loop {
                let greeting = greetings.get(&key()).await.expect("an answer");
                if greeting
                    .and_then(|it| it.status)
                    .is_some_and(|status| status.ready)
                {
                    return;
                }
                self.env.clock.sleep(Duration::from_millis(10)).await;
            }
        };
        let minute = Duration::from_mins(1);
        self.env
            .clock
            .timeout(minute, ready)
            .await
            .expect("ready within a minute");
    }
}

fn key() -> Key {
    Key::new("default", "hello")
}

#[tokio::test(start_paused = true)]
async fn greeting_gets_a_config_map_and_a_status() {
    let fixture = Fixture::start();
    fixture.greet("Hello").await;
    fixture.ready().await;
    let map = fixture
        .user
        .api::<ConfigMap>()
        .get(&key())
        .await
        .expect("an answer");
    assert_eq!(map.and_then(|map| map.data).expect("data")["text"], "Hello");
}

#[tokio::test(start_paused = true)]
async fn deleted_config_map_is_created_again() {
    let fixture = Fixture::start();
    fixture.greet("Hello").await;
    fixture.ready().await;
    let maps = fixture.user.api::<ConfigMap>();
    let map = maps.get(&key()).await.expect("an answer").expect("a ConfigMap");
    let applied = Matcher::verb("patch").resource("configmaps");
    fixture.faults.forget();
    assert!(maps.delete(&map).await.expect("deleted"));
    while fixture.faults.count(&applied) == 0 {
        fixture.env.clock.sleep(Duration::from_millis(10)).await;
    }
    assert!(maps.get(&key()).await.expect("an answer").is_some());
}

#[tokio::test(start_paused = true)]
async fn greeter_survives_faults_and_is_idle_for_a_day() {
    let fixture = Fixture::start();
    let faults = &fixture.faults;
    let applied = Matcher::verb("patch").resource("configmaps");
    let status = Matcher::verb("patch").resource("greetings.demo.dev/status");
    faults.on(applied.clone()).times(1).lose_answer();
    faults.on(status.clone()).times(1).refuse(Refusal::new(409));
    fixture.greet("Hello").await;
    fixture.ready().await;
    assert!(faults.count(&applied) > 1, "again after the lost answer");
    assert_eq!(faults.count(&status), 2, "the conflict, and one more");
    faults.forget();
    fixture.env.clock.sleep(Duration::from_hours(24)).await;
    assert_eq!(faults.count(&Matcher::writes()), 0);
}
