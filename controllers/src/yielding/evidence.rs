//! Recent writes of kube-controller-manager: evidence that it runs although it holds no Lease.
//!
//! At start and once per term, if the Lease is absent, one page of Deployments and one of `ReplicaSets` is listed live. The
//! evidence is only reported in the log and the health check; the flag decides.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use steersman_manager::client::{ClientError, ListQuery, Reader, Term, View};
use steersman_manager::env::Env;
use steersman_manager::object::decode::null_is_default;
use steersman_manager::object::{LoggedObject, Resource};
use steersman_manager::sync::watch;

use super::State;
use super::shared_state::SharedState;

const RESOURCES: [Resource; 2] = [
    Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    Resource::namespaced("apps", "v1", "deployments", "Deployment"),
];
const MANAGER: &str = "kube-controller-manager";
/// Older writes are not evidence.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(10);
/// Number of listed objects per resource.
const PAGE_LIMIT: u32 = 500;
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of the last search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The first search has not finished.
    Pending,
    Found(Write),
    NotFound,
    Failed,
}

/// A recent write of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// As [`LoggedObject`].
    object: String,
    time: Timestamp,
}

/// Searches at start and in each new term.
pub(super) struct Searcher {
    pub(super) env: Env,
    pub(super) client: Reader,
    pub(super) state: SharedState,
    /// The latest term. Terms that begin during a search share the next one.
    pub(super) terms: watch::Receiver<Option<Term>>,
    pub(super) found: watch::Sender<Evidence>,
    /// The flag `--assume-no-kube-controller-manager`.
    pub(super) assume_absent: bool,
}

#[derive(Deserialize)]
struct Page {
    /// API servers send null for an empty list of metadata.
    #[serde(deserialize_with = "null_is_default")]
    items: Vec<Value>,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "its recent writes are not listed yet",
            Self::Found(_) => "it has written Deployments or ReplicaSets within 10 minutes",
            Self::NotFound => "no recent write of it was found",
            Self::Failed => "its recent writes cannot be listed",
        })
    }
}

impl Searcher {
    pub(super) async fn run(mut self) {
        loop {
            let Ok(state) = self.state.wait_for(|state| *state != State::Unread).await else {
                return;
            };
            self.terms.borrow_and_update();
            if matches!(state, State::Absent | State::AssumedAbsent) {
                let evidence = self.search().await;
                self.log(&evidence);
                self.found.send_replace(evidence);
            }
            if self.terms.changed().await.is_err() {
                return;
            }
        }
    }

    async fn search(&self) -> Evidence {
        for resource in &RESOURCES {
            match self.search_one(resource).await {
                Ok(None) => {}
                Ok(Some(write)) => return Evidence::Found(write),
                Err(error) => {
                    tracing::warn!(%error, "Failed to list recent writes of kube-controller-manager");
                    return Evidence::Failed;
                }
            }
        }
        Evidence::NotFound
    }

    async fn search_one(&self, resource: &Resource) -> Result<Option<Write>, ClientError> {
        let what = || format!("LIST {}", resource.plural);
        let query = ListQuery {
            limit: PAGE_LIMIT,
            ..ListQuery::default()
        };
        let list = self.client.list(resource, "", &query, View::Metadata);
        let body = self.env.clock.timeout(LIST_TIMEOUT, list).await;
        let body = body.ok_or_else(|| ClientError::Timeout {
            request_line: what(),
            deadline: LIST_TIMEOUT,
        })??;
        let page: Page = serde_json::from_slice(&body).map_err(|error| ClientError::Decode {
            request_line: what(),
            reason: format!("{:?} at column {}", error.classify(), error.column()),
        })?;
        let oldest = self.env.clock.wall() - MAX_AGE;
        let recent = |object: &Value| {
            let meta = &object["metadata"];
            let entries = meta["managedFields"].as_array()?.iter();
            let times = entries
                .filter(|entry| entry["manager"] == MANAGER)
                .filter_map(|entry| entry["time"].as_str()?.parse().ok());
            let time = times.max().filter(|time| *time > oldest)?;
            let field = |field: &str| meta[field].as_str().unwrap_or_default();
            let object = LoggedObject::new(&resource.kind, field("namespace"), field("name")).to_string();
            Some(Write { object, time })
        };
        Ok(page.items.iter().find_map(recent))
    }

    fn log(&self, evidence: &Evidence) {
        match evidence {
            Evidence::Found(Write { object, time }) if self.assume_absent => tracing::warn!(
                %object, %time,
                "Running beside kube-controller-manager, its recent writes contradict --assume-no-kube-controller-manager"
            ),
            Evidence::Found(Write { object, time }) => tracing::info!(
                %object, %time,
                "Found recent writes of kube-controller-manager, which holds no lease"
            ),
            Evidence::NotFound if !self.assume_absent => tracing::info!(
                "Found no lease and no recent writes of kube-controller-manager, \
                 set --assume-no-kube-controller-manager if it does not run"
            ),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_empty_list() {
        let page: Page = serde_json::from_str(r#"{"items": null}"#).expect("a page");
        assert!(page.items.is_empty());
        assert!(serde_json::from_str::<Page>("{}").is_err(), "not a list");
    }
}
