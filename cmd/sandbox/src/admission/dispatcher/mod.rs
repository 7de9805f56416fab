//! The webhook dispatcher: calls the admission webhooks between the decoding of a request and its write.
//!
//! Mirrors the mutating and validating dispatchers of `apiserver/pkg/admission/plugin/webhook`. Without webhooks it costs
//! nothing. Otherwise a write has steps: mutating webhooks see the object of the client, validating webhooks the object that
//! would be stored, and the commit fails if the stored version has changed. No lock is held during a call.

mod review;
mod write;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::admission::webhook;
use crate::admission::webhook::{Operation, Webhooks};
use crate::endpoints::{Api, Call, decode};
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{registry, schema};

pub(crate) use review::Review;
pub(crate) use write::{Plain, UpdatedObject};

/// The time that all webhooks of one request may take together.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(34);

/// The message of the 504 after that time.
const TIMED_OUT: &str = "request did not complete within requested timeout";

/// `Warning` headers of the response, of a success or an error.
#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    fn add(&self, more: Vec<String>) {
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in more {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }

    pub fn into_vec(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The webhook dispatcher of one request.
pub(crate) struct Dispatcher<'a> {
    pub api: &'a Api,
    pub call: &'a Call,
    subresource: &'a str,
    warnings: &'a Warnings,
    /// The webhooks, and the deadline of their calls.
    webhooks: Option<(Arc<Webhooks>, Instant)>,
}

impl Api {
    /// Returns the dispatcher of a request that writes.
    pub(crate) fn dispatcher<'a>(
        &'a self,
        call: &'a Call,
        subresource: Option<&'a str>,
        warnings: &'a Warnings,
    ) -> Dispatcher<'a> {
        // Configurations of webhooks are exempt: an invalid one could otherwise never be corrected.
        let exempt = call.res.group == "admissionregistration.k8s.io" && call.res.custom.is_none();
        let webhooks = if exempt { None } else { self.webhooks() };
        Dispatcher {
            api: self,
            call,
            subresource: subresource.unwrap_or_default(),
            warnings,
            webhooks: webhooks.map(|webhooks| (webhooks, self.env.instant() + request_timeout(call))),
        }
    }

    fn webhooks(&self) -> Option<Arc<Webhooks>> {
        self.webhooks
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Compiles the stored configurations.
    pub(crate) fn refresh_webhooks(&self) {
        // The lock is held until the new webhooks are in place, so that the last refresh has seen the last write.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let mutating = self.objects(webhook::MUTATING, "");
        let validating = self.objects(webhook::VALIDATING, "");
        let webhooks = compiled.update(&mutating, &validating).map(Arc::new);
        *self.webhooks.write().unwrap_or_else(PoisonError::into_inner) = webhooks;
    }
}

/// The timeout of a request: its query parameter `timeout`, at most `REQUEST_TIMEOUT`.
fn request_timeout(call: &Call) -> Duration {
    let timeout = call.query.get("timeout").and_then(duration);
    timeout.map_or(REQUEST_TIMEOUT, |timeout| timeout.min(REQUEST_TIMEOUT))
}

/// Parses a duration such as `1m30s`.
fn duration(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let milliseconds: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::from_millis(number.checked_mul(milliseconds)?))?;
        rest = after;
    }
    Some(sum).filter(|sum| !sum.is_zero())
}

impl<'a> Dispatcher<'a> {
    /// Returns a dispatcher for the next of several objects, with a new deadline.
    pub fn for_next_object(&self) -> Self {
        let until = self.api.env.instant() + REQUEST_TIMEOUT;
        Self {
            webhooks: self
                .webhooks
                .as_ref()
                .map(|(webhooks, _)| (webhooks.clone(), until)),
            ..*self
        }
    }

    /// Whether the deadline has passed.
    fn is_timed_out(&self) -> bool {
        let until = self.webhooks.as_ref().map(|(_, until)| *until);
        until.is_some_and(|until| self.api.env.instant() >= until)
    }

    /// Whether no webhook is configured.
    pub fn has_no_webhooks(&self) -> bool {
        self.webhooks.is_none()
    }

    pub fn creating(&'a self, dry_run: bool) -> Review<'a> {
        self.review(Operation::Create, self.options("CreateOptions"), dry_run)
    }

    pub fn updating(&'a self, dry_run: bool) -> Review<'a> {
        self.review(Operation::Update, self.options("UpdateOptions"), dry_run)
    }

    pub fn deleting(&'a self, options: Value, dry_run: bool) -> Review<'a> {
        self.review(Operation::Delete, options, dry_run)
    }

    fn review(&'a self, operation: Operation, options: Value, dry_run: bool) -> Review<'a> {
        Review {
            dispatcher: self,
            operation,
            options,
            dry_run,
        }
    }

    /// Returns the options of the request as those of the admitted operation.
    fn options(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let dry_run = self.call.query.all("dryRun");
        if !dry_run.is_empty() {
            options["dryRun"] = dry_run.into();
        }
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.call.query.get(key) {
                options[key] = value.into();
            }
        }
        options
    }

    /// Returns group, version and kind of the objects of a request.
    fn kind<'r>(&self, res: &'r Resource) -> (&'r str, &'r str, &'r str) {
        match self.subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "eviction" => ("policy", "v1", "Eviction"),
            "binding" => ("", "v1", "Binding"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            _ => (&res.group, &res.version, &res.kind),
        }
    }

    /// Whether the request carries objects of the resource itself, and not of a kind of its subresource.
    fn has_kind_of_resource(&self) -> bool {
        matches!(
            self.subresource,
            "" | "approval" | "status" | "finalize" | "ephemeralcontainers"
        )
    }

    /// Converts an object from one resource to an equivalent one.
    fn converted<'v>(&self, from: &Resource, to: &Resource, object: &'v Value) -> Cow<'v, Value> {
        if !self.has_kind_of_resource() || (&from.group, &from.version) == (&to.group, &to.version) {
            return Cow::Borrowed(object);
        }
        Cow::Owned(registry::converted(from, to, object))
    }

    /// Decodes an object that a webhook has patched.
    fn decoded(&self, res: &Resource, changed: Value) -> Result<Value> {
        if self.has_kind_of_resource() {
            let (ignore, changed_by) = (decode::FieldValidation::Ignore, decode::Stage::Changed);
            let decoded = decode::object(res, changed, None, Vec::new(), ignore, changed_by)
                .map_err(|error| ApiError::internal(error.message))?;
            self.warnings.add(decoded.warnings);
            return Ok(decoded.value);
        }
        let mut changed = changed;
        let (group, version, name) = self.kind(res);
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        if let Some(schema) = schema::builtin(&api_version, name) {
            schema::conform(schema, &mut changed).map_err(|error| ApiError::internal(error.to_string()))?;
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_parse() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        let invalid = "|5|s|1x|-1s|0s|99999999999999999999s|18446744073709551615h";
        for text in invalid.split('|') {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
