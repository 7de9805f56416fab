//! Tests of the controllers through the API alone.
//!
//! They run over sockets and in real time, against the sandbox, or against a kube-apiserver if `KUBEBUILDER_ASSETS` is the
//! directory of its binaries. All tests share one manager with the controllers and hollow-kubelet; each test has its own
//! namespace.
//!
//! With `STEERSMAN_TEST_KCM=1` and a kube-apiserver, kube-controller-manager 1.36 runs instead of our controllers. Tests of
//! guarantees beyond its own are marked `Need::Ours` and skipped.

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
    steersman_harness::runner::main(tests.concat())
}
