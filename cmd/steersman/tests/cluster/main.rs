//! Several processes on one API server, in real time: the sandbox by default, a real kube-apiserver if `KUBEBUILDER_ASSETS` is
//! set to the directory of its binaries.

mod access;
mod deploy;
mod election;
mod hollow;
mod metrics;
mod pair;

use tokio::sync::RwLock;

/// Tests that measure durations hold it shared; tests that load the machine hold it exclusively.
static QUIET: RwLock<()> = RwLock::const_new(());

const PROGRAM: &str = env!("CARGO_BIN_EXE_steersman");

fn main() -> std::process::ExitCode {
    steersman_harness::runner::main(
        [
            access::tests(),
            deploy::tests(),
            election::tests(),
            hollow::tests(),
            metrics::tests(),
        ]
        .concat(),
    )
}
