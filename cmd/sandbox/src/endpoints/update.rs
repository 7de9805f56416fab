//! PUT and PATCH, of the object and of its status.
//!
//! Both produce the wanted object from the present one; everything after that is the same, and is here once.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::dispatcher::{Dispatcher, Plain};
use crate::endpoints::decode::{Decoded, FieldValidation, Stage};
use crate::endpoints::{Api, Call, Reply, Written, create, decode};
use crate::field::{FieldError, json_type};
use crate::fieldmanager::Writer;
use crate::patch::{PatchError, PatchType};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::{Object, StoreError};
use crate::{fieldmanager, meta, patch, registry, schema};

/// How often a write that lost a race against another starts over.
const ATTEMPTS: usize = 16;

/// Which part of the object a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// What holds a namespace.
    Finalize,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// Whatever the server itself wants to write.
    Server,
}

/// What became of an object.
enum Committed {
    Stored(Arc<Object>),
    /// The last stored state, and the one that the request asked for.
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

/// An update of one object.
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
        let decoded = decode::body(call, "UpdateOptions");
        // A custom resource of another kind is only refused where there is one to update.
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
                let why = another_uid(uid, "");
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
            fieldmanager::track(&call.res, writer, Some(old), &mut value);
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
        let schema = schema::builtin(&call.res.api_version(), &call.res.kind);
        let mut warnings = Vec::new();
        let produce = |current: &Value| {
            let mut patched = patch::apply(kind, current, &call.body, schema).map_err(refused)?;
            if kind == PatchType::Strategic {
                // Such a patch works on the typed object, which does not carry its type.
                check_types_are_texts(call, &patched)?;
                for field in ["kind", "apiVersion"] {
                    patched[field] = current[field].clone();
                }
            }
            decode::check_type_meta(&call.res, &patched, &call.body).map_err(|e| unfit(call, &e))?;
            let wrong = patch::strict_errors(kind, &call.body);
            if call.res.custom.is_none() && patched["apiVersion"].as_str().is_none_or(str::is_empty) {
                // Without its version nothing of it can be read, not even its name.
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
            let mut decoded =
                decode::object(&call.res, patched, wrong, validation, stage).map_err(|e| unfit(call, &e))?;
            warnings = decoded.warnings;
            create::check_namespace(&call.res, &call.namespace, &mut decoded.value)?;
            check_name(meta::name(&decoded.value), call.name())?;
            if let Some(version) = other_version {
                decoded.value["apiVersion"] = version;
            }
            self.check_escalation(call, current, &decoded.value)?;
            self.check_owner_references(call, current, &decoded.value)?;
            fieldmanager::track(&call.res, &writer, Some(current), &mut decoded.value);
            Ok(decoded.value)
        };
        let part = Part::of(subresource);
        let updated = dispatcher.update(part, dry_run, Plain(produce)).await;
        crate::endpoints::warned(updated.map(|updated| Reply::object(200, updated)), warnings)
    }

    /// Replaces an object by what `produce` makes of it, and returns the result as it is served.
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
            if let Some(updated) = self.finish_update(&update, &current, &old, next)? {
                return Ok(updated);
            }
        }
        Err(ApiError::modified(res, name))
    }

    /// The first step of an update whose second one comes later: everything but the commit.
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

    /// The second step; none if something has changed since the first one.
    pub(crate) fn commit_prepared_update(
        &self,
        update: &Update<'_>,
        current: &Object,
        old: &Value,
        next: Value,
    ) -> Result<Option<Written>> {
        let _addresses = self.lock_addresses(update.res);
        // An address that was chosen in the first step may be somebody else's by now.
        if update.res.collection == "services"
            && update.part == Part::Main
            && !self.addresses_are_free(old, &next)
        {
            return Ok(None);
        }
        self.finish_update(update, current, old, next)
    }

    /// Stores the object and runs the follow-ups. Returns none if another write came first.
    fn finish_update(
        &self,
        update: &Update<'_>,
        current: &Object,
        old: &Value,
        next: Value,
    ) -> Result<Option<Written>> {
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
        let committed = self.commit_update(res, &meta::key(namespace, name), current, old, next);
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

    /// Stores the next version, or removes the object if nothing holds it any longer.
    fn commit_update(
        &self,
        res: &Resource,
        key: &str,
        current: &Object,
        old: &Value,
        next: Value,
    ) -> Result<Committed, StoreError> {
        if finished_by(&next) {
            // Watchers are told the last state that was stored, the client what it asked for.
            let last = Self::draft(res, old.clone());
            let removed = self.store.remove(&res.collection, key, current.revision, last)?;
            return Ok(Committed::Removed(removed, next));
        }
        let draft = Self::draft(res, next);
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

/// What is sent as a whole is about the object with its uid, and no other.
pub(crate) fn check_uid(res: &Resource, old: &Value, sent: &Value) -> Result<()> {
    let (uid, old_uid) = (meta::text(sent, "uid"), meta::text(old, "uid"));
    if uid.is_empty() || uid == old_uid {
        return Ok(());
    }
    let name = meta::name(old);
    Err(ApiError::conflict(res, name, &another_uid(uid, old_uid)))
}

/// The client's idea of the object must be the present one.
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

/// A patched custom resource stays of its version: another one, or none, is put aside until the rest has been read.
fn take_other_version(res: &Resource, patched: &mut Value) -> Option<Value> {
    let said = patched["apiVersion"].as_str().unwrap_or_default().to_owned();
    let expected = res.api_version();
    if res.custom.is_none() || said == expected || patched["kind"] != res.kind.as_str() {
        return None;
    }
    patched["apiVersion"] = expected.into();
    Some(said.into())
}

/// The typed object has a place for its type, and texts are all that fits in there.
fn check_types_are_texts(call: &Call, patched: &Value) -> Result<()> {
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

/// What is no number cannot be the version of anything.
pub(crate) fn check_version_number(version: &str) -> Result<()> {
    if version.parse::<u64>().is_err() {
        return Err(ApiError::unexplained(format!(
            "resourceVersion {version:?} is not a number"
        )));
    }
    Ok(())
}

/// The name of a body must be that of the path.
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
pub(crate) fn unfit(call: &Call, error: &ApiError) -> ApiError {
    if error.code != 400 {
        return error.clone();
    }
    let patch = String::from_utf8_lossy(&call.body).into_owned();
    let why = FieldError::invalid("patch", patch, error.message.as_str());
    ApiError::invalid_kind("", "", "", &[why])
}

/// The message about an object that has another uid than the request.
fn another_uid(wanted: &str, found: &str) -> String {
    format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")
}

/// The kind of patch that the content type names, if this resource takes it.
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
