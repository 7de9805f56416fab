//! Controllers, connection to the API server and leader election.

use std::time::Duration;

use super::{Validator, list, present};
use crate::config::{ClientConnection, Generic, LeaderElection, Rate};
use crate::duration::GoDuration;
use crate::effective::Overrides;
use crate::error::Invalid;
use crate::flags::{ClientFlags, ElectionFlags, GenericFlags, Switch};
use crate::selector::{KnownController, Selector};
use crate::syntax;

/// Longest duration of a write without a resourceVersion, which must not overlap with the next term. The same bound is in
/// steersman-manager.
const UNCONDITIONAL_WRITE_MAX: Duration = Duration::from_secs(3);

impl Validator<'_> {
    pub(super) fn generic(
        &mut self,
        flags: GenericFlags,
        is_sandbox: bool,
        known: &[KnownController],
        overrides: &mut Overrides,
    ) -> Generic {
        let GenericFlags {
            controllers,
            assume_no_kube_controller_manager: Switch(mut assume_no_kube_controller_manager),
            controller_start_interval,
            controller_shutdown_timeout,
            namespaces,
            label_selector,
            use_service_account_credentials: Switch(use_service_account_credentials),
        } = flags;
        let controllers = if is_sandbox && !self.sources.given("generic.controllers") {
            overrides.insert("generic.controllers", None);
            Selector::everything()
        } else {
            Selector::parse(&list(&controllers), known).unwrap_or_else(|names| {
                let place = self.place("generic.controllers");
                let unknown = |name| Invalid::UnknownController {
                    place: place.clone(),
                    name,
                };
                self.errors.extend(names.into_iter().map(unknown));
                Selector::everything()
            })
        };
        let mut watched: Vec<String> = Vec::new();
        for namespace in list(&namespaces) {
            let valid = syntax::is_label(namespace);
            self.require(
                valid,
                "generic.namespaces",
                "a list of namespace names",
                format_args!("{namespace:?}"),
            );
            if !watched.iter().any(|known| known == namespace) {
                watched.push(namespace.to_owned());
            }
        }
        // An unset variable in a script must not widen the scope to all namespaces.
        let named = !self.sources.given("generic.namespaces") || !watched.is_empty();
        self.require(
            named,
            "generic.namespaces",
            "a list of namespace names, or omitted for all namespaces",
            "empty",
        );
        let valid = syntax::is_selector(&label_selector);
        self.require(
            valid,
            "generic.labelSelector",
            "a label selector like `app=web,tier!=test`",
            format_args!("{label_selector:?}"),
        );
        let field = "generic.assumeNoKubeControllerManager";
        if is_sandbox && !self.sources.given(field) {
            assume_no_kube_controller_manager = true;
            overrides.insert(field, Some("true".to_owned()));
        }
        let timeout = self.not_negative("generic.controllerShutdownTimeout", controller_shutdown_timeout);
        Generic {
            controllers,
            assume_no_kube_controller_manager,
            controller_start_interval: self
                .not_negative("generic.controllerStartInterval", controller_start_interval),
            controller_shutdown_timeout: (!timeout.is_zero()).then_some(timeout),
            namespaces: watched,
            label_selector: Some(label_selector.trim().to_owned()).filter(|selector| !selector.is_empty()),
            use_service_account_credentials,
        }
    }

    pub(super) fn own_api_server(&mut self, flags: &ClientFlags) {
        let ClientFlags {
            kubeconfig, master, ..
        } = flags;
        let is_master = master.as_ref().is_some_and(|master| !master.is_empty());
        if present(kubeconfig.clone()).is_some() || is_master {
            let [sandbox, kubeconfig, master] = [
                "sandbox.enabled",
                "clientConnection.kubeconfig",
                "clientConnection.master",
            ]
            .map(|field| self.place(field));
            self.contradiction(format!(
                "{sandbox} cannot be combined with {kubeconfig} or {master}: it has its own API server"
            ));
        }
    }

    pub(super) fn client(
        &mut self,
        flags: ClientFlags,
        is_sandbox: bool,
        overrides: &mut Overrides,
    ) -> ClientConnection {
        let ClientFlags {
            kubeconfig,
            master,
            kube_api_qps,
            kube_api_burst,
        } = flags;
        let master = self.url("clientConnection.master", master);
        let qps = kube_api_qps.is_finite() && kube_api_qps > 0.0;
        self.require(qps, "clientConnection.qps", "a number above 0", kube_api_qps);
        let rate = Rate {
            qps: kube_api_qps,
            burst: self.at_least_one("clientConnection.burst", kube_api_burst),
        };
        let fields = ["clientConnection.qps", "clientConnection.burst"];
        let limited = !is_sandbox || fields.iter().any(|field| self.sources.given(field));
        if !limited {
            overrides.extend(fields.map(|field| (field, None)));
        }
        ClientConnection {
            kubeconfig: present(kubeconfig),
            master,
            rate: limited.then_some(rate),
        }
    }

    pub(super) fn election(&mut self, flags: ElectionFlags) -> LeaderElection {
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
                "leaderElection.leaseDuration",
                "at least 1s",
                lease,
            );
            self.require(
                !renew_deadline.is_zero(),
                "leaderElection.renewDeadline",
                "longer than 0s",
                renew,
            );
            self.require(
                !retry_period.is_zero(),
                "leaderElection.retryPeriod",
                "longer than 0s",
                retry,
            );
            let longer = format!(
                "more than {}s longer, in whole seconds, than {} ({renew})",
                UNCONDITIONAL_WRITE_MAX.as_secs(),
                self.place("leaderElection.renewDeadline"),
            );
            self.require(
                seconds > renew_deadline.saturating_add(UNCONDITIONAL_WRITE_MAX),
                "leaderElection.leaseDuration",
                longer,
                lease,
            );
            let period = self.place("leaderElection.retryPeriod");
            let longer = format!("longer than 1.2 times {period} ({retry})");
            let renews = renew_deadline.as_nanos() * 10 > retry_period.as_nanos() * 12;
            self.require(renews, "leaderElection.renewDeadline", longer, renew);
            let leases = lock == "leases";
            self.require(
                leases,
                "leaderElection.resourceLock",
                "\"leases\"",
                format_args!("{lock:?}"),
            );
            let valid = syntax::is_subdomain(&resource_name);
            let allowed = "the name of a Lease, as in `steersman`";
            self.require(
                valid,
                "leaderElection.resourceName",
                allowed,
                format_args!("{resource_name:?}"),
            );
            let valid = syntax::is_label(&resource_namespace);
            let allowed = "the name of a namespace";
            self.require(
                valid,
                "leaderElection.resourceNamespace",
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
}
