//! Which kinds there are.
//!
//! - A CRD's kinds are known from the CRD itself, as soon as it is established, and gone when it is; everything else from the
//!   documents of discovery, which are read again when an `APIService` changes, and every ten minutes in any case.
//! - What cannot be read is as it was: a part of the API that fails takes away nothing that was known, and an answer without
//!   any group is no answer.
//! - Nobody waits for discovery: what is known is told, and told again only if it has changed.
//!
//! The walk: `round` (the requests) → `decode` → `documents`, and CRDs → `definition`; both → `merge` → `board`. `follow` is
//! who does it, `former` and `registration` say when documents are not, or no longer, believed.

mod board;
mod decode;
mod definition;
mod documents;
mod follow;
mod former;
mod maturity;
mod merge;
mod registration;
mod round;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coxswain_manager::cache::Caches;
use coxswain_manager::client::Client;
use coxswain_manager::env::Env;
use prometheus::{IntCounter, Opts, Registry};
use tokio::sync::watch;

use self::board::{Board, Problems};
use self::follow::Follower;
use super::kinds::Kinds;

/// The look at the kinds that the API serves. Clones share it.
#[derive(Clone, Debug)]
pub struct Discovery {
    kinds: watch::Receiver<Option<Arc<Kinds>>>,
    problems: Problems,
}

impl Discovery {
    /// Begins to look, until the tasks of `env` end. The documents are read through `client`; CRDs and `APIService`s are cached.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        env: &Env,
        caches: &Caches,
        client: Client,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let incomplete = IntCounter::with_opts(Opts::new(
            "garbagecollector_controller_resources_sync_error_total",
            "[ALPHA] Number of times that the kinds of the API could not all be discovered.",
        ))?;
        registry.register(Box::new(incomplete.clone()))?;
        let board = Board::new();
        let discovery = Self {
            kinds: board.kinds(),
            problems: board.problems(),
        };
        let follower = Follower::new(env, caches, client, incomplete, board);
        // It is ended with the tasks.
        drop(env.tasks.spawn(follower.run()));
        Ok(discovery)
    }

    /// The kinds; none until the documents have been read for the first time. It changes when they do.
    #[must_use]
    pub fn kinds(&self) -> watch::Receiver<Option<Arc<Kinds>>> {
        self.kinds.clone()
    }

    /// The parts of the API that cannot be discovered, since when, and why: for the operator.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        board::list(&self.problems)
    }
}
