//! What the server knows about each kind: the table of built-in resources, and the rules of every kind.
//!
//! The rules are pure functions over JSON. They are called with objects that were decoded against the kind's
//! schema (right types, no unknown fields, no nulls), in this order:
//!
//! - every write: [`default`] on the decoded object, in the version it was sent in;
//! - create: system metadata (uid, creationTimestamp, name from generateName) is filled in, then [`prepare_create`],
//!   then [`validate_create`];
//! - update: [`prepare_update`], then [`validate_update`];
//! - update of `/status`: [`prepare_status`], then [`validate_status`].
//!
//! Nothing here looks at other objects, at the clock or at the store; whoever calls does (namespaces, cluster IPs,
//! resource versions).

mod table;

use serde_json::Value;

use crate::field::FieldError;
use crate::resource::Resource;

pub use table::all;

/// Who is deleted with an owner when the request says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents stay and lose the reference.
    Orphan,
    /// Dependents are collected after the owner is gone.
    Background,
}

/// Fills in what the server fills in while it decodes an object.
pub fn default(_res: &Resource, _obj: &mut Value) {}

/// Clears and sets what clients may not choose when they create. Name and uid must be known by now.
pub fn prepare_create(_res: &Resource, _obj: &mut Value) {}

/// Keeps what an update of the main endpoint may not touch, and counts the generation.
pub fn prepare_update(_res: &Resource, _old: &Value, _new: &mut Value) {}

/// Keeps what an update of the status endpoint may not touch.
pub fn prepare_status(_res: &Resource, _old: &Value, _new: &mut Value) {}

/// What is wrong with a new object; empty if nothing is.
#[must_use]
pub fn validate_create(_res: &Resource, _obj: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with an update of the main endpoint.
#[must_use]
pub fn validate_update(_res: &Resource, _old: &Value, _new: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// What is wrong with an update of the status endpoint.
#[must_use]
pub fn validate_status(_res: &Resource, _old: &Value, _new: &Value) -> Vec<FieldError> {
    Vec::new()
}

/// The fields of an object (as served by `res`) that field selectors can ask for.
#[must_use]
pub fn selectable_fields(_res: &Resource, _obj: &Value) -> Vec<(&'static str, String)> {
    Vec::new()
}

/// Whether field selectors may name this field.
#[must_use]
pub fn supports_field(_res: &Resource, _label: &str) -> bool {
    false
}

/// Turns an object of the served version into the one that is stored.
pub fn to_stored(_res: &Resource, _obj: &mut Value) {}

/// Turns a stored object into the served version.
pub fn from_stored(_res: &Resource, _obj: &mut Value) {}

/// Who goes with the owner when a delete request does not say.
#[must_use]
pub fn default_propagation(_res: &Resource) -> Propagation {
    Propagation::Background
}

/// What a delete request that relied on the default is warned of.
#[must_use]
pub fn propagation_warning(_res: &Resource) -> Option<&'static str> {
    None
}

/// Kinds that never wait for the garbage collector, whatever the request asks for.
#[must_use]
pub fn never_gets_gc_finalizers(_res: &Resource) -> bool {
    false
}

/// Whether PUT to a name that does not exist creates the object.
#[must_use]
pub fn allows_create_on_update(_res: &Resource) -> bool {
    false
}

/// Whether PUT without a resourceVersion overwrites whatever is there.
#[must_use]
pub fn allows_unconditional_update(_res: &Resource) -> bool {
    true
}
