//! Keeps hollow-kubelet from starting in a cluster with other nodes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use steersman_manager::client::{ClientError, Fence, ListQuery, Reader, Term, View};
use steersman_manager::controller::{
    self, Activity, ControllerError, Fatal, QueueController, RecentError, Runnable, Unhealthy,
};
use steersman_manager::env::Clock;
use steersman_manager::manager::Manager;
use steersman_manager::object::Key;
use tokio_util::sync::CancellationToken;

use super::node::NODES;
use super::{ForeignNode, HollowKubelet, LABEL, Node, Nodes, Options, build};

/// Delay before the nodes are listed again after a failure.
const RETRY_MIN: Duration = Duration::from_secs(2);

/// Bounds the server's Retry-After.
const RETRY_MAX: Duration = Duration::from_mins(5);

/// The reason why hollow-kubelet does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The cluster has other nodes. Retrying does not help.
    #[error(transparent)]
    ForeignNode(#[from] ForeignNode),
    /// The nodes could not be listed. May be retried.
    #[error("cannot list the nodes of the cluster: {0}")]
    List(#[source] ClientError),
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Node>,
}

/// Checks that the cluster has no other nodes, by a live list because a cache may be stale. The list is limited to one node
/// without the label, so that the response is small in a large cluster.
pub async fn may_start(client: &Reader, options: &Options) -> Result<(), StartError> {
    if options.sandbox {
        return Ok(());
    }
    let query = ListQuery {
        label_selector: format!("{LABEL}!=true"),
        limit: 1,
        ..ListQuery::default()
    };
    let list = client.list(&NODES, "", &query, View::Full).await;
    let page: Page = serde_json::from_slice(&list.map_err(StartError::List)?).map_err(|error| {
        StartError::List(ClientError::Decode {
            request_line: "GET /api/v1/nodes".to_owned(),
            // The text of the error may quote the response.
            reason: format!("{:?} at column {}", error.classify(), error.column()),
        })
    })?;
    Ok(Nodes::of(&page.items).all_hollow()?)
}

/// The controller behind the check of the cluster.
struct Guarded {
    inner: QueueController<HollowKubelet>,
    client: Reader,
    clock: Clock,
    options: Options,
    /// The reason why the controller does not start.
    refusal: Mutex<Option<String>>,
}

/// Builds the controller behind the check of the cluster.
///
/// # Panics
/// Outside a tokio runtime.
pub fn guarded(
    manager: &Manager,
    client: Reader,
    options: Options,
    workers: usize,
) -> Result<impl Runnable + use<>, ControllerError> {
    let how = controller::Options {
        workers,
        ..controller::Options::default()
    };
    let inner = build(
        manager.env(),
        manager.caches(),
        client.clone(),
        manager.registry(),
        options.clone(),
        how,
    )?;
    let clock = manager.env().clock.clone();
    Ok(Guarded {
        inner,
        client,
        clock,
        options,
        refusal: Mutex::default(),
    })
}

impl Guarded {
    /// Resolves when the controller may run, never if it must not.
    async fn may_run(&self) {
        loop {
            match may_start(&self.client, &self.options).await {
                Ok(()) => return,
                Err(StartError::ForeignNode(reason)) => {
                    tracing::error!(%reason, "Refused to start hollow-kubelet");
                    self.refuse(Some(reason.to_string()));
                    std::future::pending::<()>().await;
                }
                Err(StartError::List(error)) => {
                    tracing::warn!(%error, "Failed to list nodes");
                    let retry_after = error.retry_after().unwrap_or_default();
                    self.clock.sleep(retry_after.clamp(RETRY_MIN, RETRY_MAX)).await;
                }
            }
        }
    }

    fn refuse(&self, reason: Option<String>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl Runnable for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn unsynced(&self) -> Vec<String> {
        self.inner.unsynced()
    }

    fn run(&self, fence: &Fence, term: Term, stop: CancellationToken) -> BoxFuture<'_, Result<(), Fatal>> {
        let fence = fence.clone();
        Box::pin(async move {
            let may_run = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                () = fence.closed(term) => false,
                () = self.may_run() => true,
            };
            // A standby is healthy.
            self.refuse(None);
            if !may_run {
                return Ok(());
            }
            self.inner.run(&fence, term, stop).await
        })
    }

    fn running(&self) -> Vec<Key> {
        self.inner.running()
    }

    fn activity(&self) -> Activity {
        self.inner.activity()
    }

    fn recent_errors(&self) -> Vec<RecentError> {
        self.inner.recent_errors()
    }

    fn health(&self) -> Result<(), Unhealthy> {
        let refusal = self
            .refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match refusal {
            Some(reason) => Err(Unhealthy::Refused { reason }),
            None => self.inner.health(),
        }
    }
}
