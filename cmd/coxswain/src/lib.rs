//! The `coxswain` binary, as a library: from flags to a manager with its controllers, and back to an exit code.
//!
//! What is wrong with the command line, the kubeconfig or the port is said in one sentence before anything is started.
//! From then on the log speaks.

mod cluster;
pub mod log;
mod process;
#[cfg_attr(not(feature = "sandbox"), path = "no_sandbox.rs")]
mod sandbox;
mod signals;
mod ways;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use coxswain_config::{Config, Known, Parsed};
use coxswain_controllers::crd::{self, yaml};
use coxswain_controllers::names::{KNOWN, Named};

/// Runs the program with its arguments, the name of the program left out.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let config = match coxswain_config::parse(arguments, &known()) {
        Ok(Parsed::Run(config)) => config,
        Ok(Parsed::Print(text)) => return print(&text),
        Ok(Parsed::Crds) => return print(&yaml::documents(&crd::all())),
        Err(error) => return refuse(&error),
    };
    if let Err(error) = log::init(config.logging) {
        return refuse(&error);
    }
    match run(*config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_before_start() => refuse(&error),
        Err(error) => {
            tracing::error!(%error, "Command failed");
            ExitCode::FAILURE
        }
    }
}

/// The controllers, as the flags know them.
#[must_use]
pub fn known() -> Vec<Known> {
    let known = |it: &Named| Known {
        name: it.name,
        alias: it.alias,
        off_by_default: it.off_by_default,
    };
    KNOWN.iter().map(known).collect()
}

fn print(text: &str) -> ExitCode {
    // Nobody reads it (a closed pipe): then nobody misses it.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn run(config: Config) -> Result<(), process::ProcessError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(process::run(config));
    // What still runs has been told to stop, or is not waited for.
    runtime.shutdown_background();
    ended
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "Error: {error}");
    ExitCode::FAILURE
}
