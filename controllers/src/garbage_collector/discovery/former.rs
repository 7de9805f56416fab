//! Resources whose CRD is gone: the documents may list them for a while longer, and are not believed.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_manager::env::later;
use tokio::time::Instant;

use super::definition::{Definitions, GroupResource};
use super::documents::Documents;

/// How long an API server may take to notice that a CRD is gone.
const LAG: Duration = Duration::from_mins(1);

/// What was defined, and what no longer is.
#[derive(Debug, Default)]
pub(super) struct Former {
    defined: Definitions,
    /// Since when they are gone.
    left: BTreeMap<GroupResource, Instant>,
}

impl Former {
    /// These are defined now. What has left is struck off the documents.
    pub(super) fn see(&mut self, defined: &Definitions, documents: &mut Documents, now: Instant) {
        for gone in self.defined.keys().filter(|it| !defined.contains_key(*it)) {
            documents.strike(&gone.0, &gone.1);
            self.left.insert(gone.clone(), now);
        }
        self.left.retain(|it, _| !defined.contains_key(it));
        self.defined.clone_from(defined);
    }

    /// These documents were asked for at `begun`. If that was long enough after a CRD had gone, they are right about it: what
    /// they list now is served by somebody else.
    pub(super) fn correct(&mut self, documents: &mut Documents, begun: Instant) {
        self.left.retain(|_, left| begun < later(*left, LAG));
        for (group, plural) in self.left.keys() {
            documents.strike(group, plural);
        }
    }
}
