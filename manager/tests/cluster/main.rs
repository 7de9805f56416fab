//! Leader election, caches, conversion webhooks and an example over real sockets in real time, on the sandbox or, if
//! `KUBEBUILDER_ASSETS` names the directory of its binaries, on a real kube-apiserver.
//!
//! These tests cover the behaviour of the server: the order of writes, watch events, and the stored objects. All else is
//! tested under a paused clock in `suite`.

mod caches;
mod candidate;
mod conversion;
mod election;
mod fence;
mod greeter;
mod process;

fn main() -> std::process::ExitCode {
    if let Some(code) = greeter::main() {
        return code;
    }
    steersman_harness::runner::main(
        [
            caches::tests(),
            conversion::tests(),
            election::tests(),
            fence::tests(),
            greeter::tests(),
        ]
        .concat(),
    )
}
