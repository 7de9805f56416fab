//! The request of an `AdmissionReview`.

use serde::Deserialize;

use super::raw_object::RawObject;
use crate::object::decode::null_is_default;
use crate::serve::User;

/// The request of an `AdmissionReview`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionRequest {
    /// The uid of this review, which the response repeats.
    pub uid: String,
    #[expect(missing_docs, reason = "plain data")]
    pub operation: Operation,
    /// The kind of `object` and `old_object`. Subresources can have another kind than their resource, such as `Scale`.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: GroupVersionKind,
    /// The resource, in a version that the rules of the webhook match.
    #[serde(deserialize_with = "null_is_default")]
    pub resource: GroupVersionResource,
    /// The subresource of the request, such as `status`; empty for the object itself.
    #[serde(deserialize_with = "null_is_default")]
    pub sub_resource: String,
    /// The kind that the client sent. It differs from `kind` if the API server has converted the object for this webhook.
    #[serde(deserialize_with = "null_is_default")]
    pub request_kind: GroupVersionKind,
    /// The resource that the client addressed. It differs from `resource` if the API server has converted the object.
    #[serde(deserialize_with = "null_is_default")]
    pub request_resource: GroupVersionResource,
    /// The subresource that the client addressed.
    #[serde(deserialize_with = "null_is_default")]
    pub request_sub_resource: String,
    /// Empty if the API server will generate the name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Empty for a cluster-scoped object.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The user that sent the request to the API server.
    #[serde(deserialize_with = "null_is_default")]
    pub user_info: User,
    /// Reports whether the change will not be persisted. Then a handler must not have side effects.
    #[serde(deserialize_with = "null_is_default")]
    pub dry_run: bool,
    /// The new object; null for DELETE.
    pub object: RawObject,
    /// The existing object; null for CREATE.
    pub old_object: RawObject,
    /// The options of the operation, such as `CreateOptions`; null without any.
    pub options: RawObject,
}

/// The operation of an admission request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "plain data")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
    #[default]
    #[serde(other)]
    Unknown,
}

/// The kind of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct GroupVersionKind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A resource by its plural name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "plain data")]
pub struct GroupVersionResource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// For example `pods`.
    pub resource: String,
}
