//! The indexes of a store: by controller, of objects without a controller, and by functions.
//!
//! They change in the same step as the store, and hold the objects themselves, ordered by key. The store is ordered by
//! namespace, so there is no index by namespace.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::shared_store::SharedStore;
use crate::object::{Object, OwnerRef, Text, Uid};

/// An index of a cache by a function. Clones share it; it is dropped with the last one.
#[derive(Debug)]
pub struct Index<T: Object>(Arc<Registration<T>>);

#[derive(Debug)]
struct Registration<T: Object> {
    store: Arc<SharedStore<T>>,
    id: u64,
}

/// Returns the values of an object.
pub(super) type IndexFunction<T> = Box<dyn Fn(&T) -> Vec<Text> + Send + Sync>;

/// The objects by value, those of one value ordered by key. No list is empty.
type Groups<V, T> = BTreeMap<V, Vec<Arc<T>>>;

/// The indexes of one store.
#[derive(Debug)]
pub(super) struct Indexes<T> {
    /// By the uid of the controller.
    owned: Groups<Uid, T>,
    /// Objects without a controller, by namespace; none if they are not indexed.
    unmanaged: Option<Groups<Text, T>>,
    functions: BTreeMap<u64, FunctionIndex<T>>,
    /// The number of indexes by functions that were added.
    added: u64,
}

struct FunctionIndex<T> {
    values: IndexFunction<T>,
    groups: Groups<Text, T>,
}

impl<T: Object> Index<T> {
    pub(super) fn new(
        store: &Arc<SharedStore<T>>,
        values: impl Fn(&T) -> Vec<Text> + Send + Sync + 'static,
    ) -> Self {
        let id = store.add_index(Box::new(values));
        let store = Arc::clone(store);
        Self(Arc::new(Registration { store, id }))
    }

    /// Returns the objects for which the function returns this value, ordered by namespace and name.
    #[must_use]
    pub fn get(&self, value: &str) -> Vec<Arc<T>> {
        let Registration { store, id } = &*self.0;
        store.read(|store| store.indexed(*id, value))
    }

    /// Returns the object of a namespace that an owner reference refers to, from an index by uid. A client can change the
    /// name in a reference, so it is not compared.
    #[must_use]
    pub fn owner(&self, namespace: &Text, reference: &OwnerRef) -> Option<Arc<T>> {
        let mut found = self.get(&reference.uid.to_string()).into_iter();
        found.find(|object| object.meta().namespace == *namespace)
    }
}

// Not derived: that would require `T: Clone`.
impl<T: Object> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Object> Drop for Registration<T> {
    fn drop(&mut self) {
        self.store.remove_index(self.id);
    }
}

impl<T: Object> Indexes<T> {
    /// Returns empty indexes.
    pub(super) fn new() -> Self {
        Self {
            owned: BTreeMap::new(),
            unmanaged: T::INDEX_UNMANAGED.then(BTreeMap::new),
            functions: BTreeMap::new(),
            added: 0,
        }
    }

    /// Adds an index of these objects by a function. Returns its id.
    pub(super) fn add<'a>(
        &mut self,
        values: IndexFunction<T>,
        objects: impl Iterator<Item = &'a Arc<T>>,
    ) -> u64 {
        let mut groups = Groups::new();
        for object in objects {
            change(&mut groups, None, Some((object, values(object))));
        }
        self.added += 1;
        self.functions
            .insert(self.added, FunctionIndex { values, groups });
        self.added
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.functions.remove(&id);
    }

    /// Updates the indexes when the object under a key changes.
    pub(super) fn change(&mut self, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        fn states<T, V>(
            [old, new]: [Option<&Arc<T>>; 2],
            values: impl Fn(&T) -> Vec<V>,
        ) -> [Option<(&Arc<T>, Vec<V>)>; 2] {
            [old, new].map(|state| state.map(|object| (object, values(object))))
        }
        let [from, to] = states([old, new], |object| owner(object).into_iter().collect());
        change(&mut self.owned, from, to);
        if let Some(unmanaged) = &mut self.unmanaged {
            let [from, to] = states([old, new], |object| {
                let meta = object.meta();
                let namespace = meta.controller().is_none().then(|| meta.namespace.clone());
                namespace.into_iter().collect()
            });
            change(unmanaged, from, to);
        }
        for index in self.functions.values_mut() {
            let [from, to] = states([old, new], &index.values);
            change(&mut index.groups, from, to);
        }
    }

    /// Returns the objects whose controller has this uid.
    pub(super) fn owned(&self, owner: &Uid) -> &[Arc<T>] {
        self.owned.get(owner).map_or(&[], |group| group)
    }

    /// Returns the objects of a namespace without a controller; none if they are not indexed.
    pub(super) fn unmanaged(&self, namespace: &str) -> Option<&[Arc<T>]> {
        let groups = self.unmanaged.as_ref()?;
        Some(groups.get(namespace).map_or(&[], |group| group))
    }

    /// Returns the objects with this value of an index by a function.
    pub(super) fn indexed(&self, id: u64, value: &str) -> &[Arc<T>] {
        let index = self.functions.get(&id);
        let group = index.and_then(|index| index.groups.get(value));
        group.map_or(&[], |group| group)
    }
}

impl<T> fmt::Debug for FunctionIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionIndex").finish_non_exhaustive()
    }
}

fn owner<T: Object>(object: &T) -> Option<Uid> {
    let owner = object.meta().controller().map(|owner| owner.uid.clone());
    owner.filter(|uid| !uid.is_empty())
}

/// Moves an object from its old values to the new ones.
fn change<V: Ord, T: Object>(
    groups: &mut Groups<V, T>,
    old: Option<(&Arc<T>, Vec<V>)>,
    new: Option<(&Arc<T>, Vec<V>)>,
) {
    if let Some((object, values)) = old {
        for value in values {
            if new.as_ref().is_some_and(|(_, new)| new.contains(&value)) {
                continue;
            }
            if let Some(group) = groups.get_mut(&value) {
                if let Ok(at) = find(group, object) {
                    group.remove(at);
                }
                if group.is_empty() {
                    groups.remove(&value);
                }
            }
        }
    }
    if let Some((object, values)) = new {
        for value in values {
            let group = groups.entry(value).or_default();
            match find(group, object) {
                Ok(at) => group[at] = Arc::clone(object),
                Err(at) => group.insert(at, Arc::clone(object)),
            }
        }
    }
}

fn find<T: Object>(group: &[Arc<T>], object: &Arc<T>) -> Result<usize, usize> {
    group.binary_search_by(|it| by_key(it, object))
}

fn by_key<T: Object>(a: &Arc<T>, b: &Arc<T>) -> Ordering {
    let (a, b) = (a.meta(), b.meta());
    (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
}
