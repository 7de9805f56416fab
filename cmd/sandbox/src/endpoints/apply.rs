//! The server-side apply handler: PATCH of an object, its status or its scale with an apply configuration
//! (`applyPatcher` in `handlers/patch.go` of the API server).

use crate::admission::dispatcher::{Dispatcher, Plain};
use crate::endpoints::decode::{Decoded, FieldValidation};
use crate::endpoints::update::Part;
use crate::endpoints::{Api, Call, Reply, create, decode, update};
use crate::field::json_type;
use crate::fieldmanager::{ApplyError, Writer};
use crate::json::{Value, json};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta, yaml};

/// Maximum number of attempts of an apply that conflicts with a concurrent create or delete.
const ATTEMPTS: usize = 8;

/// A decoded apply request.
pub(crate) struct Applying {
    pub config: Value,
    pub writer: Writer,
    pub force: bool,
    /// The `Warning` headers of the response.
    pub warnings: Vec<String>,
    /// The strict decoding error. Errors of the apply itself take precedence.
    strict: Option<ApiError>,
}

impl Applying {
    /// Applies the configuration to the live object, or to an empty one.
    pub fn to(&self, res: &Resource, live: Option<&Value>) -> Result<Value> {
        let applied =
            fieldmanager::apply(res, &self.writer, live, &self.config, self.force).map_err(refused)?;
        match &self.strict {
            Some(error) => Err(error.clone()),
            None => Ok(applied),
        }
    }
}

impl Api {
    pub(crate) async fn apply(
        &self,
        dispatcher: &Dispatcher<'_>,
        subresource: Option<&str>,
    ) -> Result<Reply> {
        let call = dispatcher.call;
        call.check_options("PatchOptions", true)?;
        let dry_run = call.dry_run("PatchOptions")?;
        let (res, name) = (&call.res, call.name());
        let applying = self.applying(call, subresource, &res.group, &res.version, &res.kind)?;
        let next = |live: Option<&Value>| {
            let merged = applying.to(res, live)?;
            let what = described(res, &applying.config);
            let Decoded { value, .. } =
                decode::applied(res, merged, live).map_err(|e| unconverted(res, &what, e))?;
            let uid = meta::text(&value, "uid");
            if live.is_none() && !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(res, name, &why));
            }
            if res.namespaced && ![call.namespace.as_str(), ""].contains(&meta::namespace(&value)) {
                return Err(create::other_namespace());
            }
            update::check_name(meta::name(&value), name)?;
            self.check_escalation(call, live.unwrap_or(&Value::Null), &value)?;
            self.check_owner_references(call, live.unwrap_or(&Value::Null), &value)?;
            Ok(value)
        };
        let part = Part::of(subresource);
        let mut outcome = Err(ApiError::modified(res, name));
        for _ in 0..ATTEMPTS {
            if self.store.get(&res.collection, &call.key()).is_some() || part != Part::Main {
                let produce = |live: &Value| next(Some(live));
                outcome = dispatcher
                    .update(part, dry_run, Plain(produce))
                    .await
                    .map(|updated| Reply::object(200, updated));
                let gone = outcome.as_ref().is_err_and(|e| e.code == 404);
                if !gone || part != Part::Main {
                    break;
                }
            } else {
                self.check_create_on_update(call)?;
                let mut value = next(None)?;
                // The object does not exist, so its resourceVersion only needs to be well-formed.
                let version = meta::text(&value, "resourceVersion");
                if !version.is_empty() {
                    update::check_version_number(version)?;
                }
                if !dry_run {
                    meta::set(&mut value, "resourceVersion", Value::Null);
                }
                outcome = dispatcher
                    .create(value, dry_run)
                    .await
                    .map(|created| Reply::object(201, created));
                if !outcome.as_ref().is_err_and(|e| e.reason == "AlreadyExists") {
                    break;
                }
            }
        }
        crate::endpoints::warned(outcome, applying.warnings)
    }

    /// Decodes the apply configuration of a request. Rejects one whose group, version and kind are not the given ones.
    pub(crate) fn applying(
        &self,
        call: &Call,
        subresource: Option<&str>,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Applying> {
        let validation = FieldValidation::of(call);
        let (writer, force) = self.applier(call, subresource)?;
        let undecodable = |why: &str| {
            ApiError::bad_request(format!(
                "error decoding YAML: error converting YAML to JSON: {why}"
            ))
        };
        let parsed = yaml::parse(&call.body).map_err(|e| undecodable(&e.to_string()))?;
        let config = match parsed.value {
            config @ Value::Object(_) => config,
            Value::Null => json!({}),
            other => {
                return Err(undecodable(&format!(
                    "expected object, found {}",
                    json_type(&other)
                )));
            }
        };
        let said = |field: &str| config[field].as_str().unwrap_or_default();
        let (api_version, said_kind) = (said("apiVersion"), said("kind"));
        let (said_group, said_version) = api_version.split_once('/').unwrap_or(("", api_version));
        if said_version.contains('/') {
            return Err(ApiError::bad_request("invalid object type: /, Kind="));
        }
        if (said_group, said_version, said_kind) != (group, version, kind) {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {said_group}/{said_version}, Kind={said_kind}"
            )));
        }
        let is_strict = validation == FieldValidation::Strict && !parsed.duplicates.is_empty();
        let strict = is_strict.then(|| {
            let what = yaml::unmarshal_errors(&parsed.duplicates);
            ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {what}"
            ))
        });
        let warnings = match validation {
            FieldValidation::Warn => parsed.duplicates,
            FieldValidation::Ignore | FieldValidation::Strict => Vec::new(),
        };
        Ok(Applying {
            config,
            writer,
            force,
            warnings,
            strict,
        })
    }
}

/// Formats an object as `namespace/name; group/version, Kind=Kind`.
fn described(res: &Resource, value: &Value) -> String {
    let (namespace, name) = (meta::namespace(value), meta::name(value));
    format!(
        "{namespace}/{name}; {}/{}, Kind={}",
        res.group, res.version, res.kind
    )
}

/// Turns the decode error of a merged built-in object into the 500 that the API server returns.
fn unconverted(res: &Resource, what: &str, error: ApiError) -> ApiError {
    let prefix = format!("cannot be handled as a {}: ", res.kind);
    match error.message.split_once(&prefix) {
        Some((_, why)) if error.code == 400 && res.custom.is_none() => ApiError::unexplained(format!(
            "failed to convert new object ({what}) to proper version: unable to convert unstructured object to {}/{}, \
             Kind={}: {why}",
            res.group, res.version, res.kind
        )),
        _ => error,
    }
}

fn refused(error: ApplyError) -> ApiError {
    let message = error.to_string();
    match error {
        ApplyError::Conflicts(conflicts) => ApiError::apply_conflict(
            message,
            conflicts
                .into_iter()
                .map(|c| (format!("conflict with {}", c.manager), c.field)),
        ),
        ApplyError::BadRequest(_) => ApiError::bad_request(message),
        ApplyError::Untyped(_) => ApiError::unexplained(message),
    }
}
