//! The key of an object within its resource.

use std::fmt;

use super::Text;
use crate::queue::Item;

/// Namespace and name. The namespace of a cluster-scoped object is empty.
#[expect(missing_docs, reason = "plain data")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: Text,
    pub name: Text,
}

impl Key {
    /// Returns the key of a namespaced object.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the key of an object. Its parts are empty if the object does not have them.
    pub fn of(object: &impl kube::Resource) -> Self {
        let meta = object.meta();
        let part = |part: &Option<String>| part.as_deref().unwrap_or_default().into();
        Self {
            namespace: part(&meta.namespace),
            name: part(&meta.name),
        }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Text>) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl Item for Key {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}
