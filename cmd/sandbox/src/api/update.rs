//! PUT and PATCH, of the object and of its status.
//!
//! Both produce the wanted object from the present one; everything after that is the same, and is here once.

use std::sync::Arc;

use serde_json::Value;

use super::decode::{self, Decoded, FieldValidation};
use super::{Api, Call, Reply, create, warn};
use crate::field::FieldError;
use crate::kinds;
use crate::managed;
use crate::meta;
use crate::patch::{self, PatchError, PatchType};
use crate::resource::Resource;
use crate::schema;
use crate::status::{ApiError, Result};
use crate::store::{Object, StoreError};

/// How often a write that lost a race against another starts over.
const ATTEMPTS: usize = 16;

/// Which part of the object a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
    /// What holds a namespace.
    Finalize,
    /// Whatever the server itself wants to write.
    Server,
}

/// What became of an object.
enum Committed {
    Stored(Arc<Object>),
    Removed(Arc<Object>),
}

impl Part {
    pub(super) fn of(subresource: Option<&str>) -> Self {
        if subresource.is_some() {
            Self::Status
        } else {
            Self::Main
        }
    }
}

impl Api {
    pub(super) fn put(&self, call: &Call, subresource: Option<&str>) -> Result<Reply> {
        let dry_run = call.dry_run("UpdateOptions")?;
        let writer = self.writer(call, "UpdateOptions", subresource)?;
        let Decoded { value, warnings } = decode::body(call)?;
        let name = meta::name(&value);
        check_name(name, call.name())?;
        let part = Part::of(subresource);
        if self.store.get(&call.res.collection, &call.key()).is_none()
            && part == Part::Main
            && kinds::allows_create_on_update(&call.res)
        {
            let uid = meta::text(&value, "uid");
            if !uid.is_empty() {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
                return Err(ApiError::conflict(&call.res, call.name(), &why));
            }
            let mut value = value;
            self.check_create_on_update(call)?;
            self.check_escalation(call, &Value::Null, &value)?;
            meta::set(&mut value, "resourceVersion", Value::Null);
            managed::track(&call.res, &writer, None, &mut value);
            let created = self.create_object(&call.res, &call.namespace, &value, dry_run);
            return warn(created.map(|created| Reply::object(201, created)), warnings);
        }
        let updated = self.update(&call.res, &call.namespace, call.name(), part, dry_run, |old| {
            self.check_escalation(call, old, &value)?;
            let mut value = value.clone();
            managed::track(&call.res, &writer, Some(old), &mut value);
            Ok(value)
        });
        warn(updated.map(|updated| Reply::object(200, updated)), warnings)
    }

    pub(super) fn patch(&self, call: &Call, subresource: Option<&str>) -> Result<Reply> {
        let kind = patch_type(call)?;
        if kind == PatchType::Apply {
            return self.apply(call, subresource);
        }
        let dry_run = call.dry_run("PatchOptions")?;
        let validation = FieldValidation::of(call)?;
        check_patch_options(call)?;
        let writer = self.writer(call, "PatchOptions", subresource)?;
        let schema = schema::builtin(&call.res.api_version(), &call.res.kind);
        let mut warnings = Vec::new();
        let produce = |current: &Value| {
            let mut patched = patch::apply(kind, current, &call.body, schema).map_err(refused)?;
            if kind == PatchType::Strategic {
                // Such a patch works on the typed object, which does not carry its type.
                for field in ["kind", "apiVersion"] {
                    patched[field] = current[field].clone();
                }
            }
            let wrong = patch::strict_errors(kind, &call.body);
            let mut decoded =
                decode::object(&call.res, patched, wrong, validation).map_err(|e| unfit(call, e))?;
            warnings = decoded.warnings;
            check_name(meta::name(&decoded.value), call.name())?;
            check_patched_uid(&call.res, current, &decoded.value)?;
            self.check_escalation(call, current, &decoded.value)?;
            managed::track(&call.res, &writer, Some(current), &mut decoded.value);
            Ok(decoded.value)
        };
        let part = Part::of(subresource);
        let updated = self.update(&call.res, &call.namespace, call.name(), part, dry_run, produce);
        warn(updated.map(|updated| Reply::object(200, updated)), warnings)
    }

