//! How the parts of the process reach the API server.

use coxswain_manager::client::Transport;

/// A way to an API server, and to the same one on connections of its own for the election.
pub(crate) struct Ways {
    pub(crate) controllers: Transport,
    pub(crate) election: Transport,
}
