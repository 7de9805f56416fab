//! SIGINT and SIGTERM: the first one asks for an orderly end, the second one ends it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end the process, from now on in our hands.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Ends at the first signal.
    pub(crate) async fn first(&mut self) {
        let first = self.next().await;
        tracing::info!(signal = first, "Stopping");
    }

    /// Cancels `stop` at the first signal, and ends at the second.
    pub(crate) async fn second(mut self, stop: CancellationToken) {
        self.first().await;
        stop.cancel();
        let second = self.next().await;
        tracing::warn!(signal = second, "Stopping at once, the lease is left to expire");
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