    /// Replaces an object by what `produce` makes of it, and returns the result as it is served.
    pub(super) fn update(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        part: Part,
        dry_run: bool,
        mut produce: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Value> {
        let key = meta::key(namespace, name);
        let _addresses = self.lock_addresses(res);
        for _ in 0..ATTEMPTS {
            let current = self
                .store
                .get(&res.collection, &key)
                .ok_or_else(|| ApiError::not_found(res, name))?;
            let old = Self::served(res, &current);
            let new = produce(&old)?;
            let next = self.next_version(res, namespace, part, &old, new)?;
            if managed::is_same(&old, &next) {
                return Ok(old);
            }
            let counting = match part {
                Part::Main => self.charge(res, namespace, Some(&old), &next, dry_run)?,
                Part::Status | Part::Finalize | Part::Server => None,
            };
            if dry_run {
                return Ok(next);
            }
            let committed = self.commit_update(res, &key, &current, &old, &next);
            self.end_charge(counting, res, namespace, committed.is_ok());
            match committed {
                Ok(Committed::Removed(removed)) => {
                    self.after_removal(res, &removed);
                    return Ok(next);
                }
                Ok(Committed::Stored(object)) => {
                    if part != Part::Server {
                        self.after_write(res, &object);
                    }
                    return Ok(Self::served(res, &object));
                }
                Err(StoreError::Changed) => {}
                Err(StoreError::Missing) => return Err(ApiError::not_found(res, name)),
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        Err(ApiError::modified(res, name))
    }

    /// Stores the next version, or removes the object if nothing holds it any longer.
    fn commit_update(
        &self,
        res: &Resource,
        key: &str,
        current: &Object,
        old: &Value,
        next: &Value,
    ) -> Result<Committed, StoreError> {
        if finished_by(next) {
            // Watchers are told the last state that was stored, the client what it asked for.
            let last = Self::draft(res, old.clone());
            let removed = self.store.remove(&res.collection, key, current.revision, last)?;
            return Ok(Committed::Removed(removed));
        }
        let draft = Self::draft(res, next.clone());
        let stored = self
            .store
            .replace(&res.collection, key, current.revision, draft)?;
        Ok(Committed::Stored(stored))
    }

    /// The version that follows `old` when a client asks for `new`; equal to `old` if nothing changes.
    fn next_version(
        &self,
        res: &Resource,
        namespace: &str,
        part: Part,
        old: &Value,
        mut new: Value,
    ) -> Result<Value> {
        if part == Part::Server {
            return Ok(new);
        }
        let name = meta::name(old).to_owned();
        create::check_namespace(res, namespace, &mut new)?;
        check_versions(res, old, &new)?;
        meta::copy(old, &mut new, "resourceVersion");
        meta::copy(old, &mut new, "generation");
        match part {
            Part::Main => kinds::prepare_update(res, old, &mut new),
            Part::Finalize => kinds::prepare_finalize(res, old, &mut new),
            Part::Status | Part::Server => kinds::prepare_status(res, old, &mut new),
        }
        if meta::text(&new, "uid").is_empty() {
            meta::copy(old, &mut new, "uid");
        }
        meta::copy(old, &mut new, "creationTimestamp");
        if meta::is_terminating(old) {
            meta::copy(old, &mut new, "deletionTimestamp");
        }
        if new["metadata"]["deletionGracePeriodSeconds"].is_null() {
            meta::copy(old, &mut new, "deletionGracePeriodSeconds");
        }
        if res.collection == "services" && part == Part::Main {
            self.keep_addresses(old, &mut new)?;
        }
        let errors = match part {
            Part::Main => kinds::validate_update(res, old, &new),
            Part::Finalize => kinds::validate_finalize(res, old, &new),
            Part::Status | Part::Server => kinds::validate_status(res, old, &new),
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(res, &name, &errors));
        }
        Ok(new)
    }
}

/// The client's idea of the object must be the present one.
pub(super) fn check_versions(res: &Resource, old: &Value, new: &Value) -> Result<()> {
    let name = meta::name(old);
    let (uid, old_uid) = (meta::text(new, "uid"), meta::text(old, "uid"));
    if !uid.is_empty() && uid != old_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
        return Err(ApiError::conflict(res, name, &why));
    }
    let version = meta::text(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        if kinds::allows_unconditional_update(res) {
            return Ok(());
        }
        let wrong = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(ApiError::invalid_kind(&res.group, &res.plural, name, &[wrong]));
    }
    if version.parse::<u64>().is_err() {
        return Err(ApiError::unexplained(format!(
            "strconv.ParseUint: parsing {version:?}: invalid syntax"
        )));
    }
    if version == meta::text(old, "resourceVersion") {
        Ok(())
    } else {
        Err(ApiError::modified(res, name))
    }
}

/// The name of a body must be that of the path.
pub(super) fn check_name(name: &str, expected: &str) -> Result<()> {
    if name.is_empty() {
        let message = format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        );
        return Err(ApiError::bad_request(message));
    }
    if name != expected {
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({expected})");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

/// A patch is asked for the same uid in other words than an update.
pub(super) fn check_patched_uid(res: &Resource, old: &Value, new: &Value) -> Result<()> {
    let uid = meta::text(new, "uid");
    if uid.is_empty() || uid == meta::text(old, "uid") {
        return Ok(());
    }
    let wrong = FieldError::invalid("metadata.uid", uid, "field is immutable");
    Err(ApiError::invalid(res, meta::name(old), &[wrong]))
}

fn check_patch_options(call: &Call) -> Result<()> {
    let mut errors = Vec::new();
    if call.query.flag("force").is_some() {
        errors.push(FieldError::forbidden(
            "force",
            "may not be specified for non-apply patch",
        ));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", &errors))
    }
}

/// An object that is marked for deletion goes when its last finalizer does, unless it still has time.
fn finished_by(next: &Value) -> bool {
    let grace = next["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    let namespace_content = next["kind"] == "Namespace"
        && next["spec"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
    meta::is_terminating(next) && grace == 0 && meta::finalizers(next).is_empty() && !namespace_content
}

/// A patch whose result is no object of the kind is the patch's fault.
fn unfit(call: &Call, error: ApiError) -> ApiError {
    if error.code != 400 {
        return error;
    }
    let patch = String::from_utf8_lossy(&call.body).into_owned();
    ApiError::invalid_kind("", "", "", &[FieldError::invalid("patch", patch, error.message)])
}

/// The kind of patch that the content type names, if this resource takes it.
pub(super) fn patch_type(call: &Call) -> Result<PatchType> {
    let kind = PatchType::from_content_type(&call.content_type);
    if call.res.custom.is_some() && !matches!(kind, Ok(PatchType::Json | PatchType::Merge | PatchType::Apply))
    {
        return Err(ApiError::unsupported_media_type(patch::CUSTOM));
    }
    kind.map_err(|_| ApiError::unsupported("415: Unsupported Media Type"))
}

pub(super) fn refused(error: PatchError) -> ApiError {
    match error {
        PatchError::NotDecodable(why) => ApiError::bad_request(why),
        PatchError::UnsupportedMediaType(types) => ApiError::unsupported_media_type(types),
        PatchError::Internal(why) => ApiError::unexplained(why),
        PatchError::NotApplicable(_) => ApiError::unprocessable(error.to_string()),
        PatchError::TooManyOperations(_) => ApiError::too_large(error.to_string()),
    }
}
