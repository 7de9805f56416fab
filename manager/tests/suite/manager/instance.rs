//! The parts that a program adds to a built manager.

use steersman_harness::Api;
use steersman_manager::client::Transport;
use steersman_manager::env::{Env, TaskSet};
use steersman_manager::health::{Health, Probes};
use steersman_manager::manager::{Manager, Process};
use steersman_manager::metrics::Registry;
use steersman_manager::serve::{Access, Server, ServingCertificates, TlsOptions};
use steersman_manager::status;
use tokio_util::sync::CancellationToken;

use super::sandbox;

#[tokio::test]
async fn health_checks_and_endpoints_of_a_program_are_served() {
    let (sandbox, tasks) = (sandbox(), TaskSet::new());
    let (env, registry) = (Env::system(&tasks), Registry::new("test"));
    let transport = Transport::from_service(sandbox.service(), "sandbox", "test", &env.clock, &registry);
    let certificates = ServingCertificates::self_signed([]).expect("a certificate");
    let tls = certificates.tls(&TlsOptions::default()).expect("options");
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"), tls).await;
    let access = Access::new(["/healthz", "/page"]).expect("paths");
    let builder = Manager::builder("test")
        .registry(registry)
        .endpoints_on(server.expect("a free port"), certificates, access)
        .health_check("backend", Probes::HEALTHZ, || Health::Failed("down".to_owned()));
    let built = builder.build(Process::new(&env, transport.expect("unregistered metrics")));
    let mut instance = Box::pin(built).await.expect("a manager");
    instance.extend_endpoints(|endpoints| endpoints.mount("/page", |_| std::future::ready(status::page())));
    let address = instance.endpoints_address().expect("endpoints");
    let stop = CancellationToken::new();
    let running = env.tasks.spawn(Box::pin(instance.run(stop.clone())));

    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    let api = Api::new(kube::Client::try_from(config).expect("a client"));
    let health = api.get("/healthz").await.text();
    assert!(health.contains("[-]backend failed"), "{health}");
    assert!(api.get("/page").await.text().contains("<html"));
    stop.cancel();
    running.await.expect("no panic").expect("an orderly end");
}
