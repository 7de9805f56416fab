//! Validates flags and converts them to a [`Config`].
//!
//! All errors are reported at once. Flags are destructured exhaustively, so that an unused flag does not compile.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{
    AppServices, CertificateFiles, ClientConnection, Config, Deployments, GarbageCollector, Generic,
    HollowKubelet, LeaderElection, Logging, Rate, Replicas, Sandbox, Serving, Webhook, WebhookCertificate,
};
use crate::duration::GoDuration;
use crate::error::Invalid;
use crate::flags::{
    AppServiceFlags, ClientFlags, DeploymentFlags, ElectionFlags, Flags, GarbageCollectorFlags, GenericFlags,
    GlobalFlags, HollowKubeletFlags, LoggingFlags, ReplicaFlags, SandboxFlags, ServingFlags, Switch,
    WebhookFlags,
};
use crate::selector::{KnownController, Selector};
use crate::syntax;

/// Longest duration of a write without a resourceVersion, which must not overlap with the next term. The same bound is in
/// coxswain-manager.
const UNCONDITIONAL_WRITE_MAX: Duration = Duration::from_secs(3);

/// Validates the flags. `given` returns whether a flag, by the name of its field, was on the command line.
pub(crate) fn config(
    flags: Flags,
    given: impl Fn(&str) -> bool,
    known: &[KnownController],
) -> Result<Config, Vec<Invalid>> {
    let Flags {
        generic,
        client,
        election,
        serving,
        webhook,
        logging,
        app_services,
        deployments,
        garbage_collector,
        hollow_kubelet,
        replicas,
        sandbox,
        global: GlobalFlags { help: _, version: _ },
        positional: _,
    } = flags;
    let mut validator = Validator(Vec::new());
    let is_sandbox = sandbox.sandbox.0;
    let rate_given = given("kube_api_qps") || given("kube_api_burst");
    if is_sandbox
        && (present(client.kubeconfig.as_ref()) || client.master.as_ref().is_some_and(|m| !m.is_empty()))
    {
        validator.fail(Invalid::Combination(
            "--sandbox cannot be combined with --kubeconfig or --master: it has its own API server",
        ));
    }
    let mut serving = serving;
    if is_sandbox && !given("bind_address") {
        // The sandbox is for one machine.
        serving.bind_address = Ipv4Addr::LOCALHOST.into();
    }
    let bind_address = serving.bind_address;
    let config = Config {
        generic: validator.generic(generic, is_sandbox, &given, known),
        client_connection: validator.client(client, !is_sandbox || rate_given),
        leader_election: validator.election(election),
        serving: validator.serving(serving),
        webhook: validator.webhook(webhook, bind_address, given("webhook_service")),
        logging: validator.logging(&logging),
        garbage_collector: validator.garbage_collector(&garbage_collector),
        hollow_kubelet: validator.hollow_kubelet(&hollow_kubelet),
        app_services: validator.app_services(&app_services),
        deployments: validator.deployments(&deployments),
        replicas: validator.replicas(&replicas),
        sandbox: validator.sandbox(sandbox, given("sandbox_listen")),
    };
    if validator.0.is_empty() {
        Ok(config)
    } else {
        Err(validator.0)
    }
}

/// Collects errors. A failed check returns a placeholder, which is discarded with the configuration.
struct Validator(Vec<Invalid>);

