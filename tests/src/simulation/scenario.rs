//! The scenarios: objects and the steps of their user. The product does the rest.

mod app_service;
mod custom;
mod disturbed;
mod election;
mod garbage;
mod generated;
mod pods;
mod takeover;
mod workloads;

use std::fmt;
use std::pin::Pin;

use super::checker::Rules;
use super::network::Effect;
use super::schedule::Schedule;
use super::user::User;

/// The steps of a user.
pub type Steps<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A scenario.
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The value of `--controllers`. With `*`, kube-controller-manager may run.
    pub controllers: &'static str,
    /// Adds the rules of the scenario to those of a schedule.
    pub rules: fn(&Schedule, &mut Rules),
    /// Creates objects before the first process starts.
    pub prepare: fn(&mut User),
    /// Whether it can follow other schedules in the same processes. It does not disturb the API, so that it also runs on a real one.
    pub is_chained: bool,
    /// The steps of the user.
    pub run: for<'a> fn(&'a mut User) -> Steps<'a>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Only the garbage collector.
pub(super) const GARBAGE: &str = "garbage-collector-controller";
pub(super) const REPLICAS: &str = "replicaset-controller";
pub(super) const WORKLOADS: &str = "replicaset-controller,deployment-controller,garbage-collector-controller";
const KUBELET: &str =
    "replicaset-controller,deployment-controller,garbage-collector-controller,hollow-kubelet";
pub(super) const BUILT_IN: &str = "replicaset-controller,replicationcontroller-controller,deployment-controller,garbage-collector-controller";
pub(super) const ALL: &str = "replicaset-controller,replicationcontroller-controller,deployment-controller,appservice-controller,appreplicaset-controller,garbage-collector-controller";

/// Returns a scenario.
macro_rules! scenario {
    ($name:literal, $controllers:expr, $steps:path $(, $argument:expr)*) => {
        Scenario {
            name: $name,
            controllers: $controllers,
            rules: |_, _| {},
            prepare: |_| {},
            is_chained: true,
            run: |user| Box::pin($steps(user $(, $argument)*)),
        }
    };
}

/// All scenarios.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        rules: workloads::rules_of_scale,
        is_chained: false,
        ..scenario!("rs-scale", REPLICAS, workloads::scale)
    },
    scenario!("rs-adopt", REPLICAS, workloads::adopt),
    scenario!("rc-scale", BUILT_IN, workloads::scale_controller),
    scenario!("deploy-create", WORKLOADS, workloads::create),
    scenario!("deploy-roll", WORKLOADS, workloads::roll),
    scenario!("deploy-rollback", WORKLOADS, workloads::roll_back),
    scenario!("deploy-recreate", WORKLOADS, workloads::recreate),
    scenario!("gc-bg", GARBAGE, garbage::background),
    scenario!("gc-fg", GARBAGE, garbage::foreground),
    scenario!("gc-orphan", GARBAGE, garbage::orphan),
    scenario!("gc-mixed", GARBAGE, garbage::mixed),
    scenario!("gc-cycle", GARBAGE, garbage::cycle),
    scenario!("gc-swap", GARBAGE, garbage::swap),
    scenario!("gc-invalid", GARBAGE, garbage::invalid),
    scenario!("gc-crd", GARBAGE, custom::life_cycle),
    Scenario {
        rules: custom::rules_of_removed_kind,
        is_chained: false,
        ..scenario!("gc-crd-removed", GARBAGE, custom::removed_kind)
    },
    scenario!("gc-versions", GARBAGE, custom::versions),
    Scenario {
        rules: custom::rules_of_unlistable_kind,
        is_chained: false,
        ..scenario!("gc-unlistable", GARBAGE, custom::unlistable_kind)
    },
    scenario!("gc-cluster", GARBAGE, garbage::cluster_scoped),
    Scenario {
        is_chained: false,
        ..scenario!("gc-unseen", GARBAGE, disturbed::unseen_dependents)
    },
    Scenario {
        is_chained: false,
        ..scenario!("gc-virtual", GARBAGE, disturbed::virtual_owners)
    },
    Scenario {
        rules: disturbed::rules_of_rejected_deletes,
        is_chained: false,
        ..scenario!("gc-rejected", GARBAGE, disturbed::rejected_deletes)
    },
    Scenario {
        rules: disturbed::rules_of_slow_reads,
        is_chained: false,
        ..scenario!("gc-slow", GARBAGE, disturbed::slow_reads)
    },
    Scenario {
        rules: disturbed::rules_of_start,
        prepare: disturbed::prepare_start,
        is_chained: false,
        ..scenario!("gc-start", GARBAGE, disturbed::start)
    },
    Scenario {
        is_chained: false,
        ..scenario!("gc-failover", GARBAGE, disturbed::failover)
    },
    Scenario {
        is_chained: false,
        ..scenario!("gc-restore", GARBAGE, disturbed::restore, Effect::Refuse(503))
    },
    Scenario {
        is_chained: false,
        ..scenario!(
            "gc-restore-offline",
            GARBAGE,
            disturbed::restore,
            Effect::Disconnect
        )
    },
    Scenario {
        rules: pods::rules_of_eviction,
        is_chained: false,
        ..scenario!("rs-evict", REPLICAS, pods::evict)
    },
    Scenario {
        rules: pods::rules_of_quota,
        is_chained: false,
        ..scenario!("rs-quota", REPLICAS, pods::quota)
    },
    Scenario {
        is_chained: false,
        ..scenario!("rs-namespace", REPLICAS, pods::terminating_namespace)
    },
    Scenario {
        rules: |_, rules| rules.changes_templates = true,
        prepare: User::change_templates,
        is_chained: false,
        ..scenario!("deploy-webhook", WORKLOADS, workloads::webhook)
    },
    Scenario {
        rules: |_, rules| rules.yields = true,
        is_chained: false,
        ..scenario!("yielding", "*", election::yielding)
    },
    Scenario {
        prepare: election::refuse_unversioned_watches,
        is_chained: false,
        ..scenario!("hand-over", REPLICAS, election::hand_over)
    },
    scenario!("appservice", ALL, app_service::life_cycle),
    Scenario {
        prepare: takeover::prepare,
        is_chained: false,
        ..scenario!("takeover", WORKLOADS, takeover::take_over)
    },
    scenario!("generated", BUILT_IN, generated::run),
    Scenario {
        is_chained: false,
        ..scenario!("kubelet-scale", KUBELET, workloads::scale)
    },
    Scenario {
        is_chained: false,
        ..scenario!("kubelet-roll", KUBELET, workloads::roll)
    },
];

/// Returns a scenario by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|it| it.name == name)
}
