//! `steersman-sandbox`: a Kubernetes API in one process.

use std::process::ExitCode;

use clap::Parser as _;
use steersman_sandbox::cli::Args;

fn main() -> ExitCode {
    match Args::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steersman-sandbox: {error}");
            ExitCode::FAILURE
        }
    }
}
