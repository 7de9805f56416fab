//! The published kinds, and the problems of discovery.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use steersman_manager::sync::watch;

use crate::garbage_collector::kinds::Kinds;

/// The parts of the API that cannot be discovered, by name.
pub(super) type Problems = Arc<Mutex<BTreeMap<String, Problem>>>;

#[derive(Debug)]
pub(super) struct Problem {
    why: String,
    since: Timestamp,
}

#[derive(Debug)]
pub(super) struct Publisher {
    kinds: watch::Sender<Option<Arc<Kinds>>>,
    problems: Problems,
}

impl Publisher {
    pub(super) fn new() -> Self {
        Self {
            kinds: watch::Sender::new(None),
            problems: Problems::default(),
        }
    }

    pub(super) fn kinds(&self) -> watch::Receiver<Option<Arc<Kinds>>> {
        self.kinds.subscribe()
    }

    pub(super) fn problems(&self) -> Problems {
        Arc::clone(&self.problems)
    }

    /// Publishes the kinds, if they have changed.
    pub(super) fn publish(&self, kinds: Kinds) {
        if self.kinds.borrow().as_deref() == Some(&kinds) {
            return;
        }
        let (served, collected, undescribed) = kinds.counts();
        tracing::info!(served, collected, undescribed, "Published served kinds");
        self.kinds.send_replace(Some(Arc::new(kinds)));
    }

    /// Replaces the problems, and logs the new ones.
    pub(super) fn set_problems(&self, current: BTreeMap<String, String>, now: Timestamp) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.retain(|name, _| current.contains_key(name));
        for (name, why) in current {
            if let Some(known) = problems.get_mut(&name) {
                known.why = why;
                continue;
            }
            tracing::warn!(what = name, why, "Failed to discover part of the API");
            problems.insert(name, Problem { why, since: now });
        }
    }
}

/// Formats the problems for the health page.
pub(super) fn list(problems: &Problems) -> Vec<String> {
    let problems = problems.lock().unwrap_or_else(PoisonError::into_inner);
    let problems = problems.iter();
    problems
        .map(|(name, Problem { why, since })| format!("{name} since {since}: {why}"))
        .collect()
}