impl Validator {
    fn generic(
        &mut self,
        flags: GenericFlags,
        is_sandbox: bool,
        given: impl Fn(&str) -> bool,
        known: &[KnownController],
    ) -> Generic {
        let GenericFlags {
            controllers,
            assume_no_kube_controller_manager: Switch(assume_no_kube_controller_manager),
            controller_start_interval,
            controller_shutdown_timeout,
            namespaces,
            label_selector,
        } = flags;
        let controllers = if is_sandbox && !given("controllers") {
            Selector::everything()
        } else {
            Selector::parse(&list(&controllers), known).unwrap_or_else(|errors| {
                self.0.extend(errors);
                Selector::everything()
            })
        };
        let mut watched: Vec<String> = Vec::new();
        for namespace in list(&namespaces) {
            let valid = syntax::is_label(namespace);
            self.require(
                valid,
                "namespaces",
                "a list of namespace names",
                format_args!("{namespace:?}"),
            );
            if !watched.iter().any(|known| known == namespace) {
                watched.push(namespace.to_owned());
            }
        }
        // An unset variable in a script must not widen the scope to all namespaces.
        let named = !given("namespaces") || !watched.is_empty();
        self.require(
            named,
            "namespaces",
            "a list of namespace names, or omitted for all namespaces",
            "empty",
        );
        let valid = syntax::is_selector(&label_selector);
        self.require(
            valid,
            "label-selector",
            "a label selector like `app=web,tier!=test`",
            format_args!("{label_selector:?}"),
        );
        let timeout = self.not_negative("controller-shutdown-timeout", controller_shutdown_timeout);
        Generic {
            controllers,
            assume_no_kube_controller_manager: if given("assume_no_kube_controller_manager") {
                assume_no_kube_controller_manager
            } else {
                is_sandbox
            },
            controller_start_interval: self
                .not_negative("controller-start-interval", controller_start_interval),
            controller_shutdown_timeout: (!timeout.is_zero()).then_some(timeout),
            namespaces: watched,
            label_selector: Some(label_selector.trim().to_owned()).filter(|selector| !selector.is_empty()),
        }
    }

    fn client(&mut self, flags: ClientFlags, limited: bool) -> ClientConnection {
        let ClientFlags {
            kubeconfig,
            master,
            kube_api_qps,
            kube_api_burst,
        } = flags;
        let master = master.filter(|master| !master.is_empty());
        if let Some(master) = &master {
            let url = ["https://", "http://"]
                .iter()
                .any(|scheme| master.starts_with(scheme));
            let allowed = "a URL that starts with https:// or http://";
            self.require(url, "master", allowed, format_args!("{master:?}"));
        }
        let qps = kube_api_qps.is_finite() && kube_api_qps > 0.0;
        self.require(qps, "kube-api-qps", "a number above 0", kube_api_qps);
        let rate = Rate {
            qps: kube_api_qps,
            burst: self.at_least_one("kube-api-burst", kube_api_burst),
        };
        ClientConnection {
            kubeconfig: kubeconfig.filter(|path| present(Some(path))),
            master,
            rate: limited.then_some(rate),
        }
    }

    fn election(&mut self, flags: ElectionFlags) -> LeaderElection {
        let ElectionFlags {
            leader_elect: Switch(leader_elect),
            leader_elect_lease_duration: lease,
            leader_elect_renew_deadline: renew,
            leader_elect_retry_period: retry,
            leader_elect_resource_lock: lock,
            leader_elect_resource_name: resource_name,
            leader_elect_resource_namespace: resource_namespace,
        } = flags;
        let std = |duration: GoDuration| duration.to_std().unwrap_or_default();
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(std);
        if leader_elect {
            // A Lease stores whole seconds.
            let seconds = Duration::from_secs(lease_duration.as_secs());
            self.require(
                !seconds.is_zero(),
                "leader-elect-lease-duration",
                "at least 1s",
                lease,
            );
            self.require(
                !renew_deadline.is_zero(),
                "leader-elect-renew-deadline",
                "longer than 0s",
                renew,
            );
            self.require(
                !retry_period.is_zero(),
                "leader-elect-retry-period",
                "longer than 0s",
                retry,
            );
            let longer = format!(
                "more than {}s longer, in whole seconds, than --leader-elect-renew-deadline ({renew})",
                UNCONDITIONAL_WRITE_MAX.as_secs()
            );
            self.require(
                seconds > renew_deadline.saturating_add(UNCONDITIONAL_WRITE_MAX),
                "leader-elect-lease-duration",
                longer,
                lease,
            );
            let longer = format!("longer than 1.2 times --leader-elect-retry-period ({retry})");
            let renews = renew_deadline.as_nanos() * 10 > retry_period.as_nanos() * 12;
            self.require(renews, "leader-elect-renew-deadline", longer, renew);
            if lock != "leases" {
                self.fail(Invalid::ResourceLock);
            }
            let valid = syntax::is_subdomain(&resource_name);
            let allowed = "the name of a Lease, as in `coxswain`";
            self.require(
                valid,
                "leader-elect-resource-name",
                allowed,
                format_args!("{resource_name:?}"),
            );
            let valid = syntax::is_label(&resource_namespace);
            let allowed = "the name of a namespace";
            self.require(
                valid,
                "leader-elect-resource-namespace",
                allowed,
                format_args!("{resource_namespace:?}"),
            );
        }
        LeaderElection {
            leader_elect,
            lease_duration,
            renew_deadline,
            retry_period,
            resource_name,
            resource_namespace,
        }
    }

