//! The replica engine as anybody sees it who has nothing but the API: both kinds it serves, one suite.
//!
//! Over sockets and in real time, on "a cluster": the sandbox by default, a real kube-apiserver when `KUBEBUILDER_ASSETS`
//! names the directory of its binaries. One manager hosts the controllers under test, and hollow-kubelet, for all tests;
//! each test has a namespace of its own.
//!
//! `COXSWAIN_TEST_KCM=1`, on a real server, has kube-controller-manager run its own replica controllers instead: the
//! expectations are theirs (of 1.36). What ours promise beyond them is marked `Need::Ours`, and skipped there by name.

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
                $function($crate::stage::Stage::set($crate::stage::Kind::$kind, cluster).await).await;
            }),
        )
    };
}

mod adoption;
mod cost;
mod engine;
mod failure;
mod metadata;
mod order;
mod pods;
mod release;
mod scale;
mod stage;
mod status;
mod termination;

fn main() -> std::process::ExitCode {
    let tests = [
        adoption::tests(),
        cost::tests(),
        failure::tests(),
        metadata::tests(),
        order::tests(),
        pods::tests(),
        release::tests(),
        scale::tests(),
        status::tests(),
        termination::tests(),
    ];
    coxswain_tests::runner::main(tests.concat())
}
