//! The replica engine: both kinds it serves, one suite.

/// Registers an `async fn(Stage)` for both kinds.
macro_rules! both {
    ($function:ident) => {
        [both!(@ $function, ReplicaSet), both!(@ $function, ReplicationController)]
    };
    ($function:ident, $($change:tt)+) => {
        both!($function).map(|test| test.$($change)+)
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
mod failure;
mod metadata;
mod metrics;
mod order;
mod pods;
mod release;
mod scale;
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
        failure::tests(),
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
