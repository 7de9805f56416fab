//! Which changes are worth a look: the first thing that a delta of a cache meets on its way to a queue.

use std::fmt;
use std::sync::Arc;

use crate::cache::Delta;
use crate::object::Object;

/// A pure question about a change. Clones are the same one.
pub struct Predicate<T>(Arc<Passes<T>>);

type Passes<T> = dyn Fn(&Delta<T>) -> bool + Send + Sync;

impl<T: Object> Predicate<T> {
    /// Changes of which `passes` says yes.
    pub fn new(passes: impl Fn(&Delta<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// All but updates in which nothing has changed that a handler could read: what came twice, and what changed only in
    /// fields that the projection does not keep. Versions do not count: a store that was restored gives them again.
    #[must_use]
    pub fn changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old != new,
        })
    }

    /// All but updates that did not change what is wanted: for a controller that writes the status of its objects, and is
    /// not woken by that. Labels, annotations and finalizers do not count; kinds without a generation never pass.
    #[must_use]
    pub fn generation_changed() -> Self {
        Self::new(|delta| match delta {
            Delta::Added { .. } | Delta::Deleted { .. } => true,
            Delta::Updated { old, new } => old.meta().generation != new.meta().generation,
        })
    }

    /// Whether the change is worth a look.
    #[must_use]
    pub fn passes(&self, delta: &Delta<T>) -> bool {
        (self.0)(delta)
    }
}

// Not derived: it can be cloned whatever it asks about.
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
    fn an_update_without_a_visible_change_does_not_pass() {
        let changed = Predicate::changed();
        let base = r#"{"name":"a","resourceVersion":"1"}"#;
        for (new, passes) in [
            (base, false),
            (r#"{"name":"a","resourceVersion":"2"}"#, false),
            (r#"{"name":"a","resourceVersion":"2","unknown":1}"#, false),
            (r#"{"name":"a","resourceVersion":"2","labels":{"a":"b"}}"#, true),
            // A store that was restored from a backup gives its versions again, to other states.
            (r#"{"name":"a","resourceVersion":"1","labels":{"a":"b"}}"#, true),
        ] {
            assert_eq!(changed.passes(&updated(base, new)), passes, "{new}");
        }
        assert!(others().iter().all(|delta| changed.passes(delta)));
    }

    #[test]
    fn only_a_new_generation_passes() {
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
}
