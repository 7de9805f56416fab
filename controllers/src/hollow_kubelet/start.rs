//! The look at the cluster before it starts.

use coxswain_manager::client::{Client, ClientError, ListQuery, View};
use serde::Deserialize;

use super::node::NODES;
use super::{Fleet, LABEL, Node, Options, Refusal};

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It must not, in this cluster. To be shown to whoever started it; trying again is of no use.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is not known whether it may. To be tried again.
    #[error("cannot look at the nodes of the cluster: {0}")]
    Look(#[source] ClientError),
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Node>,
}

/// Whether it may play in this cluster. It asks the API server itself, because a cache may be old; and for one node that is
/// not hollow, so that the answer is short, however large the cluster.
pub async fn may_start(client: &Client, options: &Options) -> Result<(), StartError> {
    if options.sandbox {
        return Ok(());
    }
    let query = ListQuery {
        label_selector: format!("{LABEL}!=true"),
        limit: 1,
        ..ListQuery::default()
    };
    let list = client.list(&NODES, "", &query, View::Full).await;
    let page: Page = serde_json::from_slice(&list.map_err(StartError::Look)?).map_err(|error| {
        StartError::Look(ClientError::Decode {
            request_line: "GET /api/v1/nodes".to_owned(),
            // Not its text, which may quote what was read.
            reason: format!("{:?} at column {}", error.classify(), error.column()),
        })
    })?;
    Ok(Fleet::of(&page.items).may_start()?)
}
