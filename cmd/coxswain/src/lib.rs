//! The `coxswain` binary, as a library: from flags to a manager with its controllers, and back to an exit code.
//!
//! What is wrong with the command line, the kubeconfig or the port is said in one sentence before anything is started.
//! From then on the log speaks.

mod cluster;
pub mod log;
mod member;
mod no_proxy;
mod process;
#[cfg_attr(not(feature = "sandbox"), path = "no_sandbox.rs")]
mod sandbox;
#[cfg(feature = "sandbox")]
mod show;
mod signals;
#[cfg(feature = "sandbox")]
mod tour;
mod ways;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use coxswain_config::{Known, Parsed};
use coxswain_controllers::api::{self, crd::yaml};
use coxswain_controllers::registry::{CONTROLLERS, Descriptor};

/// Runs the program with its arguments, the name of the program left out.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let config = match coxswain_config::parse(arguments, &known()) {
        Ok(Parsed::Run(config)) => config,
        Ok(Parsed::Print(text)) => return print(&text),
        Ok(Parsed::Crds) => return print(&yaml::documents(&api::crds())),
        Ok(Parsed::Tour) => return tour(),
        Err(error) => return refuse(&error),
    };
    let log = match log::init(config.logging) {
        Ok(log) => log,
        Err(error) => return refuse(&error),
    };
    match run(process::run(*config, &log)) {
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
    let known = |it: &Descriptor| Known {
        name: it.name,
        aliases: it.aliases,
        enabled_by_default: it.enabled_by_default,
    };
    CONTROLLERS.iter().map(known).collect()
}

fn print(text: &str) -> ExitCode {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Nobody reads it: then nobody misses it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => refuse(&Unprinted(error)),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// What was to be printed is not all there.
#[derive(Debug, thiserror::Error)]
#[error("cannot print: {0}")]
struct Unprinted(#[source] io::Error);

fn run<T, E: From<io::Error>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(future);
    // What still runs has been told to stop, or is not waited for.
    runtime.shutdown_background();
    ended
}

#[cfg(feature = "sandbox")]
fn tour() -> ExitCode {
    match run(tour::run(&known())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

#[cfg(not(feature = "sandbox"))]
fn tour() -> ExitCode {
    refuse(&sandbox::SandboxError::NotBuilt)
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "Error: {error}");
    ExitCode::FAILURE
}
