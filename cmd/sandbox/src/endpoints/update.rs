//! The update and patch handlers: PUT and PATCH of an object or its status (`handlers/update.go`, `handlers/patch.go`
//! and `Store.Update` of the API server).
//!
//! Both verbs compute the desired object from the current one and then share validation, conflict detection and commit.

use std::sync::Arc;

use crate::admission::dispatcher::{Dispatcher, Plain};
use crate::endpoints::decode::{Decoded, FieldValidation, Stage};
use crate::endpoints::{Api, Call, Reply, Written, create, decode};
use crate::field::{FieldError, json_type};
use crate::fieldmanager::Writer;
use crate::json::Value;
use crate::patch::{Patch, PatchError, PatchType};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::{Object, StoreError};
use crate::{fieldmanager, meta, patch, registry};

/// Maximum number of attempts of an update that conflicts with concurrent writes.
const ATTEMPTS: usize = 16;

/// The part of an object that a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// The `spec.finalizers` of a namespace.
    Finalize,
    EphemeralContainers,
    /// Any field: a write of the API server itself, without validation.
    Server,
}

/// The outcome of a committed update.
enum Committed {
    Stored(Arc<Object>),
    /// The last stored state, and the state that the request would have stored.
    Removed(Arc<Object>, Value),
}

impl Part {
    pub(crate) fn of(subresource: Option<&str>) -> Self {
        match subresource {
            None => Self::Main,
            Some("ephemeralcontainers") => Self::EphemeralContainers,
            Some(_) => Self::Status,
        }
    }
}

/// The parameters of an update, shared by its two steps.
pub(crate) struct Update<'a> {
    pub res: &'a Resource,
    pub namespace: &'a str,
    pub name: &'a str,
    pub part: Part,
    pub dry_run: bool,
}

impl Api {
    pub(crate) async fn put(&self, dispatcher: &Dispatcher<'_>, subresource: Option<&str>) -> Result<Reply> {
        let call = dispatcher.call;
        call.check_options("UpdateOptions", false)?;
        let dry_run = call.dry_run("UpdateOptions")?;
        let writer = self.writer(call, "UpdateOptions", subresource)?;
        let decoded = self.decoded_body(call, "UpdateOptions");
        // For custom resources, 404 Not Found takes precedence over a kind mismatch.
        let missing = || self.store.get(&call.res.collection, &call.key()).is_none();
        if call.res.custom.is_some() && decoded.as_ref().is_err_and(|e| e.code == 422) && missing() {
            return Err(ApiError::not_found(&call.res, call.name()));
        }
        let Decoded { value, warnings } = decoded?;
        let put = self
            .put_decoded(dispatcher, subresource, &writer, value, dry_run)
            .await;
        crate::endpoints::warned(put, warnings)
    }

    async fn put_decoded(
        &self,
        dispatcher: &Dispatcher<'_>,
        subresource: Option<&str>,
        writer: &Writer,
        mut value: Value,
        dry_run: bool,
    ) -> Result<Reply> {
        let call = dispatcher.call;
        create::check_namespace(&call.res, &call.namespace, &mut value)?;
        check_name(meta::name(&value), call.name())?;
        let part = Part::of(subresource);
        if self.store.get(&call.res.collection, &call.key()).is_none()
            && part == Part::Main
            && registry::allows_create_on_update(&call.res)
        {
            let uid = meta::text(&value, "uid");
            if !uid.is_empty() {
                let why = uid_mismatch(uid, "");
                return Err(ApiError::conflict(&call.res, call.name(), &why));
            }
            self.check_create_on_update(call)?;
            let version = meta::text(&value, "resourceVersion");
            if !version.is_empty() {
                check_version_number(version)?;
            }
            if !dry_run {
                meta::set(&mut value, "resourceVersion", Value::Null);
            }
            return self.create_decoded(dispatcher, writer, value, dry_run).await;
        }
        let produce = |old: &Value| {
            check_uid(&call.res, old, &value)?;
            self.check_escalation(call, old, &value)?;
            self.check_owner_references(call, old, &value)?;
            let mut value = value.clone();
            share_sections(old, &mut value);
            fieldmanager::track_update(&call.res, writer, old, &mut value);
            Ok(value)
        };
        let updated = dispatcher.update(part, dry_run, Plain(produce)).await?;
        Ok(Reply::object(200, updated))
    }

