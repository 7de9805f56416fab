//! Several processes on one API server, in real time: the sandbox by default, a real kube-apiserver when
//! `KUBEBUILDER_ASSETS` names the directory of its binaries.

mod deploy;
mod election;
mod hollow;
mod pair;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_coxswain");

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main([deploy::tests(), election::tests(), hollow::tests()].concat())
}
