//! The command line: flags, the kubeconfig file, and shutdown by signals.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::{Authorization, KubeconfigError, KubeconfigFile, Sandbox, ServeError, Server, StartError};

/// A Kubernetes API in one process, for trying and testing controllers.
///
/// All objects are in memory and are lost when the process ends. Pods do not run.
#[derive(Debug, Parser)]
#[command(name = "steersman-sandbox", version)]
struct Args {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Listen on an address that other machines can reach. The kubeconfig then grants them all permissions
    #[arg(long)]
    allow_remote: bool,

    /// File to write the kubeconfig to (mode 0600); without it, a file in the temporary directory that is removed at
    /// the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Authorization mode. The user of the kubeconfig is an administrator in both modes
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    authorization: Authorization,

    /// Address of a service of admission webhooks, such as `default/hooks:443=127.0.0.1:9443`; may be repeated
    #[arg(long = "service", value_name = "NAMESPACE/NAME:PORT=ADDRESS", value_parser = service)]
    services: Vec<(String, SocketAddr)>,
}

/// A failure of the command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// An argument is invalid.
    #[error("{0}; see `steersman-sandbox --help`")]
    Usage(String),
    /// The address is open to other machines.
    #[error(
        "{0} can be reached from other machines: use a loopback address, or allow it with --allow-remote"
    )]
    NotLoopback(SocketAddr),
    /// The kubeconfig could not be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The server did not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The sandbox did not start.
    #[error(transparent)]
    Sandbox(#[from] StartError),
    /// The runtime or the signal handlers could not be set up.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Serves until SIGINT or SIGTERM. `arguments` include the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Result<(), CliError> {
    match Args::try_parse_from(arguments) {
        Ok(args) => args.run(),
        Err(error) if error.use_stderr() => Err(CliError::Usage(sentence(&error))),
        Err(help) => {
            // A closed pipe is not an error.
            let _ = help.print();
            Ok(())
        }
    }
}

/// Returns the error without the usage and in one line.
fn sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let is_help = |part: &&str| part.starts_with("Usage:") || part.starts_with("For more information");
    let parts = text.split("\n\n").take_while(|part| !is_help(part));
    let parts: Vec<_> = parts
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    parts.join("; ").trim_start_matches("error: ").to_owned()
}

impl Args {
    fn run(self) -> Result<(), CliError> {
        let Self {
            listen,
            allow_remote,
            kubeconfig,
            authorization,
            services,
        } = self;
        if !listen.ip().is_loopback() && !allow_remote {
            return Err(CliError::NotLoopback(listen));
        }
        if let Some(path) = &kubeconfig {
            KubeconfigFile::check(path)?;
        }
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(serve(listen, kubeconfig, authorization, services))
    }
}

async fn serve(
    listen: SocketAddr,
    kubeconfig: Option<PathBuf>,
    authorization: Authorization,
    services: Vec<(String, SocketAddr)>,
) -> Result<(), CliError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::bind(listen).await?;
    let url = server.url();
    let kubeconfig = KubeconfigFile::write(kubeconfig, &server.credentials().kubeconfig(&url))?;
    // A closed pipe is not a reason to stop serving.
    let _ = writeln!(
        io::stdout(),
        "Listening on {url}\nKubeconfig:  {file}\nTry:         kubectl --kubeconfig {file} get all -A\nThis is a bare API: \
         pods do not run. Ctrl-C ends it, and all objects are lost.",
        file = kubeconfig.path().display()
    );
    let sandbox = Sandbox::builder()
        .authorization(authorization)
        .root_ca(&server.credentials().ca_pem)
        .services(services)
        .start()?;
    server
        .serve(sandbox.service(), async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
        .await;
    Ok(())
}

/// Reads `namespace/name:port=address`.
fn service(text: &str) -> Result<(String, SocketAddr), String> {
    let form = "expected NAMESPACE/NAME:PORT=ADDRESS:PORT, such as default/hooks:443=127.0.0.1:9443";
    let (service, address) = text.split_once('=').ok_or(form)?;
    let (namespace, rest) = service.split_once('/').ok_or(form)?;
    let (name, port) = rest.split_once(':').ok_or(form)?;
    if namespace.is_empty() || name.is_empty() || port.parse::<u16>().is_err() {
        return Err(form.to_owned());
    }
    let address = address.parse().map_err(|_| form)?;
    Ok((service.to_owned(), address))
}
