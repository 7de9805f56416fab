//! The path of a value during a traversal. It lives on the stack, and is formatted only for errors.

use std::fmt;

/// A path, as a chain of parents.
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// The object itself.
    Root,
    /// The formatted path of the object.
    Prefix(&'a str),
    Child(&'a Path<'a>, &'a str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    pub fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// Returns the path of a child for a field error.
    pub fn at(&self, name: &str) -> String {
        Path::Child(self, name).field()
    }

    /// Returns the path for a field error: the server calls the root of an object `<nil>`.
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