    fn serving(&mut self, flags: ServingFlags) -> Serving {
        let ServingFlags {
            secure_port,
            bind_address,
            tls_cert_file,
            tls_private_key_file,
            authorization_always_allow_paths,
        } = flags;
        let port = u16::try_from(secure_port);
        self.require(port.is_ok(), "secure-port", "from 0 to 65535", secure_port);
        let certificate = tls_cert_file.filter(|path| present(Some(path)));
        let certificate = match (
            certificate,
            tls_private_key_file.filter(|path| present(Some(path))),
        ) {
            (Some(certificate), Some(private_key)) => Some(CertificateFiles {
                certificate,
                private_key,
            }),
            (None, None) => None,
            _ => {
                self.fail(Invalid::Combination(
                    "--tls-cert-file and --tls-private-key-file must be given together",
                ));
                None
            }
        };
        let always_allow_paths: Vec<_> = list(&authorization_always_allow_paths)
            .into_iter()
            .map(str::to_owned)
            .collect();
        for path in &always_allow_paths {
            let valid =
                path.starts_with('/') && !path.trim_end_matches('*').contains('*') && !path.ends_with("**");
            let allowed = "a list of paths that start with `/` and contain `*` only at the end";
            self.require(
                valid,
                "authorization-always-allow-paths",
                allowed,
                format_args!("{path:?}"),
            );
        }
        Serving {
            listen: Serving::listen(bind_address, port.unwrap_or_default()),
            certificate,
            always_allow_paths,
        }
    }

