//! The values of a field over time: a write may be based on each value since the state that its sender knew.

/// The values with the revisions at which they were written.
#[derive(Clone, Debug)]
pub(super) struct History<T>(Vec<(u64, T)>);

impl<T> Default for History<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq> History<T> {
    pub(super) fn push(&mut self, revision: u64, value: T) {
        if self.0.last().is_none_or(|it| it.1 != value) {
            self.0.push((revision, value));
        }
    }

    /// Returns the values since a revision, the one at that revision first.
    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = T> {
        self.0[self.position(revision)..].iter().map(|it| it.1)
    }

    /// Returns the values that were current between two revisions.
    pub(super) fn between(&self, first: u64, last: u64) -> impl Iterator<Item = T> {
        self.since(first)
            .take(self.position(last) + 1 - self.position(first))
    }

    /// Returns the position of the value at a revision.
    fn position(&self, revision: u64) -> usize {
        self.0.partition_point(|it| it.0 <= revision).saturating_sub(1)
    }

    pub(super) fn last(&self) -> Option<T> {
        self.0.last().map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_at_the_revision_comes_first() {
        let mut history = History::default();
        for (revision, value) in [(5, 'a'), (6, 'a'), (7, 'b'), (9, 'c')] {
            history.push(revision, value);
        }
        let since = |revision| history.since(revision).collect::<String>();
        assert_eq!(
            [since(0), since(6), since(7), since(8), since(9)],
            ["abc", "abc", "bc", "bc", "c"]
        );
        let between = |first, last| history.between(first, last).collect::<String>();
        assert_eq!([between(5, 6), between(6, 8), between(8, 9)], ["a", "ab", "bc"]);
        assert_eq!(History::<char>::default().since(3).count(), 0);
        assert_eq!(History::<char>::default().between(3, 4).count(), 0);
    }
}
