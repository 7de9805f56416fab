//! `coxswain`, a controller manager for Kubernetes.

use std::process::ExitCode;

fn main() -> ExitCode {
    coxswain::main(std::env::args_os().skip(1))
}
