//! A reconcile that blocks the only thread of its runtime. The process runs in a thread of its own, on a clock that is faster
//! than that of the machine.

use std::net::SocketAddr;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_harness::{Api, time};
use steersman_manager::client::Transport;
use steersman_manager::controller::{Action, Context, Controller, ReconcileError};
use steersman_manager::election;
use steersman_manager::env::{Clock, Env, Fault, TaskSet};
use steersman_manager::manager::{ControlRuntime, Manager, Process};
use steersman_manager::metrics::Registry;
use steersman_sandbox::ApiService;
use steersman_sandbox::faults::{FaultService, Faults, Matcher};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

use super::{MAPS, sandbox};

/// In percent of the machine's clock: the check fails half a minute after the timeout of the reconcile.
const RATE: u32 = 5000;

fn lease() -> election::Config {
    let minutes = |it| Duration::from_mins(it);
    election::Config {
        // A busy machine may take seconds for a renewal, which are minutes of this clock.
        lease_duration: minutes(120),
        renew_deadline: minutes(60),
        ..election::Config::new("default", "blocked", "")
    }
}

/// Returns a transport to the sandbox. Its tasks run on the runtime of the caller.
fn connect(service: FaultService<ApiService>, clock: &Clock, registry: &Registry) -> Transport {
    let transport = Transport::from_service(service, "sandbox", "test", clock, registry);
    transport.expect("unregistered metrics")
}

/// Runs a manager until `stop`. The reconcile of its controller blocks until `released` is dropped.
async fn run(
    service: FaultService<ApiService>,
    address: mpsc::Sender<SocketAddr>,
    released: mpsc::Receiver<()>,
    stop: CancellationToken,
) {
    let tasks = TaskSet::new();
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    assert!(env.clock.inject(Fault::Rate(RATE)));
    let control = ControlRuntime::start().expect("threads");
    let registry = Registry::new("test");
    let transport = connect(service.clone(), &env.clock, &registry);
    let mut process = Process::new(&env, transport);
    process.control_env = control.env(&env);
    // Its requests must not need the blocked thread.
    let clock = env.clock.clone();
    let of_control = async move { connect(service, &clock, &Registry::new("test")) };
    let connected = process.control_env.tasks.spawn(of_control).await;
    process.control_transport = connected.expect("no panic");
    let released = Mutex::new(released);
    let controller = Controller::<ConfigMap>::new("blocking")
        .timeout(Duration::from_secs(1))
        .reconcile(move |_: Context<ConfigMap>| {
            // Fails when the sender is dropped.
            let _ = released.lock().expect("no panic").recv();
            std::future::ready(Ok::<_, ReconcileError>(Action::Done))
        });
    let builder = Manager::builder("test")
        .registry(registry)
        .shutdown_timeout(None)
        .leader_election_with(lease())
        .endpoints("127.0.0.1:0")
        .controller(controller);
    let instance = builder.build(process).await.expect("a manager");
    address
        .send(instance.endpoints_address().expect("endpoints"))
        .expect("a receiver");
    instance.run(stop).await.expect("an orderly end");
}

#[tokio::test]
async fn blocked_controller_fails_healthz_and_lease_is_renewed() {
    let (sandbox, faults, stop) = (sandbox(), Faults::new(), CancellationToken::new());
    let service = faults.wrap(sandbox.service());
    let user = connect(service.clone(), &Clock::system(), &Registry::new("test"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    let _: Value = user
        .unfenced("user", None)
        .create(&MAPS, "default", map.to_string().into())
        .await
        .expect("created");
    let (send_address, address) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let stopping = stop.clone();
    let process = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(run(service, send_address, released, stopping));
    });
    let address = address.recv().expect("an address");
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    let api = Api::new(kube::Client::try_from(config).expect("a client"));
    let named = time::eventually(time::ANSWER, async || {
        // A connection may end: its deadlines pass faster, too.
        let reply = api.try_request(Method::GET, "/healthz", &[], ()).await.ok()?;
        reply.text().contains("[-]blocking failed").then_some(())
    });
    named.await.expect("the check of the controller fails");
    let renewals = || faults.count(&Matcher::writes().resource("leases.coordination.k8s.io"));
    let before = renewals();
    let renewed = time::eventually(time::ANSWER, async || (renewals() > before + 1).then_some(()));
    renewed.await.expect("the Lease is renewed");
    drop(release);
    stop.cancel();
    process.join().expect("no panic");
}