    pub(crate) async fn patch(
        &self,
        dispatcher: &Dispatcher<'_>,
        subresource: Option<&str>,
    ) -> Result<Reply> {
        let call = dispatcher.call;
        let kind = patch_type(call)?;
        if kind == PatchType::Apply {
            return self.apply(dispatcher, subresource).await;
        }
        call.check_options("PatchOptions", false)?;
        let dry_run = call.dry_run("PatchOptions")?;
        let validation = FieldValidation::of(call);
        let writer = self.writer(call, "PatchOptions", subresource)?;
        let patch = Patch::new(kind, &call.body);
        let mut warnings = Vec::new();
        let produce = |current: &Value| {
            let mut patched = patch.apply(current, call.res.schema).map_err(refused)?;
            if kind == PatchType::Strategic {
                // A strategic merge patch works on the typed object and cannot change its kind or apiVersion.
                check_type_meta_strings(call, &patched)?;
                for field in ["kind", "apiVersion"] {
                    patched[field] = current[field].clone();
                }
            }
            decode::check_type_meta(&call.res, &patched, &call.body).map_err(|e| unfit(call, &e))?;
            let wrong = patch.strict_errors();
            if call.res.custom.is_none() && patched["apiVersion"].as_str().is_none_or(str::is_empty) {
                // The API server cannot decode an object without an apiVersion, so the name is missing.
                warnings =
                    decode::unread(&call.res, &patched, wrong, validation).map_err(|e| unfit(call, &e))?;
                return Err(nameless(call.name()));
            }
            let other_version = take_other_version(&call.res, &mut patched);
            let stage = match kind {
                PatchType::Strategic => Stage::Merged,
                _ if other_version.is_some() => Stage::Foreign,
                _ => Stage::Changed,
            };
            let decoded = decode::object(&call.res, patched, Some(current), wrong, validation, stage);
            let mut decoded = decoded.map_err(|e| unfit(call, &e))?;
            warnings = decoded.warnings;
            create::check_namespace(&call.res, &call.namespace, &mut decoded.value)?;
            check_name(meta::name(&decoded.value), call.name())?;
            if let Some(version) = other_version {
                decoded.value["apiVersion"] = version;
            }
            self.check_escalation(call, current, &decoded.value)?;
            self.check_owner_references(call, current, &decoded.value)?;
            fieldmanager::track_update(&call.res, &writer, current, &mut decoded.value);
            Ok(decoded.value)
        };
        let part = Part::of(subresource);
        let updated = dispatcher.update(part, dry_run, Plain(produce)).await;
        crate::endpoints::warned(updated.map(|updated| Reply::object(200, updated)), warnings)
    }

    /// Replaces an object with the result of `produce`. Retries on conflict.
    pub(crate) fn update(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        part: Part,
        dry_run: bool,
        mut produce: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Written> {
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
            if fieldmanager::is_same(&old, &next) {
                return Ok(Written::Stored(current));
            }
            let update = Update {
                res,
                namespace,
                name,
                part,
                dry_run,
            };
            if let Some(updated) = self.finish_update(&update, &current, next)? {
                return Ok(updated);
            }
        }
        Err(ApiError::modified(res, name))
    }

    /// Runs the first step of a two-step update: allocation and validation, without the commit.
    pub(crate) fn prepare_update(
        &self,
        res: &Resource,
        namespace: &str,
        part: Part,
        old: &Value,
        new: Value,
    ) -> Result<Value> {
        let _addresses = self.lock_addresses(res);
        self.next_version(res, namespace, part, old, new)
    }

    /// Commits an object from [`Self::prepare_update`]. Returns `None` if the object has changed since then, or if
    /// another Service has taken its addresses.
    pub(crate) fn commit_prepared_update(
        &self,
        update: &Update<'_>,
        current: &Object,
        old: &Value,
        next: Value,
    ) -> Result<Option<Written>> {
        let _addresses = self.lock_addresses(update.res);
        // Another Service may have taken an address that the first step chose.
        if update.res.collection == "services"
            && update.part == Part::Main
            && !self.addresses_are_free(old, &next)
        {
            return Ok(None);
        }
        self.finish_update(update, current, next)
    }

