//! The delete and deletecollection handlers: DELETE (`handlers/delete.go` and `Store.Delete` of the API server).
//!
//! They evaluate preconditions, the propagation policy, finalizers and the grace period of pods.

mod options;

use jiff::SignedDuration;

pub(crate) use options::DeleteOptions;

use crate::admission::dispatcher::Dispatcher;
use crate::endpoints::list::Page;
use crate::endpoints::{Api, Body, Reply, Written};
use crate::env::rfc3339;
use crate::json::{Value, json};
use crate::meta::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::registry::Propagation;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::storage::StoreError;
use crate::{meta, registry};

/// Maximum number of attempts of a DELETE that conflicts with concurrent writes.
const ATTEMPTS: usize = 16;

/// Resources whose DELETE returns the removed object. The other resources return a `Status`.
const RETURN_THE_OBJECT: [&str; 6] = [
    "pods",
    "namespaces",
    "services",
    "serviceaccounts",
    "resourcequotas",
    "persistentvolumeclaims",
];

/// The outcome of a DELETE.
pub(crate) enum Outcome {
    /// The store removed the object; the value is its last state.
    Removed(Written),
    /// The object is terminating and still stored.
    Marked(Written),
}

/// The action of a DELETE on one version of an object.
enum Step {
    /// Keep the object unchanged: it is terminating, and the request does not shorten its grace period.
    Nothing,
    /// Store this terminating version.
    Mark(Value),
    /// Store this terminating version, then remove the object.
    MarkAndRemove(Value),
    /// Remove the object without another version.
    Remove,
}

impl Api {
    pub(crate) async fn delete(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let options = DeleteOptions::of(call)?;
        let outcome = dispatcher.delete(&call.namespace, call.name(), &options).await?;
        let mut warnings = Vec::new();
        if !options.sets_propagation()
            && let Some(warning) = registry::propagation_warning(&call.res)
        {
            warnings.push(warning.to_owned());
        }
        let reply = match outcome {
            Outcome::Marked(object) => {
                let code = if options.orphan_dependents == Some(false) {
                    202
                } else {
                    200
                };
                Reply::object(code, object)
            }
            Outcome::Removed(object) if RETURN_THE_OBJECT.contains(&call.res.collection.as_str()) => {
                Reply::object(200, object)
            }
            Outcome::Removed(object) => Reply {
                code: 200,
                body: Body::Plain(success(&call.res, &object)),
                warnings: Vec::new(),
            },
        };
        Ok(reply.warn(warnings))
    }

    pub(crate) async fn delete_collection(&self, dispatcher: &Dispatcher<'_>) -> Result<Reply> {
        let call = dispatcher.call;
        let Page { objects, metadata } = self.page(call).await?;
        let options = DeleteOptions::of(call)?;
        let mut deleted = Vec::new();
        for object in objects {
            let value = object.value();
            let each = dispatcher.for_next_object();
            let (namespace, name) = (meta::namespace(value), meta::name(value));
            match each.delete(namespace, name, &options).await {
                // A concurrent request has deleted the object.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
                Ok(_) => deleted.push(object),
            }
        }
        Ok(Reply {
            code: 200,
            body: Body::List {
                objects: deleted,
                metadata,
            },
            warnings: Vec::new(),
        })
    }

    /// Returns the options to send to admission. Returns `None` if the deletion is a no-op, which skips admission.
    pub(crate) fn reviewed_deletion(
        &self,
        res: &Resource,
        object: &Value,
        options: &DeleteOptions,
    ) -> Result<Option<DeleteOptions>> {
        let mut shown = options.clone();
        match res.collection.as_str() {
            "namespaces" => {
                check_container_preconditions(res, object, options)?;
                crate::admission::namespace_lifecycle::check_deletable(res, meta::name(object))?;
                let emptied = object["spec"]["finalizers"]
                    .as_array()
                    .is_none_or(<[_]>::is_empty);
                if meta::is_terminating(object) && !emptied {
                    return Ok(None);
                }
            }
            crate::apiextensions::establish::COLLECTION => {
                check_container_preconditions(res, object, options)?;
            }
            _ => check_preconditions(res, object, options)?,
        }
        if res.collection == "pods" {
            match self.graceful(&mut object.clone(), options) {
                Graceful::Pending => return Ok(None),
                Graceful::For(seconds) => shown.grace = Some(seconds),
                Graceful::No => {}
            }
        }
        Ok(Some(shown))
    }

