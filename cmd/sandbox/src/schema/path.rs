//! The path of a value in a body. It lives on the stack of the walk and allocates only when it is formatted.

use std::fmt;

/// A place, as a chain back to the root.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The body itself.
    Root,
    /// A field of an object, or a key of a map.
    Key { parent: &'a Path<'a>, key: &'a str },
    /// An item of a list.
    Index { parent: &'a Path<'a>, index: usize },
}

impl<'a> Path<'a> {
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self::Key { parent: self, key }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self::Index { parent: self, index }
    }
}

/// `spec.template.spec.containers[0].image`
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Root => Ok(()),
            Self::Index { parent, index } => write!(f, "{parent}[{index}]"),
            Self::Key { parent, key } => match parent {
                Path::Root => f.write_str(key),
                parent => write!(f, "{parent}.{key}"),
            },
        }
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

/// Paths to report, in the order they were met. The server stops at a hundred and names none twice; so do we, or a hostile
/// body could make its answer larger than itself.
#[derive(Default)]
pub(super) struct Reported(Vec<String>);

impl Reported {
    const MOST: usize = 100;

    pub(super) fn add(&mut self, path: &Path<'_>) {
        if self.0.len() < Self::MOST {
            let path = path.to_string();
            if !self.0.contains(&path) {
                self.0.push(path);
            }
        }
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