    /// Stores the object and updates derived state. Returns `None` on a conflict with a concurrent write.
    fn finish_update(&self, update: &Update<'_>, current: &Object, next: Value) -> Result<Option<Written>> {
        let &Update {
            res,
            namespace,
            name,
            part,
            dry_run,
        } = update;
        if dry_run {
            return Ok(Some(Written::Unstored(next)));
        }
        let committed = self.commit_update(res, &meta::key(namespace, name), current, next);
        match committed {
            Ok(Committed::Removed(removed, next)) => {
                self.after_removal(res, &removed);
                Ok(Some(Written::Unstored(next)))
            }
            Ok(Committed::Stored(object)) => {
                if part != Part::Server {
                    self.after_write(res, &object);
                }
                Ok(Some(Written::Stored(object)))
            }
            Err(StoreError::Changed) => Ok(None),
            Err(StoreError::Missing) => Err(ApiError::not_found(res, name)),
            Err(other) => Err(ApiError::internal(other.to_string())),
        }
    }

    /// Stores the next version, or removes a terminating object without finalizers.
    fn commit_update(
        &self,
        res: &Resource,
        key: &str,
        current: &Object,
        next: Value,
    ) -> Result<Committed, StoreError> {
        if completes_deletion(&next) {
            // Watchers receive the last stored state; the client receives the state of its request.
            let removed = self.store.remove(&res.collection, key, current.revision)?;
            return Ok(Committed::Removed(removed, next));
        }
        let draft = Self::draft(res, next);
        let stored = self
            .store
            .replace(&res.collection, key, current.revision, draft)?;
        Ok(Committed::Stored(stored))
    }

    /// Returns the validated object to store when a request replaces `old` with `new`.
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
        if new["apiVersion"] == "" {
            let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
            return Err(ApiError::internal(why));
        }
        meta::copy(old, &mut new, "resourceVersion");
        meta::copy(old, &mut new, "generation");
        match part {
            Part::Main => registry::prepare_update(res, old, &mut new),
            Part::Finalize => registry::prepare_finalize(res, old, &mut new),
            Part::EphemeralContainers => registry::prepare_ephemeral_containers(res, old, &mut new),
            Part::Status | Part::Server => registry::prepare_status(res, old, &mut new),
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
            Part::Main => registry::validate_update(res, old, &new),
            Part::Finalize => registry::validate_finalize(res, old, &new),
            Part::EphemeralContainers => registry::validate_ephemeral_containers(res, old, &new),
            Part::Status | Part::Server => registry::validate_status(res, old, &new),
        };
        if !errors.is_empty() {
            let version = new["apiVersion"].as_str().unwrap_or_default();
            let group = match res.custom {
                Some(_) => version.split_once('/').map_or("", |(group, _)| group),
                None => &res.group,
            };
            return Err(ApiError::invalid_kind(group, &res.kind, &name, &errors));
        }
        if res.collection == "services" && part == Part::Main {
            self.check_node_ports(old, &new)?;
        }
        Ok(new)
    }
}

/// Makes an object share the sections and the fields of its metadata that are equal to those of `old`. Later comparisons with
/// `old` and the encoding then take constant time for them.
fn share_sections(old: &Value, new: &mut Value) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return;
    };
    for (name, value) in new {
        match (old.get(name), value) {
            (Some(Value::Object(old)), Value::Object(new)) if name == "metadata" => {
                for (name, value) in new {
                    share(old.get(name), value);
                }
            }
            (old, value) => share(old, value),
        }
    }
}

fn share(old: Option<&Value>, new: &mut Value) {
    if let Some(old) = old.filter(|old| *old == new) {
        *new = old.clone();
    }
}

/// Rejects a body whose uid is set and differs from the stored object.
pub(crate) fn check_uid(res: &Resource, old: &Value, sent: &Value) -> Result<()> {
    let (uid, old_uid) = (meta::text(sent, "uid"), meta::text(old, "uid"));
    if uid.is_empty() || uid == old_uid {
        return Ok(());
    }
    let name = meta::name(old);
    Err(ApiError::conflict(res, name, &uid_mismatch(uid, old_uid)))
}

