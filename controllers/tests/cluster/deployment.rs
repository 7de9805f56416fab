//! The deployment controller, with the replicaset controller and hollow-kubelet, or the test as the kubelet.

/// Registers an `async fn(Fixture)` as a test.
macro_rules! fixture_test {
    ($function:ident) => {
        steersman_harness::Test::new(module_path!(), stringify!($function), |cluster| {
            Box::pin(async move {
                $function($crate::deployment::fixture::Fixture::new(cluster).await).await;
            })
        })
    };
}

mod adoption;
mod annotations;
mod cleanup;
mod collision;
mod conditions;
mod cost;
mod creation;
mod failure;
mod fixture;
mod input;
mod kubectl;
mod manual_changes;
mod metadata;
mod objects;
mod paused;
mod progress;
mod proportional_scaling;
mod recorder;
mod recreate;
mod release;
mod revisions;
mod rollback;
mod rolling;
mod scaling;
mod status;
mod steps;

use steersman_harness::Test;

pub fn tests() -> Vec<Test> {
    [
        adoption::tests(),
        annotations::tests(),
        cleanup::tests(),
        collision::tests(),
        conditions::tests(),
        cost::tests(),
        creation::tests(),
        failure::tests(),
        manual_changes::tests(),
        input::tests(),
        kubectl::tests(),
        metadata::tests(),
        paused::tests(),
        progress::tests(),
        proportional_scaling::tests(),
        recreate::tests(),
        release::tests(),
        revisions::tests(),
        rollback::tests(),
        rolling::tests(),
        scaling::tests(),
        status::tests(),
        steps::tests(),
    ]
    .concat()
}
