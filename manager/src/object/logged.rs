//! Objects in log events.

use std::fmt;

use super::{Key, Resource};

/// An object in a log event. Every event records its object as `object = %resource.logged(&key)`, so that a subscriber can
/// write all of them in one form.
///
/// It is displayed as `Pod/default/web`, without a namespace as `Node/worker-1`. None of the parts can contain a slash.
#[derive(Clone, Copy, Debug)]
pub struct LoggedObject<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> LoggedObject<'a> {
    #[expect(missing_docs, reason = "plain constructor")]
    #[must_use]
    pub fn new(kind: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self {
            kind,
            namespace,
            name,
        }
    }

    /// Parses the displayed form. Returns none for any other text.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        (!name.is_empty() && !name.contains('/')).then_some(Self {
            kind,
            namespace,
            name,
        })
    }

    /// Returns the kind; empty if it is unknown.
    #[must_use]
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    /// Returns the namespace; empty for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.namespace
    }

    #[expect(missing_docs, reason = "plain accessor")]
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }
}

impl Resource {
    /// Returns an object of this resource for a log event.
    #[must_use]
    pub fn logged<'a>(&'a self, key: &'a Key) -> LoggedObject<'a> {
        key.logged(&self.kind)
    }
}

impl Key {
    /// Returns the object of this kind for a log event.
    #[must_use]
    pub fn logged<'a>(&'a self, kind: &'a str) -> LoggedObject<'a> {
        LoggedObject::new(kind, &self.namespace, &self.name)
    }
}

impl fmt::Display for LoggedObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_object_is_parsed() {
        let parse =
            |text: &'static str| LoggedObject::parse(text).map(|it| (it.kind(), it.namespace(), it.name()));
        assert_eq!(parse("Pod/default/web"), Some(("Pod", "default", "web")));
        assert_eq!(parse("Node/a"), Some(("Node", "", "a")));
        assert_eq!(parse("/ns/a"), Some(("", "ns", "a")));
        for other in ["", "web", "Pod/", "Pod/a/", "Pod/a/b/c"] {
            assert_eq!(parse(other), None, "{other}");
        }
        for text in ["Pod/default/web", "Node/a"] {
            let parsed = LoggedObject::parse(text).expect("an object");
            assert_eq!(parsed.to_string(), text);
        }
    }
}
