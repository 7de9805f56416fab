//! The figures of a case, each with its bound.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::MIB;
use super::requests::Verb;

/// A figure and its bound.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) name: String,
    pub(super) actual: f64,
    pub(super) limit: f64,
}

/// The result of a case. Its display is a row of the table with the columns of [`header`].
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) case: &'static str,
    /// The number of objects that the case is about.
    pub(super) objects: u64,
    pub(super) requests: BTreeMap<Verb, u64>,
    pub(super) limits: BTreeMap<Verb, u64>,
    /// Peak and final bytes of the product, without those before its start.
    pub(super) peak: u64,
    pub(super) at_end: u64,
    pub(super) memory_limit: u64,
    /// The time from each change of the user to the last write that it causes.
    pub(super) virtual_time: Duration,
    pub(super) time_limit: Duration,
    pub(super) wall: Duration,
    pub(super) bounds: Vec<Bound>,
    /// Failures other than those of [`Self::bounds`].
    pub(super) broken: Vec<String>,
}

impl Report {
    pub(super) const fn new(case: &'static str) -> Self {
        Self {
            case,
            objects: 0,
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            peak: 0,
            at_end: 0,
            memory_limit: 0,
            virtual_time: Duration::ZERO,
            time_limit: Duration::ZERO,
            wall: Duration::ZERO,
            bounds: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Returns a sentence for each bound that does not hold.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let exceeded = self.bounds.iter().filter(|it| it.actual > it.limit);
        let exceeded =
            exceeded.map(|it| format!("{}: {} exceeds the bound {}", it.name, it.actual, it.limit));
        let all = exceeded.chain(self.broken.iter().cloned());
        all.map(|it| format!("{}: {it}", self.case)).collect()
    }

    pub(super) fn is_broken(&self) -> bool {
        !self.broken().is_empty()
    }
}

/// Returns the header of the table.
#[must_use]
pub fn header() -> &'static str {
    "| case | objects | requests of the product / bound | per object | peak MiB / bound | MiB at the end | virtual s / bound | wall s |\n\
     |---|---|---|---|---|---|---|---|"
}

impl fmt::Display for Report {
    #[expect(clippy::cast_precision_loss, reason = "figures for display")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |verb| self.limits.get(verb).copied().unwrap_or_default();
        let verbs = self.requests.iter();
        let verbs: Vec<_> = verbs
            .map(|(verb, count)| format!("{verb:?} {count}/{}", limit(verb)))
            .collect();
        // Not those that depend on time or kinds only.
        let caused = [Verb::Get, Verb::Post, Verb::Put, Verb::Patch, Verb::Delete];
        let caused: u64 = caused.iter().filter_map(|it| self.requests.get(it)).sum();
        write!(
            f,
            "| {} | {} | {} | {:.3} | {:.1} / {:.1} | {:.1} | {:.1} / {} | {:.1} |",
            self.case,
            self.objects,
            verbs.join(", "),
            caused as f64 / self.objects.max(1) as f64,
            self.peak as f64 / MIB,
            self.memory_limit as f64 / MIB,
            self.at_end as f64 / MIB,
            self.virtual_time.as_secs_f64(),
            self.time_limit.as_secs(),
            self.wall.as_secs_f64(),
        )
    }
}
