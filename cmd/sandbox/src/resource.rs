//! A resource: the content of one path, of one group and version, built in or defined by a CRD.

use std::sync::Arc;

use crate::apiextensions::structural::Schema;
use crate::json::Value;
use crate::schema::TypeRef;
use crate::storage::Object;

/// One served resource.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group, empty for core.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Kind of lists, such as `PodList`.
    pub list_kind: String,
    /// Plural name as in paths, such as `pods`.
    pub plural: String,
    /// Singular name, such as `pod`.
    pub singular: String,
    /// Short names, such as `po`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether there is a `/status` subresource.
    pub status: bool,
    /// Where the `/scale` subresource finds its numbers, if there is one.
    pub scale: Option<Scale>,
    /// Name of the collection in the store. Several resources may share one: `events` of core and of events.k8s.io,
    /// or the versions of a CRD.
    pub collection: String,
    /// `apiVersion` of the objects as they are stored in that collection.
    pub stored_as: String,
    /// The type of a built-in kind.
    pub schema: Option<TypeRef>,
    /// The additional data of custom resources.
    pub custom: Option<Arc<Custom>>,
}

/// Paths of the scale subresource, as dotted JSON paths without a leading dot (`spec.replicas`).
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Where the desired number stands.
    pub spec_replicas: String,
    /// Where the observed number stands.
    pub status_replicas: String,
    /// Where a custom resource keeps its selector as a string; built-in kinds compute theirs.
    pub selector: Option<String>,
}

/// One version of a CRD.
#[derive(Debug, Clone)]
pub struct Custom {
    /// Name of the CRD.
    pub crd: String,
    /// Its uid: one that is deleted and created again is another one.
    pub uid: String,
    /// `openAPIV3Schema` of the version, if it has one.
    pub openapi: Option<Value>,
    /// The schema of this version.
    pub schema: Arc<Schema>,
    /// The schema of the version that is stored.
    pub stored: Arc<Schema>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<PrinterColumn>,
    /// `selectableFields`, as dotted paths without a leading dot.
    pub selectable: Vec<String>,
    /// A hash of the CRD's spec and accepted names. The handler's storage is replaced when it changes.
    pub revision: u64,
    /// Whether the CRD is going away: nothing new is made of it.
    pub terminating: bool,
}

/// One printer column of a CRD.
#[derive(Debug, Clone, PartialEq)]
pub struct PrinterColumn {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `OpenAPI` format, may be empty.
    pub format: String,
    /// Description, may be empty.
    pub description: String,
    /// 0 is shown always, more only in wide output.
    pub priority: i64,
    /// JSON path, such as `.spec.replicas`.
    pub json_path: String,
}

impl Custom {
    /// Whether an object that was written under the schema `shape` is as this version shows it.
    #[must_use]
    pub fn keeps(&self, shape: u64) -> bool {
        shape == self.stored.id() && shape == self.schema.id()
    }
}

impl Resource {
    /// Whether an object is served as it is stored.
    #[must_use]
    pub fn serves_as_stored(&self, object: &Object) -> bool {
        let stored = object.value();
        let version = stored["apiVersion"].as_str().unwrap_or_default();
        let group = version.strip_suffix(self.version.as_str());
        group.is_some_and(|group| group.strip_suffix('/').unwrap_or(group) == self.group)
            && stored["kind"] == self.kind.as_str()
            && self
                .custom
                .as_ref()
                .is_none_or(|custom| custom.keeps(object.shape))
    }

    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether it is a question that is answered and not stored: it can be created, and nothing else.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.custom.is_none()
            && matches!(
                self.group.as_str(),
                "authentication.k8s.io" | "authorization.k8s.io"
            )
    }

    /// Whether clients can only get and list it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.custom.is_none() && self.collection == "componentstatuses"
    }

    /// `pods` or `deployments.apps`, as error messages name a resource.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}
