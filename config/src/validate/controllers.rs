//! Single controllers and the sandbox.

use super::{Validator, present};
use crate::config::{AppServices, Deployments, GarbageCollector, HollowKubelet, Replicas, Sandbox};
use crate::flags::{
    AppServiceFlags, DeploymentFlags, GarbageCollectorFlags, HollowKubeletFlags, ReplicaFlags, SandboxFlags,
    Switch,
};

impl Validator<'_> {
    pub(super) fn garbage_collector(&mut self, flags: &GarbageCollectorFlags) -> Option<GarbageCollector> {
        let GarbageCollectorFlags {
            enable_garbage_collector: Switch(enabled),
            concurrent_gc_syncs: syncs,
            gc_dry_run: Switch(dry_run),
        } = *flags;
        let collector = GarbageCollector {
            concurrent_syncs: self.at_least_one("garbageCollectorController.concurrentGCSyncs", syncs),
            dry_run,
        };
        enabled.then_some(collector)
    }

    pub(super) fn hollow_kubelet(&mut self, flags: &HollowKubeletFlags) -> HollowKubelet {
        let HollowKubeletFlags {
            ready_delay,
            nodes,
            concurrent_hollow_kubelet_syncs: syncs,
        } = *flags;
        HollowKubelet {
            ready_delay: self.not_negative("hollowKubelet.readyDelay", ready_delay),
            nodes: self.at_least_one("hollowKubelet.nodes", nodes),
            concurrent_syncs: self.at_least_one("hollowKubelet.concurrentHollowKubeletSyncs", syncs),
        }
    }

    pub(super) fn app_services(
        &mut self,
        flags: AppServiceFlags,
        is_image: impl FnOnce(&str) -> bool,
    ) -> AppServices {
        let AppServiceFlags {
            concurrent_appservice_syncs: syncs,
            appservice_default_image: image,
        } = flags;
        let allowed = "empty or an image reference such as registry.example.com/team/app:1.2";
        let valid = image.is_empty() || is_image(&image);
        self.require(
            valid,
            "appServiceController.defaultImage",
            allowed,
            format_args!("{image:?}"),
        );
        AppServices {
            concurrent_syncs: self.at_least_one("appServiceController.concurrentAppServiceSyncs", syncs),
            default_image: Some(image).filter(|it| !it.is_empty()),
        }
    }

    pub(super) fn deployments(&mut self, flags: &DeploymentFlags) -> Deployments {
        let DeploymentFlags {
            concurrent_deployment_syncs: syncs,
        } = *flags;
        Deployments {
            concurrent_syncs: self.at_least_one("deploymentController.concurrentDeploymentSyncs", syncs),
        }
    }

    pub(super) fn replicas(&mut self, flags: &ReplicaFlags) -> Replicas {
        let ReplicaFlags {
            concurrent_appreplicaset_syncs: custom,
            concurrent_replicaset_syncs: sets,
            concurrent_rc_syncs: controllers,
        } = *flags;
        Replicas {
            concurrent_appreplicaset_syncs: self
                .at_least_one("appReplicaSetController.concurrentAppReplicaSetSyncs", custom),
            concurrent_replicaset_syncs: self.at_least_one("replicaSetController.concurrentRSSyncs", sets),
            concurrent_rc_syncs: self.at_least_one("replicationController.concurrentRCSyncs", controllers),
        }
    }

    pub(super) fn sandbox(&mut self, flags: SandboxFlags) -> Option<Sandbox> {
        let SandboxFlags {
            sandbox: Switch(sandbox),
            sandbox_listen: listen,
            sandbox_kubeconfig,
        } = flags;
        let kubeconfig = present(sandbox_kubeconfig);
        if sandbox {
            // Every client that can connect has full access.
            let allowed = "a loopback address, as in `127.0.0.1:0`";
            self.require(listen.ip().is_loopback(), "sandbox.listen", allowed, listen);
            return Some(Sandbox { listen, kubeconfig });
        }
        if self.sources.chosen("sandbox.listen") || kubeconfig.is_some() {
            let [sandbox, listen, kubeconfig] =
                ["sandbox.enabled", "sandbox.listen", "sandbox.kubeconfig"].map(|field| self.place(field));
            self.contradiction(format!("{listen} and {kubeconfig} require {sandbox}"));
        }
        None
    }
}
