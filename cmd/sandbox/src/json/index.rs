//! Access by key or index. An absent value reads as null; a write creates it.

use std::ops;

use super::{Map, NULL, Text, Value};

/// A key of an object or an index of a list.
pub trait Index {
    /// Returns the value, if it exists.
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// Returns the value for changes, if it exists.
    fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
}

impl Index for str {
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }
}

impl Index for usize {
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.make_mut().get_mut(*self)
    }
}

macro_rules! key {
    ($ty:ty) => {
        impl Index for $ty {
            fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                Index::find(self.as_str(), value)
            }

            fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                Index::find_mut(self.as_str(), value)
            }
        }
    };
}

key!(String);
key!(Text);

impl<T: Index + ?Sized> Index for &T {
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).find(value)
    }

    fn find_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).find_mut(value)
    }
}

impl Value {
    /// Returns the value of a key or an index.
    pub fn get(&self, index: impl Index) -> Option<&Value> {
        index.find(self)
    }

    /// Returns the value of a key or an index for changes.
    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Value> {
        index.find_mut(self)
    }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        index.find(self).unwrap_or(&NULL)
    }
}

impl ops::IndexMut<&str> for Value {
    /// Sets `null` to an object first.
    ///
    /// # Panics
    /// If the value is neither an object nor `null`.
    fn index_mut(&mut self, key: &str) -> &mut Value {
        if self.is_null() {
            *self = Map::new().into();
        }
        match self {
            Self::Object(map) => map.get_or_insert_with(key, || Value::Null),
            _ => panic!("the value is not an object"),
        }
    }
}

impl ops::IndexMut<usize> for Value {
    /// # Panics
    /// If the value is not a list with this index.
    fn index_mut(&mut self, index: usize) -> &mut Value {
        self.get_mut(index).expect("a list with this index")
    }
}
