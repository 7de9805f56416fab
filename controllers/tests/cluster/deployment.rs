//! The Deployment controller: what it makes of its `ReplicaSet`s, and what it says of them.
//!
//! The pods are those of the `ReplicaSet` controller, and their kubelet is hollow-kubelet, or the test.

/// Registers an `async fn(Stage)`.
macro_rules! staged {
    ($function:ident) => {
        coxswain_tests::Test::new(module_path!(), stringify!($function), |cluster| {
            Box::pin(async move {
                $function($crate::deployment::stage::Stage::set(cluster).await).await;
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
mod hands;
mod input;
mod kubectl;
mod metadata;
mod objects;
mod paused;
mod progress;
mod proportions;
mod recreate;
mod release;
mod revisions;
mod rollback;
mod rolling;
mod scaling;
mod stage;
mod status;
mod steps;
mod tape;

use coxswain_tests::Test;

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
        hands::tests(),
        input::tests(),
        kubectl::tests(),
        metadata::tests(),
        paused::tests(),
        progress::tests(),
        proportions::tests(),
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
