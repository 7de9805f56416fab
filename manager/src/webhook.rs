//! Webhooks: an HTTPS server for the admission and conversion reviews of the API server.
//!
//! - [`Hooks`]: the handlers by path. If a handler panics or times out, the server returns an error status, and the
//!   `failurePolicy` of the webhook applies.
//!   - Typed: [`Defaulter`], [`Validator`] and, for custom resources with several versions, [`Convertible`].
//!   - Untyped, for kinds that are known only at run time: [`Hooks::mutating`], [`Hooks::validating`], [`Hooks::converting`].
//! - [`Certificates`]: the serving certificate, from files or issued by the leader. The leader stores it in one Secret,
//!   renews it after two thirds of its validity, and injects the `caBundle` into the webhook configurations. Every replica
//!   loads it when the Secret changes. A replica never serves a certificate that the injected `caBundle` does not verify.
//!   The `caBundle` of a conversion webhook, in its CRD, is not injected.
//! - [`Server`]: the listener.
//!
//! Controllers must not rely on webhooks for validation: objects can predate a webhook or bypass it.
//!
//! Any client that can reach the port can send a review, so a handler must not reveal data that the request does not
//! contain. Body sizes, durations and concurrency are bounded, the bytes of all bodies are shared fairly between client
//! addresses, and objects stay texts until a handler decodes the fields that it needs ([`RawObject`]).
//!
//! # Defaulting and validation
//!
//! The kind is a type of `k8s-openapi` or of a `#[derive(CustomResource)]`. A closure does for a simple handler; a handler
//! that waits, or that treats operations differently, implements a trait.
//!
//! ```
//! use steersman_manager::client::Cause;
//! use steersman_manager::webhook::{AdmissionRequest, Denial, Hooks, Validator};
//! use k8s_openapi::api::core::v1::{ConfigMap, Service};
//!
//! struct ImmutableMaps;
//!
//! impl Validator<ConfigMap> for ImmutableMaps {
//!     async fn validate_create(&self, _: &ConfigMap, _: &AdmissionRequest) -> Result<Vec<String>, Denial> {
//!         Ok(Vec::new())
//!     }
//!
//!     async fn validate_update(
//!         &self,
//!         old: &ConfigMap,
//!         new: &ConfigMap,
//!         request: &AdmissionRequest,
//!     ) -> Result<Vec<String>, Denial> {
//!         if old.data != new.data {
//!             let cause = Cause {
//!                 reason: "FieldValueForbidden".to_owned(),
//!                 message: "field is immutable".to_owned(),
//!                 field: "data".to_owned(),
//!             };
//!             return Err(Denial::invalid("ConfigMap", &request.name, vec![cause]));
//!         }
//!         Ok(Vec::new())
//!     }
//!
//!     async fn validate_delete(&self, map: &ConfigMap, request: &AdmissionRequest) -> Result<Vec<String>, Denial> {
//!         if map.metadata.finalizers.is_some() && !request.user_info.is_in("system:masters") {
//!             return Err(Denial::forbidden("only administrators may delete a ConfigMap with finalizers"));
//!         }
//!         Ok(vec!["the ConfigMap may still be in use".to_owned()])
//!     }
//! }
//!
//! let hooks = Hooks::new()
//!     .with_validator(ImmutableMaps)
//!     // The patch contains only the changes: fields that `Service` does not know stay.
//!     .with_defaulter(|service: &mut Service, _: &AdmissionRequest| {
//!         let spec = service.spec.get_or_insert_default();
//!         spec.ip_family_policy.get_or_insert_with(|| "PreferDualStack".to_owned());
//!         Ok(())
//!     });
//! # let _ = hooks;
//! ```
//!
//! # Conversion
//!
//! One version of a custom resource is the hub. The others convert to and from it.
//!
//! ```
//! use steersman_manager::webhook::{Conversion, ConversionError, Convertible, Hooks};
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use serde::{Deserialize, Serialize};
//! # macro_rules! custom_resource {
//! #     ($name:ident, $version:literal) => {
//! #         impl kube::Resource for $name {
//! #             type DynamicType = ();
//! #             type Scope = k8s_openapi::NamespaceResourceScope;
//! #             fn kind((): &()) -> std::borrow::Cow<'_, str> { "Boat".into() }
//! #             fn group((): &()) -> std::borrow::Cow<'_, str> { "harbour.example".into() }
//! #             fn version((): &()) -> std::borrow::Cow<'_, str> { $version.into() }
//! #             fn plural((): &()) -> std::borrow::Cow<'_, str> { "boats".into() }
//! #             fn meta(&self) -> &ObjectMeta { &self.metadata }
//! #             fn meta_mut(&mut self) -> &mut ObjectMeta { &mut self.metadata }
//! #         }
//! #     };
//! # }
//!
//! /// Version v1 of the kind Boat in harbour.example.
//! #[derive(Serialize, Deserialize)]
//! struct BoatV1 {
//!     metadata: ObjectMeta,
//!     oars: u32,
//! }
//! # custom_resource!(BoatV1, "v1");
//!
//! /// Version v2, the hub.
//! #[derive(Serialize, Deserialize)]
//! struct BoatV2 {
//!     metadata: ObjectMeta,
//!     pairs: u32,
//! }
//! # custom_resource!(BoatV2, "v2");
//!
//! impl Convertible<BoatV2> for BoatV1 {
//!     fn convert_to(self) -> Result<BoatV2, ConversionError> {
//!         if self.oars % 2 == 1 {
//!             return Err(ConversionError::new("the number of oars must be even"));
//!         }
//!         Ok(BoatV2 { metadata: self.metadata, pairs: self.oars / 2 })
//!     }
//!
//!     fn convert_from(hub: BoatV2) -> Result<Self, ConversionError> {
//!         Ok(Self { metadata: hub.metadata, oars: hub.pairs * 2 })
//!     }
//! }
//!
//! let conversion = Conversion::<BoatV2>::new().version::<BoatV1>();
//! let hooks = Hooks::new().with_conversion(conversion);
//! # let _ = hooks;
//! ```

mod buffer;
mod certificates;
mod conversion;
mod denial;
mod handler;
mod hooks;
mod metrics;
mod raw_object;
mod request;
mod review;
mod server;
#[cfg(test)]
mod tests;
mod typed;

pub use certificates::{Certificates, InvalidServiceName, ServiceCertificate, ServiceName, Source};
pub use conversion::{CONVERSION_PATH, Conversion, ConversionError, Convertible};
pub use denial::Denial;
pub use hooks::{Hooks, mutating_path, validating_path};
pub use raw_object::RawObject;
pub use request::{AdmissionRequest, GroupVersionKind, GroupVersionResource, Operation};
pub use server::{Server, WebhookError};
pub use typed::{DecodeError, Defaulter, Validator};
