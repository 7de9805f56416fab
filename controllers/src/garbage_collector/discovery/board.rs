//! The published kinds, and the problems of discovery.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::garbage_collector::kinds::Kinds;

/// What is wrong, by name.
pub(super) type Problems = Arc<Mutex<BTreeMap<String, Problem>>>;

/// One thing that is wrong.
#[derive(Debug)]
pub(super) struct Problem {
    why: String,
    since: Timestamp,
}

/// Where it is told.
#[derive(Debug)]
pub(super) struct Board {
    kinds: watch::Sender<Option<Arc<Kinds>>>,
    problems: Problems,
}

impl Board {
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

    /// These things are wrong, and no others.
    pub(super) fn complain(&self, wrong: BTreeMap<String, String>, now: Timestamp) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.retain(|name, _| wrong.contains_key(name));
        for (name, why) in wrong {
            if let Some(known) = problems.get_mut(&name) {
                known.why = why;
                continue;
            }
            tracing::warn!(what = name, why, "A part of the API cannot be discovered");
            problems.insert(name, Problem { why, since: now });
        }
    }
}

/// What is wrong, for people.
pub(super) fn list(problems: &Problems) -> Vec<String> {
    let problems = problems.lock().unwrap_or_else(PoisonError::into_inner);
    let problems = problems.iter();
    problems
        .map(|(name, Problem { why, since })| format!("{name} since {since}: {why}"))
        .collect()
}
