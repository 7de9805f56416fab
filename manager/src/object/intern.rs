//! Interning: equal strings, labels and owner references of one cache share one copy.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{OwnerRef, Text};

/// The interned values of one cache.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Pool<str>,
    maps: Pool<[(Text, Text)]>,
    owners: Pool<[OwnerRef]>,
}

#[derive(Debug)]
struct Pool<T: ?Sized> {
    known: BTreeSet<Arc<T>>,
    /// The number of values after the last sweep. The next sweep is due at twice that number.
    after_sweep: usize,
}

/// The number of values below which no sweep is due.
const SWEEP_MIN: usize = 1024;

impl Interner {
    /// Replaces `text` with the interned copy of the same string, or adds it.
    pub fn intern(&mut self, text: &mut Text) {
        self.texts.intern(&mut text.0, |_| {});
    }

    /// Interns a map with its keys and values.
    pub(super) fn intern_map(&mut self, map: &mut Arc<[(Text, Text)]>) {
        let texts = &mut self.texts;
        self.maps.intern(map, |pairs| {
            for (key, value) in pairs {
                texts.intern(&mut key.0, |_| {});
                texts.intern(&mut value.0, |_| {});
            }
        });
    }

    /// Interns a list of owner references with its strings.
    pub(super) fn intern_owners(&mut self, owners: &mut Arc<[OwnerRef]>) {
        let texts = &mut self.texts;
        self.owners.intern(owners, |owners| {
            for owner in owners {
                for text in [&mut owner.api_version, &mut owner.kind, &mut owner.name] {
                    texts.intern(&mut text.0, |_| {});
                }
            }
        });
    }

    /// Returns the number of interned strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.known.len()
    }

    #[expect(missing_docs, reason = "as of a collection")]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.known.is_empty()
    }
}

impl<T: Ord + ?Sized> Pool<T> {
    /// Replaces `value` with the interned copy of it, or adds it after `compact`.
    fn intern(&mut self, value: &mut Arc<T>, compact: impl FnOnce(&mut T)) {
        if let Some(known) = self.known.get(&**value) {
            *value = Arc::clone(known);
            return;
        }
        // A value that was just decoded is not shared.
        if let Some(value) = Arc::get_mut(value) {
            compact(value);
        }
        if self.known.len() >= SWEEP_MIN.max(2 * self.after_sweep) {
            self.known.retain(|it| Arc::strong_count(it) > 1);
            self.after_sweep = self.known.len();
        }
        self.known.insert(Arc::clone(value));
    }
}

// Not derived: that would require `T: Default`.
impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            after_sweep: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_one_copy() {
        let mut interner = Interner::default();
        let (mut a, mut b) = (Text::from("app"), Text::from("app"));
        interner.intern(&mut a);
        interner.intern(&mut b);
        assert!(a.shares(&b));
    }

    #[test]
    fn equal_maps_and_owners_share_one_copy() {
        let mut interner = Interner::default();
        let pairs = |value: &str| -> Arc<[(Text, Text)]> { [("app".into(), value.into())].into() };
        let owners = |kind: &str| -> Arc<[OwnerRef]> {
            let owner = OwnerRef {
                kind: kind.into(),
                ..OwnerRef::default()
            };
            [owner].into()
        };
        let (mut a, mut b, mut c) = (pairs("web"), pairs("web"), pairs("db"));
        for map in [&mut a, &mut b, &mut c] {
            interner.intern_map(map);
        }
        assert!(Arc::ptr_eq(&a, &b) && !Arc::ptr_eq(&a, &c));
        assert!(a[0].0.shares(&c[0].0), "the keys of different maps");
        let (mut a, mut b) = (owners("ReplicaSet"), owners("ReplicaSet"));
        interner.intern_owners(&mut a);
        interner.intern_owners(&mut b);
        assert!(Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn unused_strings_are_swept() {
        let mut interner = Interner::default();
        let mut kept = Text::from("kept");
        interner.intern(&mut kept);
        for i in 0..10 * SWEEP_MIN {
            interner.intern(&mut Text::from(i.to_string()));
        }
        assert!(interner.len() <= SWEEP_MIN, "{}", interner.len());
        let mut again = Text::from("kept");
        interner.intern(&mut again);
        assert!(again.shares(&kept));
    }
}