    fn webhook(&mut self, flags: WebhookFlags, bind_address: IpAddr, service_given: bool) -> Option<Webhook> {
        let WebhookFlags {
            webhook_port: port,
            webhook_service: service,
            webhook_cert_dir: cert_dir,
            webhook_client_ca_file: client_ca,
        } = flags;
        let cert_dir = cert_dir.filter(|path| present(Some(path)));
        let client_ca = client_ca.filter(|path| present(Some(path)));
        let number = u16::try_from(port);
        self.require(number.is_ok(), "webhook-port", "from 0 to 65535", port);
        let Some(listen) = Serving::listen(bind_address, number.unwrap_or_default()) else {
            if service_given || cert_dir.is_some() || client_ca.is_some() {
                self.fail(Invalid::Combination(
                    "--webhook-service, --webhook-cert-dir and --webhook-client-ca-file require --webhook-port",
                ));
            }
            return None;
        };
        if service_given && cert_dir.is_some() {
            self.fail(Invalid::Combination(
                "--webhook-service cannot be combined with --webhook-cert-dir, which replaces the certificate issued for the Service",
            ));
        }
        let (namespace, name) = service.split_once('/').unwrap_or_default();
        let valid = syntax::is_label(namespace) && syntax::is_label(name);
        self.require(
            valid,
            "webhook-service",
            "the namespace and the name of a Service, as in `kube-system/coxswain-webhook`",
            format_args!("{service:?}"),
        );
        let certificate = cert_dir.map_or_else(
            || WebhookCertificate::Service {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            WebhookCertificate::Folder,
        );
        Some(Webhook {
            listen,
            certificate,
            client_ca,
        })
    }

    fn logging(&mut self, flags: &LoggingFlags) -> Logging {
        let LoggingFlags { logging_format, v } = *flags;
        let verbosity = u8::try_from(v);
        self.require(verbosity.is_ok(), "v", "from 0 to 255", v);
        Logging {
            format: logging_format,
            verbosity: verbosity.unwrap_or_default(),
        }
    }

    fn garbage_collector(&mut self, flags: &GarbageCollectorFlags) -> Option<GarbageCollector> {
        let GarbageCollectorFlags {
            enable_garbage_collector: Switch(enabled),
            concurrent_gc_syncs: syncs,
            gc_dry_run: Switch(dry_run),
        } = *flags;
        let collector = GarbageCollector {
            concurrent_syncs: self.at_least_one("concurrent-gc-syncs", syncs),
            dry_run,
        };
        enabled.then_some(collector)
    }

    fn hollow_kubelet(&mut self, flags: &HollowKubeletFlags) -> HollowKubelet {
        let HollowKubeletFlags {
            ready_delay,
            nodes,
            concurrent_hollow_kubelet_syncs: syncs,
        } = *flags;
        HollowKubelet {
            ready_delay: self.not_negative("hollow-kubelet-ready-delay", ready_delay),
            nodes: self.at_least_one("hollow-kubelet-nodes", nodes),
            concurrent_syncs: self.at_least_one("concurrent-hollow-kubelet-syncs", syncs),
        }
    }

    fn app_services(&mut self, flags: &AppServiceFlags) -> AppServices {
        let AppServiceFlags {
            concurrent_appservice_syncs: syncs,
        } = *flags;
        AppServices {
            concurrent_syncs: self.at_least_one("concurrent-appservice-syncs", syncs),
        }
    }

    fn deployments(&mut self, flags: &DeploymentFlags) -> Deployments {
        let DeploymentFlags {
            concurrent_deployment_syncs: syncs,
        } = *flags;
        Deployments {
            concurrent_syncs: self.at_least_one("concurrent-deployment-syncs", syncs),
        }
    }

    fn replicas(&mut self, flags: &ReplicaFlags) -> Replicas {
        let ReplicaFlags {
            concurrent_appreplicaset_syncs: custom,
            concurrent_replicaset_syncs: sets,
            concurrent_rc_syncs: controllers,
        } = *flags;
        Replicas {
            concurrent_appreplicaset_syncs: self.at_least_one("concurrent-appreplicaset-syncs", custom),
            concurrent_replicaset_syncs: self.at_least_one("concurrent-replicaset-syncs", sets),
            concurrent_rc_syncs: self.at_least_one("concurrent-rc-syncs", controllers),
        }
    }

    fn sandbox(&mut self, flags: SandboxFlags, listen_given: bool) -> Option<Sandbox> {
        let SandboxFlags {
            sandbox: Switch(sandbox),
            sandbox_listen: listen,
            sandbox_kubeconfig,
        } = flags;
        let kubeconfig = sandbox_kubeconfig.filter(|path| present(Some(path)));
        if sandbox {
            // Every client that can connect has full access.
            let allowed = "a loopback address, as in `127.0.0.1:0`";
            self.require(listen.ip().is_loopback(), "sandbox-listen", allowed, listen);
            return Some(Sandbox { listen, kubeconfig });
        }
        if listen_given || kubeconfig.is_some() {
            self.fail(Invalid::Combination(
                "--sandbox-listen and --sandbox-kubeconfig require --sandbox",
            ));
        }
        None
    }

    fn fail(&mut self, invalid: Invalid) {
        self.0.push(invalid);
    }

    fn require(
        &mut self,
        holds: bool,
        flag: &'static str,
        allowed: impl Into<String>,
        value: impl std::fmt::Display,
    ) {
        if !holds {
            self.fail(Invalid::value(flag, allowed, value));
        }
    }

    fn not_negative(&mut self, flag: &'static str, duration: GoDuration) -> Duration {
        let std = duration.to_std();
        self.require(std.is_some(), flag, "0s or longer", duration);
        std.unwrap_or_default()
    }

    fn at_least_one(&mut self, flag: &'static str, value: i64) -> u32 {
        let number = u32::try_from(value).ok().filter(|number| *number > 0);
        self.require(number.is_some(), flag, format!("from 1 to {}", u32::MAX), value);
        number.unwrap_or(1)
    }
}

/// Whether a path was given and is not empty.
fn present(path: Option<&PathBuf>) -> bool {
    path.is_some_and(|path| !path.as_os_str().is_empty())
}

/// Splits the values of a repeatable list flag into items.
fn list(pieces: &[String]) -> Vec<&str> {
    pieces
        .iter()
        .filter(|piece| !piece.is_empty())
        .flat_map(|piece| piece.split(','))
        .collect()
}
