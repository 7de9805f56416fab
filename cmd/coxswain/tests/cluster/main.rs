//! Several processes on one API server, in real time: the sandbox by default, a real kube-apiserver when
//! `KUBEBUILDER_ASSETS` names the directory of its binaries.

mod deploy;
mod election;
mod hollow;
mod pair;

use tokio::sync::RwLock;

/// Some tests measure how long something takes, and share this; others are a burden to the machine, and have it for
/// themselves.
static QUIET: RwLock<()> = RwLock::const_new(());

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_coxswain");

fn main() -> std::process::ExitCode {
    coxswain_tests::runner::main([deploy::tests(), election::tests(), hollow::tests()].concat())
}
