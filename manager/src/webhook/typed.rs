//! Typed admission handlers: [`Defaulter`] and [`Validator`].
//!
//! A request that a typed handler cannot evaluate is denied with 400: an object that does not decode, another kind than
//! that of the handler, an operation without a method. It is not left to the `failurePolicy` of the webhook: with `Ignore`
//! such an object would bypass the handler, and with `Fail` the client would not get the reason.

mod decode;
mod patch;
#[cfg(test)]
mod tests;

use std::future::ready;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

pub use self::decode::DecodeError;
pub(super) use self::decode::decode;
pub(super) use self::patch::{for_each_field, merge};
use super::denial::Denial;
use super::raw_object::RawObject;
use super::request::{AdmissionRequest, Operation};
use crate::object::Resource;

/// Sets defaults in objects of the type `K`, see [`Hooks::with_defaulter`](super::Hooks::with_defaulter).
///
/// A closure `Fn(&mut K, &AdmissionRequest) -> Result<(), Denial>` is a defaulter.
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object of a request, or denies the request. It must be idempotent: the API server may call it again on
    /// the changed object.
    fn default(
        &self,
        object: &mut K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<(), Denial>> + Send;
}

/// Validates objects of the type `K`, see [`Hooks::with_validator`](super::Hooks::with_validator).
///
/// Each method returns warnings for an allowed request, or a denial.
///
/// A closure `Fn(&K, &AdmissionRequest) -> Result<Vec<String>, Denial>` is a validator of the new object of creates and
/// updates. It allows deletes.
pub trait Validator<K>: Send + Sync + 'static {
    /// Validates a new object.
    fn validate_create(
        &self,
        object: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Vec<String>, Denial>> + Send;

    /// Validates an update from `old` to `new`, also one of a subresource, such as `status`, if the rules of the webhook
    /// contain it.
    fn validate_update(
        &self,
        old: &K,
        new: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Vec<String>, Denial>> + Send;

    /// Validates the deletion of an object. Allows it by default.
    fn validate_delete(
        &self,
        object: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Vec<String>, Denial>> + Send {
        let _ = (object, request);
        ready(Ok(Vec::new()))
    }
}

impl<K, F> Defaulter<K> for F
where
    F: Fn(&mut K, &AdmissionRequest) -> Result<(), Denial> + Send + Sync + 'static,
{
    fn default(
        &self,
        object: &mut K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<(), Denial>> + Send {
        ready(self(object, request))
    }
}

impl<K, F> Validator<K> for F
where
    F: Fn(&K, &AdmissionRequest) -> Result<Vec<String>, Denial> + Send + Sync + 'static,
{
    fn validate_create(
        &self,
        object: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Vec<String>, Denial>> + Send {
        ready(self(object, request))
    }

    fn validate_update(
        &self,
        _: &K,
        new: &K,
        request: &AdmissionRequest,
    ) -> impl Future<Output = Result<Vec<String>, Denial>> + Send {
        ready(self(new, request))
    }
}

/// Returns the JSON patch of a defaulter.
pub(super) async fn mutate<K: Serialize + DeserializeOwned>(
    defaulter: &impl Defaulter<K>,
    resource: &Resource,
    request: &AdmissionRequest,
) -> Result<Vec<Box<RawValue>>, Denial> {
    check_kind(resource, request)?;
    let mut object: K = decode_object(resource, "object", &request.object)?;
    let before = encode(resource, &object)?;
    defaulter.default(&mut object, request).await?;
    let after = encode(resource, &object)?;
    Ok(patch::patch(request.object.get(), before.get(), after.get()))
}

/// Returns the warnings of a validator.
pub(super) async fn validate<K: DeserializeOwned>(
    validator: &impl Validator<K>,
    resource: &Resource,
    request: &AdmissionRequest,
) -> Result<Vec<String>, Denial> {
    check_kind(resource, request)?;
    let new = || decode_object(resource, "object", &request.object);
    let old = || decode_object(resource, "old object", &request.old_object);
    match request.operation {
        Operation::Create => validator.validate_create(&new()?, request).await,
        Operation::Update => validator.validate_update(&old()?, &new()?, request).await,
        Operation::Delete => validator.validate_delete(&old()?, request).await,
        Operation::Connect | Operation::Unknown => Err(Denial::bad_request(
            "the webhook handles CREATE, UPDATE and DELETE; its rules must not contain other operations",
        )),
    }
}

/// Denies other kinds, such as the `Scale` of a subresource.
fn check_kind(resource: &Resource, request: &AdmissionRequest) -> Result<(), Denial> {
    let kind = &request.kind;
    if resource.group == kind.group && resource.version == kind.version && resource.kind == kind.kind {
        return Ok(());
    }
    let message = format!(
        "the webhook handles {} of {}; its rules must not contain other kinds or versions, or subresources of another kind",
        resource.kind,
        resource.api_version()
    );
    Err(Denial::bad_request(message))
}

fn decode_object<K: DeserializeOwned>(
    resource: &Resource,
    field: &str,
    object: &RawObject,
) -> Result<K, Denial> {
    object.decode().map_err(|error| {
        let (kind, version) = (&resource.kind, resource.api_version());
        Denial::bad_request(format!("the {field} is not a valid {kind} of {version}: {error}"))
    })
}

fn encode<K: Serialize>(resource: &Resource, object: &K) -> Result<Box<RawValue>, Denial> {
    // Fails for a map whose keys are not text, which is a programming error. The error may quote the object.
    to_raw_value(object)
        .map_err(|_| Denial::bad_request(format!("the {} cannot be encoded as JSON", resource.kind)))
}
