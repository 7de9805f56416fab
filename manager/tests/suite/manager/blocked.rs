//! A reconcile that blocks the only thread of its runtime, and reviews that block all threads of theirs. The clock is faster than
//! that of the machine.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use steersman_harness::{Api, certs, time};
use steersman_manager::client::Transport;
use steersman_manager::controller::{Action, Context, Controller, ReconcileError};
use steersman_manager::election;
use steersman_manager::env::{Clock, Env, Fault, TaskSet};
use steersman_manager::manager::{ControlRuntime, Manager, Process};
use steersman_manager::metrics::Registry;
use steersman_manager::webhook::{Hooks, Source, validating_path};
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

/// The threads of the runtime of the webhooks.
const THREADS: usize = 2;
/// More than it has threads.
const REVIEWS: usize = 8;

#[tokio::test]
async fn blocked_reviews_do_not_delay_a_renewal() {
    let (sandbox, faults, stop, tasks) = (sandbox(), Faults::new(), CancellationToken::new(), TaskSet::new());
    let env = Env::starting_at(Timestamp::UNIX_EPOCH, 1, &tasks);
    let control = ControlRuntime::start().expect("threads");
    let transport = connect(faults.wrap(sandbox.service()), &env.clock, &Registry::new("test"));
    let mut process = Process::new(&env, transport);
    process.control_env = control.env(&env);
    process.webhook_env = control.webhook_env(&env);
    let certs = certs::generate().expect("certificates");
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("tls.crt"), certs.cert).expect("a file");
    std::fs::write(folder.path().join("tls.key"), certs.key).expect("a file");
    let (release, released) = mpsc::channel::<()>();
    let (started, is_started) = (Arc::new(AtomicUsize::new(0)), Mutex::new(released));
    let count = started.clone();
    let hooks = Hooks::new().validating(&MAPS, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        // Fails when the sender is dropped.
        let _ = is_started.lock().expect("no panic").recv();
        std::future::ready(Ok(Vec::new()))
    });
    let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let address = address.expect("a free port");
    let builder = Manager::builder("test")
        .shutdown_timeout(None)
        .leader_election_with(lease())
        .webhooks(
            &address.to_string(),
            Source::Folder(folder.path().to_owned()),
            hooks,
        );
    let instance = builder.build(process).await.expect("a manager");
    let ended = env.tasks.spawn(instance.run(stop.clone()));

    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "1", "operation": "CREATE", "object": {}},
    });
    for _ in 0..REVIEWS {
        let api = Api::new(kube::Client::try_from(config.clone()).expect("a client"));
        let review = review.clone();
        // The port is bound, and the connection waits until it is served.
        env.tasks.spawn(async move {
            let _ = api
                .try_request(Method::POST, &validating_path(&MAPS), &[], review)
                .await;
        });
    }
    // They block all threads of their runtime; the other reviews wait for a thread.
    let blocked = time::eventually(time::ANSWER, async || {
        (started.load(Ordering::Relaxed) >= THREADS).then_some(())
    });
    blocked.await.expect("reviews");
    assert!(env.clock.inject(Fault::Rate(RATE)));
    let renewals = || faults.count(&Matcher::writes().resource("leases.coordination.k8s.io"));
    let before = renewals();
    let renewed = time::eventually(time::ANSWER, async || (renewals() > before + 1).then_some(()));
    renewed.await.expect("the Lease is renewed");
    drop(release);
    stop.cancel();
    ended.await.expect("no panic").expect("an orderly end");
}
