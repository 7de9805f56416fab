//! API resources and the paths of their objects.

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Key;
use crate::queue::Item;

/// The characters of a path segment that need percent-encoding.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A resource: group, version, plural name and kind.
#[expect(missing_docs, reason = "as in discovery")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    /// For example `pods`.
    pub plural: Cow<'static, str>,
    /// For example `Pod`.
    pub kind: Cow<'static, str>,
    pub namespaced: bool,
}

impl Item for Resource {}

impl Resource {
    /// Returns a namespaced resource.
    #[must_use]
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced: true,
        }
    }

    /// Returns a cluster-scoped resource.
    #[must_use]
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        let mut resource = Self::namespaced(group, version, plural, kind);
        resource.namespaced = false;
        resource
    }

    /// Returns the resource of a type of `k8s-openapi` or of a `#[derive(CustomResource)]`.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = (), Scope: 'static>>() -> Self {
        Self {
            group: Cow::Owned(K::group(&()).into_owned()),
            version: Cow::Owned(K::version(&()).into_owned()),
            plural: Cow::Owned(K::plural(&()).into_owned()),
            kind: Cow::Owned(K::kind(&()).into_owned()),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<k8s_openapi::NamespaceResourceScope>(),
        }
    }

    /// Returns `group/version`, or the version alone for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of the collection in a namespace, or in all namespaces if that is empty.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let mut path = format!("/{root}/{}", self.api_version());
        if !namespace.is_empty() {
            path.extend(
                ["/namespaces/"]
                    .into_iter()
                    .chain(utf8_percent_encode(namespace, SEGMENT)),
            );
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// Returns the path of one object.
    #[must_use]
    pub fn path(&self, key: &Key) -> String {
        let mut path = self.collection(&key.namespace);
        path.push('/');
        path.extend(utf8_percent_encode(&key.name, SEGMENT));
        path
    }
}

/// As `kubectl` writes it: `pods`, `replicasets.apps`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::{Node, Pod};

    #[test]
    fn resource_of_a_type_has_its_paths() {
        assert_eq!(
            Resource::of::<Pod>(),
            Resource::namespaced("", "v1", "pods", "Pod")
        );
        assert_eq!(
            Resource::of::<Node>(),
            Resource::cluster("", "v1", "nodes", "Node")
        );
        let sets = Resource::of::<ReplicaSet>();
        assert_eq!(sets.collection(""), "/apis/apps/v1/replicasets");
        assert_eq!(
            sets.path(&Key::new("a", "b")),
            "/apis/apps/v1/namespaces/a/replicasets/b"
        );
        assert_eq!(sets.to_string(), "replicasets.apps");
        assert_eq!(Resource::of::<Pod>().to_string(), "pods");
    }

    #[test]
    fn names_are_percent_encoded_in_paths() {
        let pods = Resource::of::<Pod>();
        assert_eq!(
            pods.path(&Key::new("../x", "a/b?c=d#é")),
            "/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc%3Dd%23%C3%A9"
        );
    }
}
