//! Handlers by path.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::conversion::{CONVERSION_PATH, Conversion, ConversionError, ConversionRequest, Converters};
use super::denial::Denial;
use super::request::AdmissionRequest;
use super::review::{self, Decision, ReviewError};
use super::typed::{self, Defaulter, Validator};
use crate::object::Resource;

/// The handlers of a server by path. Paths follow controller-runtime: see [`mutating_path`], [`validating_path`] and
/// [`CONVERSION_PATH`].
#[derive(Default)]
pub struct Hooks(pub(super) BTreeMap<String, Hook>);

/// The handler of a path.
pub(super) enum Hook {
    Admission(AdmissionHook),
    Conversion(Converters),
}

type AdmissionHook = Box<dyn Fn(AdmissionRequest) -> BoxFuture<'static, Decision> + Send + Sync>;

/// The bounds of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) body_bytes: usize,
    pub(super) timeout: Duration,
}

impl Hook {
    pub(super) fn limits(&self) -> Limits {
        match self {
            Self::Admission(_) => Limits {
                // The API server accepts objects of up to 3 MiB, and the review of an update contains two of them.
                body_bytes: 7 * 1024 * 1024,
                // The default `timeoutSeconds` of a webhook.
                timeout: Duration::from_secs(10),
            },
            Self::Conversion(_) => Limits {
                // A list is converted by one review.
                body_bytes: 32 * 1024 * 1024,
                // The timeout of API servers.
                timeout: Duration::from_secs(30),
            },
        }
    }

    /// Returns the review with the response.
    pub(super) async fn review(&self, body: Vec<u8>) -> Result<Bytes, ReviewError> {
        match self {
            Self::Admission(hook) => {
                let request: AdmissionRequest = review::decode(&body)?;
                drop(body);
                let uid = request.uid.clone();
                Ok(review::encode(&uid, hook(request).await))
            }
            Self::Conversion(converters) => {
                let request: ConversionRequest = review::decode(&body)?;
                drop(body);
                Ok(converters.review(request).await)
            }
        }
    }
}

/// Returns the path of the mutating webhook of a resource.
#[must_use]
pub fn mutating_path(resource: &Resource) -> String {
    path("mutate", resource)
}

/// Returns the path of the validating webhook of a resource.
#[must_use]
pub fn validating_path(resource: &Resource) -> String {
    path("validate", resource)
}

fn path(verb: &str, resource: &Resource) -> String {
    let (group, kind) = (resource.group.replace('.', "-"), resource.kind.to_lowercase());
    format!("/{verb}-{group}-{}-{kind}", resource.version)
}

impl Hooks {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the handlers of another set, or replaces those of the same path.
    pub fn extend(&mut self, hooks: Self) {
        self.0.extend(hooks.0);
    }

