//! `coxswain-sandbox`: a Kubernetes API in one process.

use std::process::ExitCode;

use clap::Parser as _;
use coxswain_sandbox::cli::Args;

fn main() -> ExitCode {
    match Args::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coxswain-sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}
