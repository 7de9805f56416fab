//! The manager of a configuration: its options and its controllers. A process runs one, the tour two, and the simulation up to
//! three.

use std::panic;

use bytes::Bytes;
use steersman_config::{Config, Enablement, LeaderElection, Webhook, WebhookCertificate};
use steersman_controllers::garbage_collector::{self, GraphPage};
use steersman_controllers::hollow_kubelet;
use steersman_controllers::registry::{self, Descriptor, EnabledBy, Hosted, Settings};
use steersman_manager::cache::Scope;
use steersman_manager::controller::ControllerError;
use steersman_manager::election;
use steersman_manager::manager::{Instance, Manager, ManagerBuilder};
use steersman_manager::metrics::Registry;
use steersman_manager::serve::HttpResponse;
use steersman_manager::webhook::{Hooks, ServiceCertificate, ServiceName, Source};

use http::Request;

use crate::NAME;
use crate::build::VERSION;
use crate::crds;
use crate::reload::rate_limit;

/// Returns a builder with the options of `config`, without endpoints.
pub fn builder(config: &Config, registry: &Registry) -> ManagerBuilder {
    let Config {
        generic,
        client_connection,
        leader_election,
        webhook,
        serving: _,
        authentication: _,
        authorization: _,
        logging: _,
        tracing: _,
        debugging: _,
        sandbox: _,
        app_services: _,
        deployments: _,
        garbage_collector: _,
        hollow_kubelet: _,
        replicas: _,
        flags: _,
        document: _,
    } = config;
    let mut builder = Manager::builder(NAME)
        .version(VERSION)
        .registry(registry.clone())
        .rate_limit(rate_limit(client_connection))
        .scope(Scope {
            namespaces: generic.namespaces.clone(),
            label_selector: generic.label_selector.clone().unwrap_or_default(),
        })
        .start_interval(generic.controller_start_interval)
        .shutdown_timeout(generic.controller_shutdown_timeout);
    if generic.use_service_account_credentials {
        builder = builder.service_accounts(&leader_election.resource_namespace);
    }
    if leader_election.leader_elect {
        builder = builder.leader_election_with(election(leader_election));
    }
    match webhook {
        Some(webhook) => with_webhooks(builder, webhook),
        None => builder,
    }
}

/// Adds the enabled controllers with their pages and webhooks. Returns their names.
pub fn host(config: &Config, instance: &mut Instance) -> Result<Vec<&'static str>, ControllerError> {
    let enabled = |it: &Descriptor| match config.generic.controllers.enabled(it.name, it.enabled_by_default) {
        Enablement::No => None,
        Enablement::ByStar => Some(EnabledBy::Star),
        Enablement::ByName => Some(EnabledBy::Name),
    };
    let Hosted { names, graph, hooks } = registry::host(instance.manager(), enabled, &settings(config))?;
    instance.extend_webhooks(hooks);
    if let Some(page) = graph {
        instance.extend_endpoints(move |endpoints| {
            endpoints.mount(GraphPage::PATH, move |request| draw(page.clone(), request))
        });
    }
    crds::watch(instance.manager(), &names);
    Ok(names)
}

/// Draws the graph on a thread for blocking work: a large graph must not delay a renewal of the Lease.
async fn draw(page: GraphPage, request: Request<Bytes>) -> HttpResponse {
    let drawn = tokio::task::spawn_blocking(move || page.answer(&request)).await;
    // A panic fails the request.
    drawn.unwrap_or_else(|error| panic::resume_unwind(error.into_panic()))
}

fn settings(config: &Config) -> Settings {
    let Config {
        generic,
        sandbox,
        app_services,
        deployments,
        garbage_collector,
        hollow_kubelet,
        replicas,
        ..
    } = config;
    let workers = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    Settings {
        garbage_collector: garbage_collector.as_ref().map(|it| garbage_collector::Options {
            workers: workers(it.concurrent_syncs),
            dry_run: it.dry_run,
        }),
        hollow_kubelet: hollow_kubelet::Options {
            nodes: hollow_kubelet.nodes,
            delay: hollow_kubelet.ready_delay,
            sandbox: sandbox.is_some(),
        },
        hollow_kubelet_workers: workers(hollow_kubelet.concurrent_syncs),
        appreplicaset_workers: workers(replicas.concurrent_appreplicaset_syncs),
        appservice_default_image: app_services.default_image.clone(),
        appservice_workers: workers(app_services.concurrent_syncs),
        deployment_workers: workers(deployments.concurrent_syncs),
        replicaset_workers: workers(replicas.concurrent_replicaset_syncs),
        replicationcontroller_workers: workers(replicas.concurrent_rc_syncs),
        assume_no_kube_controller_manager: generic.assume_no_kube_controller_manager,
    }
}

fn election(flags: &LeaderElection) -> election::Config {
    let LeaderElection {
        leader_elect: _,
        lease_duration,
        renew_deadline,
        retry_period,
        resource_name,
        resource_namespace,
    } = flags;
    election::Config {
        // The manager sets that of the process.
        identity: String::new(),
        namespace: resource_namespace.clone(),
        name: resource_name.clone(),
        lease_duration: *lease_duration,
        renew_deadline: *renew_deadline,
        retry_period: *retry_period,
    }
}

fn with_webhooks(builder: ManagerBuilder, webhook: &Webhook) -> ManagerBuilder {
    let Webhook {
        listen,
        certificate,
        client_ca,
    } = webhook.clone();
    let source = match certificate {
        WebhookCertificate::Service { namespace, name } => {
            let mut certificate = ServiceCertificate::new(ServiceName { namespace, name });
            let managed_by = ("app.kubernetes.io/managed-by".to_owned(), NAME.to_owned());
            certificate.secret_labels = [managed_by].into();
            certificate.authority_name = format!("{NAME}-webhook-ca");
            Source::Service(certificate)
        }
        WebhookCertificate::Folder(folder) => Source::Folder(folder),
    };
    // `host` adds the webhooks of the controllers.
    let builder = builder.webhooks(&listen.to_string(), source, Hooks::new());
    match client_ca {
        Some(file) => builder.webhook_client_ca(file),
        None => builder,
    }
}
