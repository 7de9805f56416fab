//! The `DeleteOptions` of a DELETE request, from the body or, if that is empty, from the query.

use crate::endpoints::{Call, decode, dry_run_error};
use crate::field::FieldError;
use crate::json::{Value, json};
use crate::schema;
use crate::status::{ApiError, Result};

#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub propagation: Option<String>,
    pub dry_run: bool,
    /// The revision that admission evaluated; another one fails with 409 Conflict.
    pub seen: Option<u64>,
    /// Whether a pod without a grace period is only marked as terminating, and removed by the next call.
    pub stepwise: bool,
    /// The error of an invalid `dryRun`, reported together with the other errors.
    pub wrong: Option<FieldError>,
}

impl DeleteOptions {
    /// Returns the options of a background deletion, which deletes dependents after their owner.
    pub fn background() -> Self {
        Self {
            propagation: Some("Background".to_owned()),
            ..Self::default()
        }
    }

    pub(crate) fn of(call: &Call) -> Result<Self> {
        let options = if call.body.is_empty() {
            Self::from_query(call)?
        } else {
            Self::from_body(call)?
        };
        let mut errors: Vec<FieldError> = options.wrong.iter().cloned().collect();
        if options.orphan_dependents.is_some() && options.propagation.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(
                "propagationPolicy",
                options.propagation.clone().unwrap_or_default(),
                why,
            ));
        }
        if let Some(policy) = &options.propagation
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            const ALLOWED: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                policy.clone(),
                &ALLOWED,
            ));
        }
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid_kind(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                &errors,
            ))
        }
    }

    fn from_query(call: &Call) -> Result<Self> {
        Ok(Self {
            grace: call.query.number("gracePeriodSeconds")?,
            orphan_dependents: call.query.flag("orphanDependents"),
            propagation: call.query.get("propagationPolicy").map(str::to_owned),
            dry_run: call.dry_run("DeleteOptions")?,
            ..Self::default()
        })
    }

    fn from_body(call: &Call) -> Result<Self> {
        let mut value = decode::tree(call, "v1", "DeleteOptions")?.value;
        if !value.is_object() {
            return Err(ApiError::bad_request(
                "decoded object cannot be converted to DeleteOptions",
            ));
        }
        if value["kind"]
            .as_str()
            .is_some_and(|kind| !matches!(kind, "" | "DeleteOptions"))
        {
            let message = format!(
                "no kind {} is registered for the internal version of group \"meta.k8s.io\"",
                value["kind"]
            );
            return Err(ApiError::bad_request(message));
        }
        if let Some(shape) = schema::delete_options() {
            schema::conform(shape, &mut value).map_err(|e| ApiError::bad_request(e.to_string()))?;
        }
        let dry_run: Vec<String> = value["dryRun"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect();
        let text = |v: &Value| v.as_str().map(str::to_owned);
        Ok(Self {
            grace: value["gracePeriodSeconds"].as_i64(),
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            orphan_dependents: value["orphanDependents"].as_bool(),
            propagation: text(&value["propagationPolicy"]),
            wrong: dry_run_error(&dry_run),
            dry_run: !dry_run.is_empty() || call.dry_run("DeleteOptions")?,
            ..Self::default()
        })
    }

    /// Returns the `DeleteOptions` object of an `AdmissionRequest`.
    pub fn shown(&self) -> Value {
        let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(grace) = self.grace {
            shown["gracePeriodSeconds"] = grace.into();
        }
        for (key, value) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(value) = value {
                shown["preconditions"][key] = value.as_str().into();
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            shown["orphanDependents"] = orphan.into();
        }
        if let Some(policy) = &self.propagation {
            shown["propagationPolicy"] = policy.as_str().into();
        }
        if self.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        shown
    }

    /// Returns whether the request sets `orphanDependents` or `propagationPolicy`.
    pub(crate) fn sets_propagation(&self) -> bool {
        self.orphan_dependents.is_some() || self.propagation.is_some()
    }
}
