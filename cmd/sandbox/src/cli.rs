//! The command line: flags, the kubeconfig file, and the signals that end it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::{CONTEXT, Options, Sandbox, ServeError, Server};

/// A Kubernetes API in one process, for trying and testing controllers.
///
/// Everything is kept in memory and gone when it ends. Nothing makes pods run.
#[derive(Debug, Parser)]
#[command(name = "coxswain-sandbox", version)]
pub struct Args {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Listen on an address that other machines can reach. Whoever has the kubeconfig may then do anything
    #[arg(long)]
    allow_remote: bool,

    /// File to write the kubeconfig to (mode 0600); without it, a file in the temporary directory that is removed at
    /// the end
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The address is open to other machines.
    #[error(
        "{0} can be reached from other machines: use a loopback address, or say --allow-remote if that is meant"
    )]
    NotLoopback(SocketAddr),
    /// The file is somebody else's.
    #[error("{0} exists and is not a kubeconfig of a sandbox: choose another file, or remove it first")]
    NotOurs(PathBuf),
    /// The kubeconfig could not be written.
    #[error("cannot write the kubeconfig {path}: {source}")]
    Kubeconfig {
        /// Where to.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The server did not start.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The runtime or the signal handlers could not be set up.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl Args {
    /// Serves until SIGINT or SIGTERM.
    pub fn run(self) -> Result<(), CliError> {
        let Self {
            listen,
            allow_remote,
            kubeconfig,
        } = self;
        if !listen.ip().is_loopback() && !allow_remote {
            return Err(CliError::NotLoopback(listen));
        }
        if let Some(path) = &kubeconfig {
            check_ours(path)?;
        }
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(serve(listen, kubeconfig))
    }
}

async fn serve(listen: SocketAddr, kubeconfig: Option<PathBuf>) -> Result<(), CliError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::bind(listen).await?;
    let (path, temporary) = match kubeconfig {
        Some(path) => (path, false),
        None => (
            std::env::temp_dir().join(format!("{CONTEXT}-{}.kubeconfig", std::process::id())),
            true,
        ),
    };
    let url = server.url();
    write_private(&path, &server.credentials().kubeconfig(&url)).map_err(|source| CliError::Kubeconfig {
        path: path.clone(),
        source,
    })?;
    // If nobody reads it (a closed pipe), it serves all the same.
    let _ = writeln!(
        io::stdout(),
        "Listening on {url}\nKubeconfig:  {file}\nTry:         kubectl --kubeconfig {file} get all -A\nThis is a bare API: \
         nothing makes pods run. Ctrl-C ends it, and everything in it is gone.",
        file = path.display()
    );
    let sandbox = Sandbox::new(Options::default());
    server
        .serve(sandbox.door(), async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
        .await;
    if temporary {
        // Its token is worthless now; that it lies around is untidy, not wrong.
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

/// A file that is there already is only overwritten if a sandbox wrote it: it may be the keys to a real cluster.
fn check_ours(path: &Path) -> Result<(), CliError> {
    match fs::read_to_string(path) {
        Ok(text) if text.contains(&format!("current-context: {CONTEXT}\n")) => Ok(()),
        Ok(_) => Err(CliError::NotOurs(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CliError::Kubeconfig {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Writes a file that only its owner can read, in one step.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = path.with_file_name(name);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(content.as_bytes())?;
        fs::rename(&fresh, path)
    })();
    // One that was there before is not ours to remove.
    if written
        .as_ref()
        .is_err_and(|e| e.kind() != io::ErrorKind::AlreadyExists)
    {
        let _ = fs::remove_file(&fresh);
    }
    written
}
