//! Where a walk over an object is. A path lives on the stack of the walk, and costs nothing until it is written.

use std::fmt;

/// A place, as a chain back to the root.
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// Nothing in front: what stands here is the object itself.
    Root,
    /// A path that is written already, in front of the object.
    Prefix(&'a str),
    /// A field: `parent.name`.
    Child(&'a Path<'a>, &'a str),
    /// A key of a map: `parent[key]`.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list: `parent[3]`.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The field below.
    pub fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    /// The entry of a map below.
    pub fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    /// The item below.
    pub fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// The path of a field error: the server calls the root of an object `<nil>`.
    pub fn field(&self) -> String {
        match self.to_string() {
            path if path.is_empty() => "<nil>".to_owned(),
            path => path,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Root => Ok(()),
            Self::Prefix(text) => f.write_str(text),
            Self::Child(Self::Root | Self::Prefix(""), name) => f.write_str(name),
            Self::Child(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
