//! Objects with copy on write, sorted by key.

use std::fmt;
use std::sync::LazyLock;

use ecow::{EcoVec, eco_format};
use foldhash::fast::FixedState;

use super::{Text, Value};
use crate::generated;

/// A map for lookups by key. The order of its iterators is unspecified: callers that iterate over it sort, or do not depend on
/// the order.
#[expect(clippy::disallowed_types, reason = "no caller depends on the order")]
pub(crate) type Lookup<T, K = &'static str> = std::collections::HashMap<K, T, FixedState>;

/// The names of the fields of the built-in kinds as keys, and as elements of field sets (`f:name`). All keys with one of
/// these names share it.
static NAMES: LazyLock<Lookup<[Text; 2]>> = LazyLock::new(|| {
    let fields = generated::types().values().flat_map(|ty| &ty.fields);
    let texts = |name| [Text::from(name), eco_format!("f:{name}")];
    fields.map(|field| (field.name, texts(field.name))).collect()
});

/// Returns the text of a key.
pub(crate) fn key(name: &str) -> Text {
    Text::try_inline(name)
        .or_else(|| NAMES.get(name).map(|[key, _]| key.clone()))
        .unwrap_or_else(|| name.into())
}

/// Returns the text of an element of a field set.
pub(crate) fn element(name: &str) -> Text {
    let known = NAMES.get(name).map(|[_, element]| element.clone());
    known.unwrap_or_else(|| eco_format!("f:{name}"))
}

/// A JSON object; a clone shares it, and the first change copies its members, which share their content.
#[derive(Clone, Default)]
pub struct Map(EcoVec<(Text, Value)>);

impl Map {
    /// Returns an empty object, without memory of its own.
    #[must_use]
    pub const fn new() -> Self {
        Self(EcoVec::new())
    }

    /// Returns an empty object with memory for a number of members.
    #[must_use]
    pub fn with_capacity(members: usize) -> Self {
        Self(EcoVec::with_capacity(members))
    }

    /// Returns an object with members that are sorted by key, without duplicates.
    pub(crate) fn from_sorted(members: impl ExactSizeIterator<Item = (Text, Value)>) -> Self {
        let mut map = Self::with_capacity(members.len());
        map.0.extend(members);
        map
    }

    /// Inserts a member that is absent.
    fn add(&mut self, at: usize, key: Text, value: Value) {
        // `EcoVec` starts with one item and doubles, which is one allocation too many for most objects.
        if self.0.len() == self.0.capacity() {
            self.0.reserve(if self.is_empty() { 2 } else { 4 });
        }
        self.0.insert(at, (key, value));
    }

    /// Returns the index of a key.
    fn position(&self, key: &str) -> Option<usize> {
        /// Up to this length comparing the lengths of keys is cheaper than comparing their order.
        const SMALL: usize = 16;
        if self.len() <= SMALL {
            return self.0.iter().position(|(name, _)| name.as_str() == key);
        }
        self.find(key).ok()
    }

    /// Returns the index of a key, or the index at which to insert it.
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| name.as_str().cmp(key))
    }

    fn is_after_all(&self, key: &str) -> bool {
        self.0.last().is_none_or(|(last, _)| last.as_str() < key)
    }

    fn at(&mut self, at: usize) -> Option<&mut Value> {
        self.0.make_mut().get_mut(at).map(|(_, value)| value)
    }

    /// Reports whether two objects are one in memory.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.as_slice(), other.0.as_slice())
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether the object has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        let at = self.position(key)?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Returns the value of a key for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key)?;
        self.at(at)
    }

    /// Reports whether the object has the key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        // Most bodies are sorted.
        !self.is_after_all(key) && self.position(key).is_some()
    }

    /// Sets the value of a key. Returns the previous value.
    pub fn insert(&mut self, key: impl Into<Text> + AsRef<str>, value: Value) -> Option<Value> {
        if self.is_after_all(key.as_ref()) {
            self.add(self.len(), key.into(), value);
            return None;
        }
        match self.find(key.as_ref()) {
            Ok(at) => self.at(at).map(|present| std::mem::replace(present, value)),
            Err(at) => {
                self.add(at, key.into(), value);
                None
            }
        }
    }

    /// Removes a key. Returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key)?;
        Some(self.0.remove(at).1)
    }

    /// Returns the value of a key for changes. An absent key gets the value of `default` first.
    pub fn get_or_insert_with(&mut self, name: &str, default: impl FnOnce() -> Value) -> &mut Value {
        let at = self.find(name).unwrap_or_else(|at| {
            self.add(at, key(name), default());
            at
        });
        &mut self.0.make_mut()[at].1
    }

    /// Removes the members for which the function returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }

    /// Returns the members in the order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Text, &Value)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns the values for changes.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.make_mut().iter_mut().map(|(_, value)| value)
    }

    /// Returns the members for changes of their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Text, &mut Value)> {
        self.0.make_mut().iter_mut().map(|(key, value)| (&*key, value))
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.0 == other.0
    }
}

impl<K: Into<Text>> Extend<(K, Value)> for Map {
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, members: I) {
        for (key, value) in members {
            self.insert(key.into(), value);
        }
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut map = Self::with_capacity(members.size_hint().0);
        map.extend(members);
        map
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = ecow::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m Text, &'m mut Value);
    type IntoIter = std::iter::Map<std::slice::IterMut<'m, (Text, Value)>, AsPairMut<'m>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.make_mut().iter_mut().map(|(key, value)| (key, value))
    }
}

type AsPairMut<'m> = fn(&'m mut (Text, Value)) -> (&'m Text, &'m mut Value);

type AsPair<'m> = fn(&'m (Text, Value)) -> (&'m Text, &'m Value);

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m Text, &'m Value);
    type IntoIter = std::iter::Map<std::slice::Iter<'m, (Text, Value)>, AsPair<'m>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}
