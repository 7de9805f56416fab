//! The gate: between a request and its write stand the webhooks that are to be asked about it.
//!
//! Without any webhook the gate is open, and costs nothing. Otherwise a write is made in steps: the object as the client
//! wants it is shown to those that may change it, the object as it would be stored to those that may refuse it, and then it
//! is stored if nothing has changed meanwhile. Nothing is locked while somebody is asked.

mod review;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::admission::webhook;
use crate::admission::webhook::{Hooks, Kind, Operation, Surroundings};
use crate::endpoints::{Api, Call, decode};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{registry, schema};

pub(crate) use review::Review;
pub(crate) use write::{Plain, Writing};

/// How long all webhooks together may take.
const LONGEST: Duration = Duration::from_secs(34);

/// What is said when that was not enough.
const LATE: &str = "request did not complete within requested timeout";

/// What the client is told beside the answer, whether that is a success or not.
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

    /// All of them.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's contract.
pub(crate) struct Gate<'a> {
    pub api: &'a Api,
    pub call: &'a Call,
    subresource: &'a str,
    warnings: &'a Warnings,
    /// Whom to ask, and until when there may be answers.
    asking: Option<(Arc<Hooks>, Instant)>,
}

impl Api {
    /// The gate that a request has to pass to write anything.
    pub(crate) fn gate<'a>(
        &'a self,
        call: &'a Call,
        subresource: Option<&'a str>,
        warnings: &'a Warnings,
    ) -> Gate<'a> {
        // Nobody is asked whether somebody may be asked: a wrong configuration could never be put right.
        let exempt = call.res.group == "admissionregistration.k8s.io" && call.res.custom.is_none();
        let hooks = if exempt { None } else { self.hooks() };
        Gate {
            api: self,
            call,
            subresource: subresource.unwrap_or_default(),
            warnings,
            asking: hooks.map(|hooks| (hooks, self.env.instant() + time_of(call))),
        }
    }

    fn hooks(&self) -> Option<Arc<Hooks>> {
        self.hooks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the webhooks what the stored configurations say.
    pub(crate) fn refresh_hooks(&self) {
        // Held until the new ones are in place, so that the last to come has seen the last write. Requests do not wait for it.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let configurations = |collection: &str| {
            let snapshot = self.store.snapshot(collection, "", None, None);
            snapshot.map(|snapshot| snapshot.objects).unwrap_or_default()
        };
        let (mutating, validating) = (
            configurations(webhook::MUTATING),
            configurations(webhook::VALIDATING),
        );
        let hooks = compiled.update(&mutating, &validating).map(Arc::new);
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = hooks;
    }
}

/// How long a request may take: what it says itself, if that is not too long.
fn time_of(call: &Call) -> Duration {
    let asked = call.query.get("timeout").and_then(duration);
    asked.map_or(LONGEST, |asked| asked.min(LONGEST))
}

/// A duration such as `1m30s`; none if it is none.
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

impl Surroundings for Gate<'_> {
    fn namespace_labels(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let namespace = self.api.store.get("namespaces", name);
        let namespace = namespace.ok_or_else(|| ApiError::namespace_not_found(name))?;
        Ok(namespace.labels.clone())
    }

    fn equivalents(&self, res: &Resource) -> Vec<Arc<Resource>> {
        let registry = self.api.registry();
        let same = |other: &&Arc<Resource>| {
            other.collection == res.collection && (&other.group, &other.version) != (&res.group, &res.version)
        };
        registry.all().iter().filter(same).cloned().collect()
    }
}

impl<'a> Gate<'a> {
    /// The same for the next of many objects, with time of its own.
    pub fn again(&self) -> Self {
        let until = self.api.env.instant() + LONGEST;
        Self {
            asking: self.asking.as_ref().map(|(hooks, _)| (hooks.clone(), until)),
            ..*self
        }
    }

    /// Whether there is no time left to ask anybody.
    fn is_late(&self) -> bool {
        let until = self.asking.as_ref().map(|(_, until)| *until);
        until.is_some_and(|until| self.api.env.instant() >= until)
    }

    /// Whether nobody is asked.
    pub fn is_open(&self) -> bool {
        self.asking.is_none()
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
            gate: self,
            operation,
            options,
            dry_run,
        }
    }

    /// The options of the request, whatever its verb, as those of the operation that it comes to.
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

    /// The kind of the objects that a request to a resource is about.
    fn kind(&self, res: &Resource) -> Kind {
        let (group, version, kind) = match self.subresource {
            "scale" => ("autoscaling", "v1", "Scale"),
            "eviction" => ("policy", "v1", "Eviction"),
            "binding" => ("", "v1", "Binding"),
            "token" => ("authentication.k8s.io", "v1", "TokenRequest"),
            _ => (res.group.as_str(), res.version.as_str(), res.kind.as_str()),
        };
        Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            name: kind.to_owned(),
        }
    }

    /// Whether the objects are those of the resource, and not of a kind that the subresource has for itself.
    fn is_of_the_resource(&self) -> bool {
        matches!(
            self.subresource,
            "" | "status" | "finalize" | "ephemeralcontainers"
        )
    }

    /// An object of one resource as another one serves it.
    fn converted<'v>(&self, from: &Resource, to: &Resource, object: &'v Value) -> Cow<'v, Value> {
        if !self.is_of_the_resource() || (&from.group, &from.version) == (&to.group, &to.version) {
            return Cow::Borrowed(object);
        }
        Cow::Owned(registry::converted(from, to, object))
    }

    /// What a webhook made of an object, as one of the kind that it was shown.
    fn decoded(&self, res: &Resource, changed: Value) -> Result<Value> {
        if self.is_of_the_resource() {
            let (ignore, changed_by) = (decode::FieldValidation::Ignore, decode::Stage::Changed);
            let decoded = decode::object(res, changed, Vec::new(), ignore, changed_by)
                .map_err(|error| ApiError::internal(error.message))?;
            self.warnings.add(decoded.warnings);
            return Ok(decoded.value);
        }
        let mut changed = changed;
        let Kind { group, version, name } = self.kind(res);
        let api_version = if group.is_empty() {
            version
        } else {
            format!("{group}/{version}")
        };
        if let Some(schema) = schema::builtin(&api_version, &name) {
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
    fn durations() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for text in [
            "",
            "5",
            "s",
            "1x",
            "-1s",
            "0s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
