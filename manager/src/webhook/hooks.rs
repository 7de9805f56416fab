//! Who decides: mutating hooks, which change an object, and validating ones, which say whether it may be.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::review::{AdmissionRequest, Verdict};
use crate::client::Cause;
use crate::object::Resource;

/// The hooks of a server, by their paths. Those are as controller-runtime names them: see [`mutating_path`] and
/// [`validating_path`].
#[derive(Default)]
pub struct Hooks(pub(super) BTreeMap<String, Hook>);

/// From a request to its verdict.
pub(super) type Hook = Box<dyn Fn(AdmissionRequest) -> BoxFuture<'static, Verdict> + Send + Sync>;

/// Why a request is not admitted. Whoever sent it reads this, after the name of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code, from 400 up.
    pub code: u16,
    /// The reason in one word, as in a `Status`: `Invalid`, `Forbidden`.
    pub reason: &'static str,
    /// The reason in a sentence.
    pub message: String,
    /// What is wrong, field by field.
    pub causes: Vec<Cause>,
    /// What should be known besides.
    pub warnings: Vec<String>,
}

/// The path of the mutating hook of a resource.
#[must_use]
pub fn mutating_path(resource: &Resource) -> String {
    path("mutate", resource)
}

/// The path of the validating hook of a resource.
#[must_use]
pub fn validating_path(resource: &Resource) -> String {
    path("validate", resource)
}

fn path(verb: &str, resource: &Resource) -> String {
    let (group, kind) = (resource.group.replace('.', "-"), resource.kind.to_lowercase());
    format!("/{verb}-{group}-{}-{kind}", resource.version)
}

impl Hooks {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the hook that changes an object of `resource`: it gives the operations of a JSON patch (RFC 6902), none if the
    /// object is as it should be. It is asked only where there is an object, and may be asked again about its own answer:
    /// that must change nothing.
    #[must_use]
    pub fn mutating<F, A>(self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<Value>, Denial>> + Send + 'static,
    {
        self.add(mutating_path(resource), move |request| {
            if request.object.is_null() {
                return std::future::ready(Verdict::Changed(Vec::new())).boxed();
            }
            let changed = hook(request);
            async move { changed.await.map_or_else(Verdict::Refused, Verdict::Changed) }.boxed()
        })
    }

    /// Adds the hook that says whether an object of `resource` may be written, or deleted, and what to warn of if it may.
    #[must_use]
    pub fn validating<F, A>(self, resource: &Resource, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Vec<String>, Denial>> + Send + 'static,
    {
        self.add(validating_path(resource), move |request| {
            let judged = hook(request);
            async move { judged.await.map_or_else(Verdict::Refused, Verdict::Admitted) }.boxed()
        })
    }

    fn add<F>(mut self, path: String, hook: F) -> Self
    where
        F: Fn(AdmissionRequest) -> BoxFuture<'static, Verdict> + Send + Sync + 'static,
    {
        self.0.insert(path, Box::new(hook));
        self
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Denial {
    /// The object is not as it has to be: 422, worded as the API server does it.
    #[must_use]
    pub fn invalid(kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        let texts = causes.iter().map(|Cause { field, message, .. }| {
            if field.is_empty() {
                message.clone()
            } else {
                format!("{field}: {message}")
            }
        });
        let texts: Vec<_> = texts.collect();
        let texts = match texts.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{kind} {name:?} is invalid: {texts}"),
            causes,
            warnings: Vec::new(),
        }
    }

    /// It must not be done: 403.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self {
            code: 403,
            reason: "Forbidden",
            message: message.into(),
            causes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// As a `Status` says it.
    pub(super) fn status(&self) -> Value {
        let Self {
            code,
            reason,
            message,
            causes,
            warnings: _,
        } = self;
        let mut status = json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        if !causes.is_empty() {
            let causes = causes.iter().map(
                |Cause {
                     reason,
                     message,
                     field,
                 }| json!({"reason": reason, "message": message, "field": field}),
            );
            status["details"] = json!({"causes": causes.collect::<Vec<_>>()});
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn asked(hooks: &Hooks, path: &str, object: Value) -> Verdict {
        let request = AdmissionRequest {
            object,
            ..AdmissionRequest::default()
        };
        hooks.0[path](request).now_or_never().expect("at once")
    }

    #[test]
    fn a_mutating_hook_is_not_asked_about_nothing() {
        let hooks = Hooks::new().mutating(&APPS, |request| {
            assert!(!request.object.is_null());
            ready(Ok(vec![
                json!({"op": "add", "path": "/spec/replicas", "value": 1}),
            ]))
        });
        let path = mutating_path(&APPS);
        let Verdict::Changed(ops) = asked(&hooks, &path, json!({"spec": {}})) else {
            panic!("it is changed");
        };
        assert_eq!(
            json!(ops),
            json!([{"op": "add", "path": "/spec/replicas", "value": 1}])
        );
        let deleted = asked(&hooks, &path, Value::Null);
        assert!(matches!(deleted, Verdict::Changed(ops) if ops.is_empty()));
    }

    #[test]
    fn either_kind_may_refuse() {
        let hooks = Hooks::new()
            .mutating(&APPS, |_| ready(Err(Denial::forbidden("no"))))
            .validating(&APPS, |_| ready(Err(Denial::forbidden("no"))));
        for path in [mutating_path(&APPS), validating_path(&APPS)] {
            let refused = asked(&hooks, &path, json!({}));
            assert!(matches!(refused, Verdict::Refused(refusal) if refusal.code == 403));
        }
    }

    #[test]
    fn several_causes_are_a_list() {
        let cause = |field: &str| Cause {
            field: field.to_owned(),
            message: "bad".to_owned(),
            ..Cause::default()
        };
        let refusal = Denial::invalid("AppService", "web", vec![cause("a"), cause("")]);
        assert_eq!(refusal.message, "AppService \"web\" is invalid: [a: bad, bad]");
    }
}
