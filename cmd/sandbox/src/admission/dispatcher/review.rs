//! The review of one operation: matching webhooks, their calls, and the failure policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::admission::dispatcher::{Dispatcher, TIMED_OUT};
use crate::admission::webhook;
use crate::admission::webhook::{Operation, ResponseError, ReviewResponse, Webhook, Write};
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta, registry};

/// One admitted operation.
pub(crate) struct Review<'a> {
    pub(crate) dispatcher: &'a Dispatcher<'a>,
    pub(crate) operation: Operation,
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

/// The new and the old object of the operation.
#[derive(Clone, Copy)]
struct Objects<'v> {
    new: Option<&'v Value>,
    old: Option<&'v Value>,
}

/// A matched webhook with its request.
struct Invocation<'h> {
    webhook: &'h Webhook,
    res: Arc<Resource>,
    uid: String,
    request: Value,
    new: Option<Value>,
    old: Option<Value>,
}

/// The error of a webhook call.
enum CallError {
    /// The call failed: the failure policy decides.
    Failed(String),
    /// The webhook rejected the request.
    Rejected(ApiError),
}

impl Review<'_> {
    /// Returns the object after all mutating webhooks.
    pub async fn mutate(&self, object: Value, old: Option<&Value>) -> Result<Value> {
        let managers = object["metadata"]["managedFields"].clone();
        let mut changed = self.change(Some(object), old).await?.unwrap_or_default();
        if changed["metadata"]["managedFields"] != managers
            && let Err(why) = fieldmanager::check(&changed["metadata"]["managedFields"])
        {
            meta::set(&mut changed, "managedFields", managers);
            self.dispatcher.warnings.add(vec![format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            )]);
        }
        Ok(changed)
    }

    /// Reviews the deletion of an object, which webhooks cannot patch.
    pub async fn review_delete(&self, old: &Value) -> Result<()> {
        self.change(None, Some(old)).await?;
        self.validate(None, Some(old)).await
    }

    async fn change(&self, object: Option<Value>, old: Option<&Value>) -> Result<Option<Value>> {
        let Some((webhooks, until)) = &self.dispatcher.webhooks else {
            return Ok(object);
        };
        let mut change = Change {
            object,
            reinvoke: BTreeSet::new(),
            invoked: BTreeSet::new(),
            changed: false,
        };
        self.complete(&mut change)?;
        self.call_mutating(&webhooks.mutating, *until, old, false, &mut change)
            .await?;
        if change.changed {
            let before = change.object.clone();
            self.complete(&mut change)?;
            if change.object != before {
                change.require_reinvocation();
            }
            self.call_mutating(&webhooks.mutating, *until, old, true, &mut change)
                .await?;
        }
        Ok(change.object)
    }

    /// Runs the built-in mutating plugins, which come before the webhooks.
    fn complete(&self, change: &mut Change) -> Result<()> {
        let dispatcher = self.dispatcher;
        if let Some(object) = &mut change.object
            && self.operation == Operation::Create
            && dispatcher.subresource.is_empty()
            && dispatcher.call.res.collection == "pods"
        {
            registry::tolerate_node_trouble(object);
            dispatcher
                .api
                .set_service_account(&dispatcher.call.res, &dispatcher.call.namespace, object)?;
            dispatcher.api.set_priority(&dispatcher.call.res, object)?;
        }
        Ok(())
    }

    /// Calls the mutating webhooks one after the other.
    async fn call_mutating(
        &self,
        webhooks: &[Arc<Webhook>],
        until: Instant,
        old: Option<&Value>,
        again: bool,
        change: &mut Change,
    ) -> Result<()> {
        for (index, webhook) in webhooks.iter().enumerate() {
            let objects = Objects {
                new: change.object.as_ref(),
                old,
            };
            let Some(invocation) = self.invocation(webhook, objects)? else {
                continue;
            };
            // Reinvocation never calls a webhook for the first time.
            if again && !change.reinvoke.contains(&index) {
                continue;
            }
            let response = self.call_webhook(&invocation, until, true).await;
            let wanted = response.and_then(|response| self.patched(&invocation, &response));
            match wanted {
                Ok(Some(object)) => {
                    if change.object.as_ref() != Some(&object) {
                        change.require_reinvocation();
                        change.changed = true;
                    }
                    change.object = Some(object);
                }
                Ok(None) => {}
                Err(error) => self.apply_failure_policy(webhook, error)?,
            }
            if webhook.reinvocation {
                change.invoked.insert(index);
            }
        }
        Ok(())
    }

    /// Calls the validating webhooks in parallel.
    pub async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<()> {
        let Some((webhooks, until)) = &self.dispatcher.webhooks else {
            return Ok(());
        };
        let mut invocations = Vec::new();
        for webhook in &webhooks.validating {
            invocations.extend(self.invocation(webhook, Objects { new, old })?);
        }
        let responses = join_all(
            invocations
                .iter()
                .map(|invocation| self.call_webhook(invocation, *until, false)),
        )
        .await;
        for (invocation, response) in invocations.iter().zip(responses) {
            match response {
                Ok(response) if response.allowed => {}
                Ok(response) => return Err(response.refusal(&invocation.webhook.name)),
                Err(error) => self.apply_failure_policy(invocation.webhook, error)?,
            }
        }
        Ok(())
    }

    /// Returns the call of a webhook, or `None` if the webhook does not match.
    fn invocation<'h>(&self, webhook: &'h Webhook, objects: Objects<'_>) -> Result<Option<Invocation<'h>>> {
        let (dispatcher, call) = (self.dispatcher, self.dispatcher.call);
        let labels = |object: Option<&'_ Value>| object.map(|object| object["metadata"]["labels"].clone());
        let (new_labels, old_labels) = (labels(objects.new), labels(objects.old));
        let name = match (&call.name, objects.new) {
            (None, Some(new)) => meta::name(new),
            _ => call.name(),
        };
        let of_namespaces = call.res.collection == "namespaces";
        let namespace = if of_namespaces { name } else { &call.namespace };
        let write = Write {
            res: &call.res,
            subresource: dispatcher.subresource,
            operation: self.operation,
            namespace,
            labels: new_labels.as_ref(),
            old_labels: old_labels.as_ref(),
        };
        let Some(res) = webhook.matching_resource(&write, dispatcher.api)? else {
            return Ok(None);
        };
        let shown = |object: Option<&Value>| {
            object.map(|object| dispatcher.converted(&call.res, &res, object).into_owned())
        };
        let (new, old) = (shown(objects.new), shown(objects.old));
        let uid = dispatcher.api.env.uid("admissionreviews", &dispatcher.call.key());
        let request = self.request(&uid, &res, name, namespace);
        if !webhook.conditions_hold(&call.res, new.as_ref(), old.as_ref(), &request)? {
            return Ok(None);
        }
        Ok(Some(Invocation {
            webhook,
            res,
            uid,
            request,
            new,
            old,
        }))
    }

    /// Returns the request of the review without its objects, as match conditions see it. `res` is the resource of the rule
    /// that matched.
    fn request(&self, uid: &str, res: &Resource, name: &str, namespace: &str) -> Value {
        let (dispatcher, call) = (self.dispatcher, self.dispatcher.call);
        let kind = |res: &Resource| {
            let (group, version, kind) = dispatcher.kind(res);
            json!({"group": group, "version": version, "kind": kind})
        };
        let resource =
            |res: &Resource| json!({"group": res.group, "version": res.version, "resource": res.plural});
        let mut request = json!({
            "uid": uid,
            "kind": kind(res),
            "resource": resource(res),
            "requestKind": kind(&call.res),
            "requestResource": resource(&call.res),
            "operation": self.operation.name(),
            "userInfo": call.user.info(),
            "dryRun": self.dry_run,
            "options": self.options,
        });
        for (key, text) in [
            ("subResource", dispatcher.subresource),
            ("requestSubResource", dispatcher.subresource),
            ("name", name),
            ("namespace", namespace),
        ] {
            if !text.is_empty() {
                request[key] = text.into();
            }
        }
        request
    }

    async fn call_webhook(
        &self,
        invocation: &Invocation<'_>,
        until: Instant,
        mutating: bool,
    ) -> Result<ReviewResponse, CallError> {
        let webhook = invocation.webhook;
        if self.dry_run && !webhook.supports_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", webhook.name);
            return Err(CallError::Rejected(ApiError::bad_request(why)));
        }
        let Some(version) = webhook.review else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions \
                       (v1, v1beta1)";
            return Err(CallError::Failed(why.to_owned()));
        };
        let api = self.dispatcher.api;
        let mut request = invocation.request.clone();
        request["object"] = invocation.new.clone().unwrap_or_default();
        request["oldObject"] = invocation.old.clone().unwrap_or_default();
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": version.api_version(), "request": request});
        let body = review.to_string().into_bytes();
        let response = webhook::send(webhook, &api.services, &api.env, until, body).await;
        let response = response.map_err(CallError::Failed)?;
        let mut response =
            ReviewResponse::read(&response, version, &invocation.uid, mutating).map_err(CallError::Failed)?;
        self.dispatcher
            .warnings
            .add(std::mem::take(&mut response.warnings));
        Ok(response)
    }

    /// Returns the patched object in the version of the request, or `None` if the response has no patch.
    fn patched(
        &self,
        invocation: &Invocation<'_>,
        response: &ReviewResponse,
    ) -> Result<Option<Value>, CallError> {
        let (webhook, dispatcher) = (invocation.webhook, self.dispatcher);
        if !response.allowed {
            return Err(CallError::Rejected(response.refusal(&webhook.name)));
        }
        let changed =
            response
                .change(&webhook.name, invocation.new.as_ref())
                .map_err(|fault| match fault {
                    ResponseError::Call(why) => CallError::Failed(why),
                    ResponseError::Change(error) => CallError::Rejected(error),
                })?;
        let Some(changed) = changed else {
            return Ok(None);
        };
        let res = &dispatcher.call.res;
        // Fields that are unknown to one version of a custom resource survive: all versions are stored as one.
        let object = if invocation.res.custom.is_some() {
            dispatcher.decoded(
                res,
                dispatcher.converted(&invocation.res, res, &changed).into_owned(),
            )
        } else {
            dispatcher
                .decoded(&invocation.res, changed)
                .map(|object| dispatcher.converted(&invocation.res, res, &object).into_owned())
        };
        object.map(Some).map_err(CallError::Rejected)
    }

    /// Applies the failure policy of a webhook.
    fn apply_failure_policy(&self, webhook: &Webhook, error: CallError) -> Result<()> {
        match error {
            CallError::Rejected(error) => Err(error),
            CallError::Failed(why) if !webhook.ignores_failure => Err(ApiError::internal(format!(
                "failed calling webhook {:?}: {why}",
                webhook.name
            ))),
            CallError::Failed(_) if self.dispatcher.is_timed_out() => Err(ApiError::timeout(TIMED_OUT)),
            CallError::Failed(why) => {
                tracing::warn!(webhook = webhook.name, error = why, "Went on without a webhook");
                Ok(())
            }
        }
    }
}

/// The state of an object between mutating webhooks.
struct Change {
    object: Option<Value>,
    /// Webhooks that must be reinvocation.
    reinvoke: BTreeSet<usize>,
    /// Webhooks that were called since the last change, with reinvocation policy `IfNeeded`.
    invoked: BTreeSet<usize>,
    changed: bool,
}

impl Change {
    /// Reinvokes the webhooks that saw an older version of the object.
    fn require_reinvocation(&mut self) {
        self.reinvoke.append(&mut self.invoked);
    }
}
