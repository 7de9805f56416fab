//! The servers of a process: the first failure, and their end in order.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::builder::RunError;

/// A server that serves until it is stopped or dropped.
pub(super) struct RunningServer {
    pub(super) name: &'static str,
    pub(super) stop: CancellationToken,
    pub(super) ended: JoinHandle<()>,
}

/// Resolves when a server has ended before it was stopped.
pub(super) async fn first_end(servers: &mut [RunningServer]) -> RunError {
    let ends = servers.iter_mut().map(|it| async {
        let reason = match (&mut it.ended).await {
            Ok(()) => "ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        };
        RunError::Server {
            name: it.name,
            reason,
        }
    });
    let ends: Vec<_> = ends.map(Box::pin).collect();
    if ends.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(ends).await.0
}

/// Stops the servers, one after the other.
pub(super) async fn stop(servers: Vec<RunningServer>) {
    for mut server in servers {
        server.stop.cancel();
        // A panic at the end changes nothing.
        let _ = (&mut server.ended).await;
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.ended.abort();
    }
}
