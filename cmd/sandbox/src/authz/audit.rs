//! A record of authorization decisions.

use crate::authn::User;
use crate::authz::{Attributes, On};

/// A function that receives each authorization decision. Requests wait for it.
pub type Audit = Box<dyn Fn(&AuditRecord<'_>) + Send + Sync>;

/// A decision on a request, or on a permission that an admission plugin requires. Fields that do not apply are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the attributes of a SubjectAccessReview")]
pub struct AuditRecord<'a> {
    pub user: &'a str,
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The path of a request that is not for a resource, such as `/version`.
    pub path: &'a str,
    pub allowed: bool,
}

impl<'a> AuditRecord<'a> {
    pub(crate) fn new(user: &'a User, wanted: &'a Attributes, allowed: bool) -> Self {
        let none = Self {
            user: &user.name,
            verb: &wanted.verb,
            group: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: "",
            allowed,
        };
        match &wanted.on {
            On::Path(path) => Self { path, ..none },
            On::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => Self {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..none
            },
        }
    }
}
