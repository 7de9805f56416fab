//! The controllers as anybody sees them who has nothing but the API.
//!
//! Over sockets and in real time, on "a cluster": the sandbox by default, a real kube-apiserver when `KUBEBUILDER_ASSETS`
//! names the directory of its binaries. One manager hosts the controllers under test, and hollow-kubelet, for all tests;
//! each test has a namespace of its own.
//!
//! `COXSWAIN_TEST_KCM=1`, on a real server, has kube-controller-manager run its own controllers instead: the
//! expectations are theirs (of 1.36). What ours promise beyond them is marked `Need::Ours`, and skipped there by name.

mod appservice;
mod controllers;
mod deployment;
mod discovery;
mod garbage_collector;
mod replicaset;

fn main() -> std::process::ExitCode {
    let tests = [
        appservice::tests(),
        deployment::tests(),
        discovery::tests(),
        garbage_collector::tests(),
        replicaset::tests(),
    ];
    coxswain_tests::runner::main(tests.concat())
}
