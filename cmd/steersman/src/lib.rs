//! The `steersman` binary as a library: parses flags, runs a manager with its controllers, and returns an exit code.
//!
//! An invalid command line, kubeconfig or port is reported in one sentence on standard error before anything is started.
//! Later errors go to the log.

mod build;
mod cluster;
mod crds;
#[cfg_attr(not(feature = "sandbox"), path = "no_demo.rs")]
mod demo;
mod error;
pub mod instance;
pub mod log;
mod no_proxy;
mod pages;
mod process;
mod profiling;
mod reload;
mod runtime_metrics;
mod serving;
#[cfg_attr(not(feature = "otlp"), path = "no_traces.rs")]
mod traces;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steersman_config::{Known, KnownController, Parsed};
use steersman_controllers::api::{self, crd::yaml};
use steersman_controllers::registry::{CONTROLLERS, Descriptor};

/// Name of the program in user agents, metrics and events.
pub(crate) const NAME: &str = "steersman";

/// The objects of `deploy/base` except the CRDs, in YAML.
const MANIFESTS: &str = include_str!(concat!(env!("OUT_DIR"), "/manifests.yaml"));

/// Runs the program. `arguments` do not include the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let config = match steersman_config::parse(arguments.clone(), &known()) {
        Ok(Parsed::Run(config)) => config,
        Ok(Parsed::Write { path, text }) => return write(&path, &text),
        Ok(Parsed::Print(text)) => return print(&text),
        Ok(Parsed::Crds) => return print(&crd_documents()),
        Ok(Parsed::Manifests) => return print(&(crd_documents() + MANIFESTS)),
        Ok(Parsed::Version) => return print(&format!("{:#}\n", build::BUILD.document())),
        Ok(Parsed::Tour) => {
            return match run(demo::tour(&known())) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => report(&error),
            };
        }
        Err(error) => return report(&error),
    };
    let log = match log::init(&config.logging) {
        Ok(log) => log,
        Err(error) => return report(&error),
    };
    match run(process::run(*config, arguments, &log)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_before_start() => report(&error),
        Err(error) => {
            tracing::error!(%error, "Command failed");
            ExitCode::FAILURE
        }
    }
}

/// Returns the controllers that `--controllers` accepts, and the rules of their flags.
#[must_use]
pub fn known() -> Known {
    let known = |it: &Descriptor| KnownController {
        name: it.name,
        aliases: it.aliases,
        enabled_by_default: it.enabled_by_default,
    };
    Known {
        controllers: CONTROLLERS.iter().map(known).collect(),
        is_image: api::app_service::is_image,
    }
}

fn crd_documents() -> String {
    yaml::documents(&api::crds())
}

fn print(text: &str) -> ExitCode {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => report(&PrintError(error)),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// Replaces a file: a reader observes the old or the new text.
fn write(path: &Path, text: &str) -> ExitCode {
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let replaced = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    match replaced {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            report(&WriteError {
                path: path.to_owned(),
                error,
            })
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}; check --write-config-to", path.display())]
struct WriteError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct PrintError(#[source] io::Error);

fn run<T, E: From<io::Error>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // Remaining tasks are either stopping or do not matter any more.
    runtime.shutdown_background();
    result
}

/// Prints an error as one line. Paths and the texts of servers can contain control characters.
fn report(error: &dyn std::error::Error) -> ExitCode {
    let text = error.to_string();
    let escaped = text.chars().map(|char| match char {
        char if char.is_control() => char.escape_debug().to_string(),
        char => char.to_string(),
    });
    let _ = writeln!(io::stderr(), "Error: {}", escaped.collect::<String>());
    ExitCode::FAILURE
}