    /// Adds a mutating handler for `resource`. It returns the operations of a JSON patch (RFC 6902), or none if the object
    /// needs no change. It is not called for requests without an object, such as DELETE. It must be idempotent: the API
    /// server may call it again on the patched object.
    #[must_use]
    pub fn mutating<F, A>(self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<Value>, Denial>> + Send + 'static,
    {
        self.add_mutating(resource, move |request| {
            let patch = hook(request);
            // The text of a value is valid.
            async move { Ok(patch.await?.iter().flat_map(to_raw_value).collect()) }
        })
    }

    fn add_mutating<F, A>(self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<Box<RawValue>>, Denial>> + Send + 'static,
    {
        self.add(mutating_path(resource), move |request| {
            if request.object.is_null() {
                return std::future::ready(Decision::Patch(Vec::new())).boxed();
            }
            let patch = hook(request);
            async move { patch.await.map_or_else(Decision::Deny, Decision::Patch) }.boxed()
        })
    }

    /// Adds a validating handler for `resource`. It returns warnings for an allowed request, or a denial.
    #[must_use]
    pub fn validating<F, A>(self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<String>, Denial>> + Send + 'static,
    {
        self.add(validating_path(resource), move |request| {
            let warnings = hook(request);
            async move { warnings.await.map_or_else(Decision::Deny, Decision::Allow) }.boxed()
        })
    }

    /// Adds a defaulter for the type `K`: a mutating handler whose JSON patch contains only the changes that the defaulter
    /// makes. Fields that `K` does not know stay as they are, also in lists of objects. The elements of a list are matched by
    /// value, then by `name`, then by index, so `K` must keep their order.
    ///
    /// The path is [`mutating_path`] of the resource. Types of closure parameters must be given:
    /// `|boat: &mut Boat, _: &AdmissionRequest| { ... }`.
    #[must_use]
    pub fn with_defaulter<K>(self, defaulter: impl Defaulter<K>) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope: 'static>
            + Serialize
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        let (resource, defaulter) = (Resource::of::<K>(), Arc::new(defaulter));
        self.add_mutating(&resource.clone(), move |request| {
            let (resource, defaulter) = (resource.clone(), defaulter.clone());
            async move { typed::mutate(&*defaulter, &resource, &request).await }
        })
    }

    /// Adds a validator for the type `K`, at [`validating_path`] of the resource. Types of closure parameters must be given:
    /// `|boat: &Boat, _: &AdmissionRequest| { ... }`.
    #[must_use]
    pub fn with_validator<K>(self, validator: impl Validator<K>) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
    {
        let (resource, validator) = (Resource::of::<K>(), Arc::new(validator));
        self.validating(&resource.clone(), move |request| {
            let (resource, validator) = (resource.clone(), validator.clone());
            async move { typed::validate(&*validator, &resource, &request).await }
        })
    }

    /// Adds a handler that converts the objects of a custom resource between its versions, at [`CONVERSION_PATH`]. The version
    /// of `resource` does not matter.
    ///
    /// The handler gets the text of an object and the desired `apiVersion`, and returns the object in this version. It must
    /// keep the metadata except for labels and annotations. It is not called for an object that has this version.
    #[must_use]
    pub fn converting<F>(mut self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(&RawValue, &str) -> Result<Box<RawValue>, ConversionError> + Send + Sync + 'static,
    {
        let path = CONVERSION_PATH.to_owned();
        let entry = self.0.entry(path);
        if let Hook::Conversion(converters) = entry.or_insert_with(|| Hook::Conversion(Converters::default()))
        {
            converters.add(&resource.group, &resource.kind, Box::new(hook));
        }
        self
    }

    /// Adds the conversion between the typed versions of a custom resource, at [`CONVERSION_PATH`].
    #[must_use]
    pub fn with_conversion<H>(self, conversion: Conversion<H>) -> Self
    where
        H: kube::Resource<DynamicType = (), Scope: 'static> + 'static,
    {
        self.converting(&Resource::of::<H>(), move |object, desired| {
            conversion.convert(object, desired)
        })
    }

    fn add<F>(mut self, path: String, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> BoxFuture<'static, Decision> + Send + Sync + 'static,
    {
        self.0.insert(path, Hook::Admission(Box::new(hook)));
        self
    }
}

#[cfg(test)]
impl Hooks {
    /// Returns the decision of an admission handler that does not wait.
    pub(super) fn decide(&self, path: &str, request: AdmissionRequest) -> Decision {
        let Hook::Admission(hook) = &self.0[path] else {
            panic!("not an admission handler");
        };
        hook(request).now_or_never().expect("at once")
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::client::Cause;
    use serde_json::json;

    use std::future::ready;

    const APPS: Resource =
        Resource::namespaced("appcontroller.k8s.io", "v1alpha1", "appservices", "AppService");

    #[test]
    fn paths_are_those_of_controller_runtime() {
        assert_eq!(
            mutating_path(&APPS),
            "/mutate-appcontroller-k8s-io-v1alpha1-appservice"
        );
        assert_eq!(
            validating_path(&Resource::namespaced("", "v1", "pods", "Pod")),
            "/validate--v1-pod"
        );
    }

    fn decide(hooks: &Hooks, path: &str, object: Value) -> Decision {
        let request = AdmissionRequest {
            object: object.into(),
            ..AdmissionRequest::default()
        };
        hooks.decide(path, request)
    }

    #[test]
    fn mutating_handler_is_not_called_without_object() {
        let hooks = Hooks::new().mutating(&APPS, |request| {
            assert!(!request.object.is_null());
            ready(Ok(vec![
                json!({"op": "add", "path": "/spec/replicas", "value": 1}),
            ]))
        });
        let path = mutating_path(&APPS);
        let Decision::Patch(ops) = decide(&hooks, &path, json!({"spec": {}})) else {
            panic!("not a patch");
        };
        assert_eq!(
            json!(ops),
            json!([{"op": "add", "path": "/spec/replicas", "value": 1}])
        );
        let deleted = decide(&hooks, &path, Value::Null);
        assert!(matches!(deleted, Decision::Patch(ops) if ops.is_empty()));
    }

    #[test]
    fn both_kinds_of_handlers_can_deny() {
        let hooks = Hooks::new()
            .mutating(&APPS, |_| ready(Err(Denial::forbidden("no"))))
            .validating(&APPS, |_| ready(Err(Denial::forbidden("no"))));
        for path in [mutating_path(&APPS), validating_path(&APPS)] {
            let denied = decide(&hooks, &path, json!({}));
            assert!(matches!(denied, Decision::Deny(denial) if denial.code == 403));
        }
    }

    #[test]
    fn several_causes_are_listed_in_brackets() {
        let cause = |field: &str| Cause {
            field: field.to_owned(),
            message: "bad".to_owned(),
            ..Cause::default()
        };
        let denial = Denial::invalid("AppService", "web", vec![cause("a"), cause("")]);
        assert_eq!(denial.message, "AppService \"web\" is invalid: [a: bad, bad]");
    }
}
