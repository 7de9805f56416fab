//! The scenarios: objects and the steps of their user. The product does the rest.

mod app_service;
mod garbage;
mod generated;
mod takeover;
mod workloads;

use std::fmt;
use std::pin::Pin;

use super::user::User;

/// The steps of a user.
pub type Steps<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A scenario.
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The value of `--controllers`.
    pub controllers: &'static str,
    /// Creates objects before the first process starts. None if the scenario can start at any time.
    pub prepare: Option<fn(&mut User)>,
    /// The steps of the user.
    pub run: for<'a> fn(&'a mut User) -> Steps<'a>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const GARBAGE: &str = "garbage-collector-controller";
const REPLICAS: &str = "replicaset-controller";
const WORKLOADS: &str = "replicaset-controller,deployment-controller,garbage-collector-controller";
const ALL: &str = "replicaset-controller,replicationcontroller-controller,deployment-controller,appservice-controller,appreplicaset-controller,garbage-collector-controller";

/// Returns a scenario.
macro_rules! scenario {
    ($name:literal, $controllers:expr, $steps:path $(, $argument:expr)*) => {
        Scenario {
            name: $name,
            controllers: $controllers,
            prepare: None,
            run: |user| Box::pin($steps(user $(, $argument)*)),
        }
    };
}

/// All scenarios.
pub static SCENARIOS: &[Scenario] = &[
    scenario!("rs-scale", REPLICAS, workloads::scale),
    scenario!("rs-adopt", REPLICAS, workloads::adopt),
    scenario!("rc-scale", ALL, workloads::scale_controller),
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
    scenario!("gc-crd", GARBAGE, garbage::custom),
    scenario!("appservice", ALL, app_service::life_cycle),
    Scenario {
        prepare: Some(takeover::prepare),
        ..scenario!("takeover", WORKLOADS, takeover::take_over)
    },
    scenario!("generated", ALL, generated::run),
];

/// Returns a scenario by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|it| it.name == name)
}
