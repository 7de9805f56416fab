//! Access by key or index. An absent value reads as null; a write creates it.

use std::ops::{Index, IndexMut};

use super::{Map, Value};

static NULL: Value = Value::Null;

impl Value {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// Returns the value of a key for changes.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(key)
    }
}

impl<K: AsRef<str> + ?Sized> Index<&K> for Value {
    type Output = Self;

    fn index(&self, key: &K) -> &Self {
        self.get(key.as_ref()).unwrap_or(&NULL)
    }
}

impl Index<usize> for Value {
    type Output = Self;

    fn index(&self, index: usize) -> &Self {
        self.as_array()
            .and_then(|items| items.get(index))
            .unwrap_or(&NULL)
    }
}

impl<K: AsRef<str> + ?Sized> IndexMut<&K> for Value {
    /// Sets `null` to an object first.
    ///
    /// # Panics
    /// If the value is neither an object nor `null`.
    fn index_mut(&mut self, key: &K) -> &mut Self {
        if self.is_null() {
            *self = Map::new().into();
        }
        match self {
            Self::Object(map) => map.get_or_insert_with(key.as_ref(), || Self::Null),
            _ => panic!("the value is not an object"),
        }
    }
}