    /// Removes one object, or marks it as terminating if finalizers or a grace period delay the removal.
    pub(crate) fn delete_object(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Outcome> {
        match res.collection.as_str() {
            "namespaces" => return self.delete_namespace(res, name, options),
            crate::apiextensions::establish::COLLECTION => return self.delete_crd(res, name, options),
            _ => {}
        }
        self.delete_plain(res, namespace, name, options)
    }

    /// Deletes an object without the special handling of namespaces and CRDs.
    pub(crate) fn delete_plain(
        &self,
        res: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Outcome> {
        let key = meta::key(namespace, name);
        for _ in 0..ATTEMPTS {
            let current = self
                .store
                .get(&res.collection, &key)
                .ok_or_else(|| ApiError::not_found(res, name))?;
            let object = Self::served(res, &current);
            check_preconditions(res, &object, options)?;
            let done = match self.step(res, &object, options) {
                Step::Nothing => return Ok(Outcome::Marked(Written::Stored(current))),
                Step::Mark(next) if options.dry_run => return Ok(Outcome::Marked(Written::Unstored(next))),
                Step::MarkAndRemove(next) if options.dry_run => {
                    return Ok(Outcome::Removed(Written::Unstored(next)));
                }
                Step::Remove if options.dry_run => return Ok(Outcome::Removed(Written::Stored(current))),
                Step::Mark(next) if next == *object => return Ok(Outcome::Marked(Written::Stored(current))),
                Step::Mark(next) => self
                    .store
                    .replace(&res.collection, &key, current.revision, Self::draft(res, next))
                    .map(|stored| Outcome::Marked(Written::Stored(stored))),
                Step::MarkAndRemove(next) => self
                    .store
                    .replace(&res.collection, &key, current.revision, Self::draft(res, next))
                    .and_then(|marked| self.remove(res, &key, marked.revision)),
                Step::Remove => {
                    check_last_version(res, &object, options)?;
                    self.remove(res, &key, current.revision)
                }
            };
            match done {
                Ok(outcome) => return Ok(outcome),
                Err(StoreError::Changed) => {}
                Err(StoreError::Missing) => return Err(ApiError::not_found(res, name)),
                Err(other) => return Err(ApiError::internal(other.to_string())),
            }
        }
        Err(ApiError::modified(res, name))
    }

    fn remove(&self, res: &Resource, key: &str, revision: u64) -> Result<Outcome, StoreError> {
        let removed = self.store.remove(&res.collection, key, revision)?;
        self.after_removal(res, &removed);
        Ok(Outcome::Removed(Written::Stored(removed)))
    }

    fn step(&self, res: &Resource, object: &Value, options: &DeleteOptions) -> Step {
        let finalizers = gc_finalizers(res, object, options);
        let held = !finalizers.is_empty();
        if res.collection != "pods" && !held {
            return Step::Remove;
        }
        let mut next = object.clone();
        let graceful = match res.collection.as_str() {
            "pods" => self.graceful(&mut next, options),
            _ => Graceful::No,
        };
        meta::set(&mut next, "finalizers", finalizers);
        match graceful {
            Graceful::Pending => Step::Nothing,
            Graceful::For(0) if !held && !options.stepwise => Step::MarkAndRemove(next),
            Graceful::For(_) => Step::Mark(next),
            Graceful::No if held => {
                self.mark(&mut next);
                Step::Mark(next)
            }
            Graceful::No => Step::Remove,
        }
    }

    /// Marks an object with finalizers as terminating, with a grace period of zero.
    pub(crate) fn mark(&self, object: &mut Value) {
        let now = self.env.time();
        if !meta::is_terminating(object) {
            bump_generation(object);
        }
        // An earlier deletionTimestamp stays. RFC 3339 timestamps in UTC compare as text.
        if !meta::is_terminating(object) || meta::text(object, "deletionTimestamp") > now.as_str() {
            meta::set(object, "deletionTimestamp", now);
        }
        meta::set(object, "deletionGracePeriodSeconds", 0);
    }

    /// Sets the deletionTimestamp and the grace period of a pod.
    fn graceful(&self, pod: &mut Value, options: &DeleteOptions) -> Graceful {
        let asked = options.grace.map(|g| if g < 0 { 1 } else { g });
        if meta::is_terminating(pod) {
            let stored = pod["metadata"]["deletionGracePeriodSeconds"]
                .as_i64()
                .unwrap_or(0);
            return match asked {
                _ if stored == 0 => Graceful::No,
                Some(period) if period < stored => Graceful::For(self.shorten(pod, stored, period)),
                _ => Graceful::Pending,
            };
        }
        let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
        let mut period = asked.or(own.map(|g| if g < 0 { 1 } else { g })).unwrap_or(0);
        let unbound = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
        if unbound || matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
            period = 0;
        }
        let at = if period == 0 {
            self.env.time()
        } else {
            let at = self.env.now().checked_add(SignedDuration::from_secs(period));
            rfc3339(at.unwrap_or(jiff::Timestamp::MAX)).into()
        };
        meta::set(pod, "deletionTimestamp", at);
        meta::set(pod, "deletionGracePeriodSeconds", period);
        bump_generation(pod);
        Graceful::For(period)
    }

    /// Shortens the grace period of a terminating pod. The deletionTimestamp never moves into the past.
    fn shorten(&self, pod: &mut Value, stored: i64, period: i64) -> i64 {
        let now = self.env.now();
        let planned: jiff::Timestamp = meta::text(pod, "deletionTimestamp").parse().unwrap_or(now);
        let at = planned
            .checked_add(SignedDuration::from_secs(period - stored))
            .unwrap_or(now);
        let (at, period) = if at < now {
            (now, period.min(1))
        } else {
            (at, period)
        };
        meta::set(pod, "deletionTimestamp", rfc3339(at));
        meta::set(pod, "deletionGracePeriodSeconds", period);
        period
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Graceful {
    /// The deletion has no grace period; only finalizers can delay it.
    No,
    /// The grace period of the pod, in seconds.
    For(i64),
    /// The pod is terminating, and the request does not shorten its grace period.
    Pending,
}

fn bump_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
        meta::set(object, "generation", generation + 1);
    }
}

/// Rejects a version of the object that admission has not evaluated.
fn check_seen(res: &Resource, object: &Value, options: &DeleteOptions) -> Result<()> {
    let version = meta::text(object, "resourceVersion");
    match options.seen {
        Some(seen) if version != seen.to_string() => Err(ApiError::modified(res, meta::name(object))),
        _ => Ok(()),
    }
}

pub(crate) fn check_preconditions(res: &Resource, object: &Value, options: &DeleteOptions) -> Result<()> {
    check_seen(res, object, options)?;
    let name = meta::name(object);
    // The API server names the kind in this conflict; other conflicts name the resource.
    let conflict = |why: &str| {
        let plural = res.kind.clone();
        ApiError::conflict(
            &Resource {
                plural,
                ..res.clone()
            },
            name,
            why,
        )
    };
    let uid = meta::text(object, "uid");
    if let Some(expected) = options.uid.as_deref().filter(|e| *e != uid) {
        let why = format!(
            "the UID in the precondition ({expected}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(conflict(&why));
    }
    let version = meta::text(object, "resourceVersion");
    if let Some(expected) = options.resource_version.as_deref().filter(|e| *e != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(conflict(&why));
    }
    Ok(())
}

/// Rejects a resourceVersion precondition if the deletion drops finalizers. The API server first stores the object
/// without them, and then compares the empty precondition with the new resourceVersion.
fn check_last_version(res: &Resource, object: &Value, options: &DeleteOptions) -> Result<()> {
    if options.resource_version.is_none() || meta::finalizers(object).is_empty() {
        return Ok(());
    }
    let version = meta::text(object, "resourceVersion");
    let why = format!(
        "Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: {version}"
    );
    Err(ApiError::conflict(res, meta::name(object), &why))
}

/// Checks the preconditions with the error messages that the API server uses for namespaces and CRDs.
pub(crate) fn check_container_preconditions(
    res: &Resource,
    object: &Value,
    options: &DeleteOptions,
) -> Result<()> {
    check_seen(res, object, options)?;
    let wanted = [
        ("UID", "uid", &options.uid),
        ("ResourceVersion", "resourceVersion", &options.resource_version),
    ];
    for (label, field, expected) in wanted {
        let actual = meta::text(object, field);
        if let Some(expected) = expected.as_deref().filter(|e| *e != actual) {
            let why = format!(
                "Precondition failed: {label} in precondition: {expected}, {label} in object meta: {actual}"
            );
            return Err(ApiError::conflict(res, meta::name(object), &why));
        }
    }
    Ok(())
}

/// Returns the finalizers of an object after a deletion request. The propagation policy of the request decides whether
/// the object gets a garbage collector finalizer. It overrides an existing finalizer, and that overrides the default of
/// the kind.
pub(crate) fn gc_finalizers(res: &Resource, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let present = meta::finalizers(object);
    let has = |f: &str| present.contains(&f);
    let wanted = if registry::never_gets_gc_finalizers(res) {
        None
    } else if let Some(orphan) = options.orphan_dependents {
        orphan.then_some(ORPHAN_FINALIZER)
    } else if let Some(policy) = &options.propagation {
        match policy.as_str() {
            "Orphan" => Some(ORPHAN_FINALIZER),
            "Foreground" => Some(FOREGROUND_FINALIZER),
            _ => None,
        }
    } else if let Some(first) = present
        .iter()
        .find(|f| [ORPHAN_FINALIZER, FOREGROUND_FINALIZER].contains(*f))
    {
        Some(*first)
    } else {
        (registry::default_propagation(res) == Propagation::Orphan).then_some(ORPHAN_FINALIZER)
    };
    let others = present
        .iter()
        .filter(|f| ![ORPHAN_FINALIZER, FOREGROUND_FINALIZER].contains(*f));
    let next: Vec<String> = others.copied().chain(wanted).map(str::to_owned).collect();
    // The same finalizers in another order count as unchanged.
    if next.len() == present.len() && next.iter().all(|f| has(f)) {
        return present.into_iter().map(str::to_owned).collect();
    }
    next
}

fn success(res: &Resource, object: &Value) -> Value {
    let mut details =
        json!({"name": meta::name(object), "kind": res.plural, "uid": meta::text(object, "uid")});
    if !res.group.is_empty() {
        details["group"] = res.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
