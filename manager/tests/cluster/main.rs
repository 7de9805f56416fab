//! The election and the caches over real sockets and in real time, on "a cluster": the sandbox by default, a real
//! kube-apiserver when `KUBEBUILDER_ASSETS` names the directory of its binaries.
//!
//! What can be shown on a paused clock is shown in the other suite. Here it is about what only a server can tell: how it
//! orders writes, what its watches say and when, and what its objects look like afterwards.

mod caches;
mod candidate;
mod election;
mod fence;
mod process;

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main([caches::tests(), election::tests(), fence::tests()].concat())
}
