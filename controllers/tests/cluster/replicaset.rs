//! The replica engine: all kinds it serves, one suite.

/// Registers an `async fn(Stage)` for each kind. One of them is ours, and nobody else's.
macro_rules! each {
    ($function:ident) => {
        [
            each!(@ $function, ReplicaSet),
            each!(@ $function, ReplicationController),
            each!(@ $function, AppReplicaSet).needs(coxswain_tests::Need::Ours),
        ]
    };
    ($function:ident, $($change:tt)+) => {
        each!($function).map(|test| test.$($change)+)
    };
    (@ $function:ident, $kind:ident) => {
        coxswain_tests::Test::new(
            module_path!(),
            concat!(stringify!($function), "::", stringify!($kind)),
            |cluster| Box::pin(async move {
                $function($crate::replicaset::stage::Stage::set($crate::replicaset::stage::Kind::$kind, cluster).await).await;
            }),
        )
    };
}

mod adoption;
mod bursts;
mod cost;
mod custom;
mod failure;
mod kubectl;
mod metadata;
mod metrics;
mod order;
mod pods;
mod release;
mod scale;
mod seen;
pub mod stage;
mod status;
mod termination;
mod triggers;

use coxswain_tests::Test;

pub fn tests() -> Vec<Test> {
    [
        adoption::tests(),
        bursts::tests(),
        cost::tests(),
        custom::tests(),
        failure::tests(),
        kubectl::tests(),
        metadata::tests(),
        metrics::tests(),
        order::tests(),
        pods::tests(),
        release::tests(),
        scale::tests(),
        status::tests(),
        termination::tests(),
        triggers::tests(),
    ]
    .concat()
}
