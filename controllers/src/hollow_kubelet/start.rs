//! What comes before the first reconcile: the look at the cluster, and the nodes that no event would bring up.

use coxswain_manager::client::{Client, ClientError, ListQuery, View};
use coxswain_manager::object::Key;
use serde::Deserialize;

use super::node::{self, NODES};
use super::plan::NodeStep;
use super::{Fleet, LABEL, Node, Options, Refusal, act, plan};

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It must not, in this cluster. To be shown to whoever started it; trying again is of no use.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It is not known whether it may. To be tried again.
    #[error("cannot look at the nodes of the cluster: {0}")]
    Look(#[source] ClientError),
    /// The cluster does not take its nodes. To be tried again.
    #[error("cannot create a node: {0}")]
    Create(#[source] ClientError),
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Node>,
}

/// Makes sure that it may play in this cluster, and that its nodes are there: at the start of each term, before the first
/// reconcile. It asks the API server itself, because a cache may be old.
pub async fn start(client: &Client, options: &Options) -> Result<(), StartError> {
    if !options.sandbox {
        may_start(client).await?;
    }
    for name in plan::nodes(options) {
        let step = NodeStep::Create(node::new(&name));
        match act::node(client, &Key::cluster(name), step).await {
            Err(error) if !error.is_already_exists() => return Err(StartError::Create(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Asks for one node that is not hollow: the answer is short, however large the cluster.
async fn may_start(client: &Client) -> Result<(), StartError> {
    let query = ListQuery {
        label_selector: format!("{LABEL}!=true"),
        limit: 1,
        ..ListQuery::default()
    };
    let list = client.list(&NODES, "", &query, View::Full).await;
    let page: Page = serde_json::from_slice(&list.map_err(StartError::Look)?).map_err(|error| {
        StartError::Look(ClientError::Decode {
            what: "GET /api/v1/nodes".to_owned(),
            reason: format!("{:?}", error.classify()),
        })
    })?;
    Fleet::of(&page.items).may_start()?;
    Ok(())
}
