//! The controllers of `ReplicaSets`, `ReplicationControllers` and `AppReplicaSets`, in one suite.

/// Registers an `async fn(Fixture)` for each kind. KCM does not have `AppReplicaSets`.
macro_rules! each {
    ($function:ident) => {
        [
            each!(@ $function, ReplicaSet),
            each!(@ $function, ReplicationController),
            each!(@ $function, AppReplicaSet).needs(steersman_harness::Need::Ours),
        ]
    };
    ($function:ident, $($change:tt)+) => {
        each!($function).map(|test| test.$($change)+)
    };
    (@ $function:ident, $kind:ident) => {
        steersman_harness::Test::new(
            module_path!(),
            concat!(stringify!($function), "::", stringify!($kind)),
            |cluster| Box::pin(async move {
                $function($crate::replicaset::fixture::Fixture::new($crate::replicaset::fixture::Kind::$kind, cluster).await).await;
            }),
        )
    };
}

mod adoption;
mod bursts;
mod cost;
mod custom;
mod failure;
pub mod fixture;
mod kubectl;
mod metadata;
mod metrics;
mod observation;
mod order;
mod pods;
mod release;
mod scale;
mod status;
mod termination;
mod triggers;

use steersman_harness::Test;

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