/// Rejects an update whose resourceVersion differs from the stored object, or is unset although the kind requires it.
fn check_versions(res: &Resource, old: &Value, new: &Value) -> Result<()> {
    let name = meta::name(old);
    let version = meta::text(new, "resourceVersion");
    if version.is_empty() || version == "0" {
        if registry::allows_unconditional_update(res) {
            return Ok(());
        }
        let wrong = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        return Err(ApiError::invalid_kind(&res.group, &res.plural, name, &[wrong]));
    }
    check_version_number(version)?;
    if version == meta::text(old, "resourceVersion") {
        Ok(())
    } else {
        Err(ApiError::modified(res, name))
    }
}

/// Restores the `apiVersion` of a custom resource that a patch changed, so that it decodes. Returns the patched one.
fn take_other_version(res: &Resource, patched: &mut Value) -> Option<Value> {
    let said = patched["apiVersion"].as_str().unwrap_or_default().to_owned();
    let expected = res.api_version();
    if res.custom.is_none() || said == expected || patched["kind"] != res.kind.as_str() {
        return None;
    }
    patched["apiVersion"] = expected.into();
    Some(said.into())
}

/// Rejects a strategic merge patch that sets `kind` or `apiVersion` to a value other than a string.
fn check_type_meta_strings(call: &Call, patched: &Value) -> Result<()> {
    let wrong = ["kind", "apiVersion"]
        .iter()
        .map(|field| &patched[*field])
        .find(|value| !value.is_null() && !value.is_string());
    match wrong {
        Some(value) => {
            let why = format!("expected string, found {}", json_type(value));
            Err(unfit(call, &ApiError::bad_request(why)))
        }
        None => Ok(()),
    }
}

/// Rejects a resourceVersion that is not a number.
pub(crate) fn check_version_number(version: &str) -> Result<()> {
    if version.parse::<u64>().is_err() {
        return Err(ApiError::unexplained(format!(
            "resourceVersion {version:?} is not a number"
        )));
    }
    Ok(())
}

/// Rejects an object whose name is empty or differs from the path.
pub(crate) fn check_name(name: &str, expected: &str) -> Result<()> {
    if name.is_empty() {
        return Err(nameless(expected));
    }
    if name != expected {
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({expected})");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

fn nameless(expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
    ))
}

/// Returns whether an update completes a deletion: the object is terminating, and has neither finalizers nor a grace
/// period.
fn completes_deletion(next: &Value) -> bool {
    let grace = next["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(0);
    let namespace_content = next["kind"] == "Namespace"
        && next["spec"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
    meta::is_terminating(next) && grace == 0 && meta::finalizers(next).is_empty() && !namespace_content
}

/// Turns a 400 about the result of a patch into a 422 about the patch.
pub(crate) fn unfit(call: &Call, error: &ApiError) -> ApiError {
    if error.code != 400 {
        return error.clone();
    }
    let patch = String::from_utf8_lossy(&call.body).into_owned();
    let why = FieldError::invalid("patch", patch, error.message.as_str());
    ApiError::invalid_kind("", "", "", &[why])
}

/// Returns the conflict message for a uid mismatch.
fn uid_mismatch(wanted: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")
}

/// Returns the patch type of the content type. Rejects types that the resource does not support with 415.
pub(crate) fn patch_type(call: &Call) -> Result<PatchType> {
    let kind = PatchType::from_content_type(&call.content_type);
    if call.res.custom.is_some() && !matches!(kind, Ok(PatchType::Json | PatchType::Merge | PatchType::Apply))
    {
        return Err(ApiError::unsupported_media_type(patch::CUSTOM));
    }
    kind.map_err(|_| ApiError::unsupported("415: Unsupported Media Type"))
}

pub(crate) fn refused(error: PatchError) -> ApiError {
    match error {
        PatchError::NotDecodable(why) => ApiError::bad_request(why),
        PatchError::UnsupportedMediaType(types) => ApiError::unsupported_media_type(types),
        PatchError::Internal(why) => ApiError::unexplained(why),
        PatchError::NotApplicable(_) => ApiError::unprocessable(error.to_string()),
        PatchError::TooManyOperations(_) => ApiError::too_large(error.to_string()),
    }
}
