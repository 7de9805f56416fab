//! Predicates: filters of cache deltas before the handler.
//!
//! ```
//! use steersman_manager::cache::Delta;
//! use steersman_manager::object::{Meta, MetaObject};
//! use steersman_manager::predicate::Predicate;
//!
//! let object = |generation| MetaObject { metadata: Meta { generation, ..Meta::default() } };
//! let update = |old, new| Delta::Updated { old: object(old).into(), new: object(new).into() };
//! let predicate = Predicate::generation_changed().or(Predicate::labels_changed());
//! assert!(predicate.passes(&update(1, 2)));
//! assert!(!predicate.passes(&update(2, 2)));
//! ```

use std::fmt;
use std::sync::Arc;

use crate::cache::Delta;
use crate::object::Object;

/// A filter of deltas, a pure function. Clones share it.
pub struct Predicate<T>(Arc<Passes<T>>);

type Passes<T> = dyn Fn(&Delta<T>) -> bool + Send + Sync;

impl<T: Object> Predicate<T> {
    /// Passes deltas for which `passes` returns true.
    pub fn new(passes: impl Fn(&Delta<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// Drops updates without a change that a handler can read: repeated events, and changes of fields that the projection
    /// omits. It compares objects, not resourceVersions: a restored store assigns them again.
    #[must_use]
    pub fn changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old != new,
        })
    }

    /// Drops updates that do not change the generation, so that a controller is not triggered by its own status updates.
    /// Changes of labels, annotations and finalizers are dropped too, and so are all updates of kinds without a generation.
    #[must_use]
    pub fn generation_changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old.meta().generation != new.meta().generation,
        })
    }

    /// Drops updates that do not change the labels.
    #[must_use]
    pub fn labels_changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old.meta().labels != new.meta().labels,
        })
    }

    /// Drops updates that do not change the annotations that the cache keeps.
    #[must_use]
    pub fn annotations_changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old.meta().annotations != new.meta().annotations,
        })
    }

    /// Passes deltas that pass both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |delta| self.passes(delta) && other.passes(delta))
    }

    /// Passes deltas that pass one of the two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |delta| self.passes(delta) || other.passes(delta))
    }

    /// Returns true if the delta passes.
    #[must_use]
    pub fn passes(&self, delta: &Delta<T>) -> bool {
        (self.0)(delta)
    }
}

/// Passes deltas that do not pass.
impl<T: Object> std::ops::Not for Predicate<T> {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(move |delta| !self.passes(delta))
    }
}

// Not derived: that would require `T: Clone`.
impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Predicate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::object::MetaObject;

    fn updated(old: &str, new: &str) -> Delta<MetaObject> {
        let parse = |metadata: &str| {
            let json = format!(r#"{{"metadata":{metadata}}}"#);
            Arc::new(serde_json::from_str(&json).expect("an object"))
        };
        Delta::Updated {
            old: parse(old),
            new: parse(new),
        }
    }

    fn others() -> [Delta<MetaObject>; 3] {
        let object = || Arc::new(MetaObject::default());
        [
            Delta::Added {
                new: object(),
                initial: true,
            },
            Delta::Added {
                new: object(),
                initial: false,
            },
            Delta::Deleted { last: object() },
        ]
    }

    #[test]
    fn changed_drops_updates_without_a_visible_change() {
        let changed = Predicate::changed();
        let base = r#"{"name":"a","resourceVersion":"1"}"#;
        for (new, passes) in [
            (base, false),
            (r#"{"name":"a","resourceVersion":"2"}"#, false),
            (r#"{"name":"a","resourceVersion":"2","unknown":1}"#, false),
            (r#"{"name":"a","resourceVersion":"2","labels":{"a":"b"}}"#, true),
            // A store that was restored from a backup assigns its versions again, to other states.
            (r#"{"name":"a","resourceVersion":"1","labels":{"a":"b"}}"#, true),
        ] {
            assert_eq!(changed.passes(&updated(base, new)), passes, "{new}");
        }
        assert!(others().iter().all(|delta| changed.passes(delta)));
    }

    #[test]
    fn generation_changed_drops_updates_of_the_same_generation() {
        let generation = Predicate::generation_changed();
        let base = r#"{"name":"a","resourceVersion":"1","generation":1}"#;
        for (new, passes) in [
            (
                r#"{"name":"a","resourceVersion":"2","generation":1,"labels":{"a":"b"}}"#,
                false,
            ),
            (r#"{"name":"a","resourceVersion":"2","generation":2}"#, true),
        ] {
            assert_eq!(generation.passes(&updated(base, new)), passes, "{new}");
        }
        assert!(others().iter().all(|delta| generation.passes(delta)));
    }

    #[test]
    fn predicates_combine() {
        let base = r#"{"name":"a","generation":1}"#;
        let relabelled = updated(base, r#"{"name":"a","generation":1,"labels":{"a":"b"}}"#);
        let changed = updated(base, r#"{"name":"a","generation":2}"#);
        let both = updated(base, r#"{"name":"a","generation":2,"labels":{"a":"b"}}"#);
        let annotated = updated(base, r#"{"name":"a","generation":1,"annotations":{"a":"b"}}"#);
        let (generation, labels) = (Predicate::generation_changed, Predicate::labels_changed);
        for (predicate, passing) in [
            (generation(), [false, true, true, false]),
            (labels(), [true, false, true, false]),
            (generation().or(labels()), [true, true, true, false]),
            (generation().and(labels()), [false, false, true, false]),
            (!generation(), [true, false, false, true]),
            (Predicate::annotations_changed(), [false, false, false, true]),
        ] {
            let deltas = [&relabelled, &changed, &both, &annotated];
            assert_eq!(deltas.map(|delta| predicate.passes(delta)), passing);
        }
    }
}
