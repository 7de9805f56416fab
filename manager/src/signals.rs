//! SIGINT and SIGTERM: the first signal starts a graceful shutdown, the second stops the process immediately. SIGHUP reloads
//! the configuration.
//!
//! [`ManagerBuilder::run`](crate::manager::ManagerBuilder::run) does this for a manager:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_manager::signals::Signals;
//! use tokio_util::sync::CancellationToken;
//!
//! let (signals, stop) = (Signals::install()?, CancellationToken::new());
//! # rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?;
//! let graceful = tokio::select! {
//!     () = signals.second(stop.clone()) => false,
//!     () = stop.cancelled() => true, // here, the program that ends after `stop`
//! };
//! assert!(graceful);
//! # Ok(())
//! # }
//! ```

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The installed handlers of SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers. Until then, a signal ends the process.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Resolves at the first signal.
    pub async fn first(&mut self) {
        let first = self.next().await;
        tracing::info!(signal = first, "Stopping");
    }

    /// Cancels `stop` at the first signal and resolves at the second.
    pub async fn second(mut self, stop: CancellationToken) {
        self.first().await;
        stop.cancel();
        let second = self.next().await;
        tracing::warn!(
            signal = second,
            "Stopping immediately, the lease is left to expire"
        );
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// The installed handler of SIGHUP.
#[derive(Debug)]
pub struct Hangup(Signal);

impl Hangup {
    /// Installs the handler. Until then, the signal ends the process.
    pub fn install() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Resolves at the next signal.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
