//! Writes in steps, with webhook calls between them. Without webhooks each delegates to the plain write of the same name.

use std::borrow::Cow;

use crate::admission::dispatcher::{Dispatcher, TIMED_OUT};
use crate::endpoints::create::{NAME_ATTEMPTS, check_namespace};
use crate::endpoints::delete::{DeleteOptions, Outcome};
use crate::endpoints::update::{Part, Update};
use crate::endpoints::{Api, Written};
use crate::json::Value;
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::{fieldmanager, meta};

/// The update that a request makes. Mirrors `rest.UpdatedObjectInfo`.
pub(crate) trait UpdatedObject {
    /// Returns the object that webhooks see.
    fn shown<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>>;
    /// Returns the object that the client sends, computed from the stored one.
    fn wanted(&mut self, old: &Value) -> Result<Value>;
    /// Returns the object to store.
    fn next(&mut self, old: &Value, wanted: Value) -> Result<Value>;
}

/// An update of the object itself.
pub(crate) struct Plain<F>(pub F);

impl<F: FnMut(&Value) -> Result<Value>> UpdatedObject for Plain<F> {
    fn shown<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>> {
        Ok(Cow::Borrowed(object))
    }

    fn wanted(&mut self, old: &Value) -> Result<Value> {
        (self.0)(old)
    }

    fn next(&mut self, _: &Value, wanted: Value) -> Result<Value> {
        Ok(wanted)
    }
}

impl Dispatcher<'_> {
    /// Creates a decoded object, and returns it as it is served.
    pub async fn create(&self, mut value: Value, dry_run: bool) -> Result<Written> {
        let (api, res, namespace) = (self.api, &self.call.res, &self.call.namespace);
        if self.has_no_webhooks() {
            return api.create_object(res, namespace, value, dry_run);
        }
        check_namespace(res, namespace, &mut value)?;
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            meta::set(&mut value, field, Value::Null);
        }
        if res.namespaced {
            api.check_namespace_open(res, meta::name(&value), namespace)?;
        }
        let review = self.creating(dry_run);
        let value = review.mutate(value, None).await?;
        let generated = meta::name(&value).is_empty() && !meta::text(&value, "generateName").is_empty();
        let mut outcome = Err(ApiError::internal("no attempt was made"));
        for _ in 0..NAME_ATTEMPTS {
            let prepared = api.prepare(res, namespace, value.clone(), dry_run)?;
            review.validate(Some(&prepared), None).await?;
            outcome = match api.commit_prepared(res, namespace, prepared, dry_run) {
                // Another write has taken an allocated address: the next attempt allocates another one.
                None => continue,
                Some(outcome) => outcome,
            };
            if !(generated && outcome.as_ref().is_err_and(|e| e.reason == "AlreadyExists")) {
                break;
            }
        }
        outcome
    }

    /// Runs the mutating webhooks on an object that is created but not stored, such as an eviction.
    pub async fn mutate_new(&self, value: Value, dry_run: bool) -> Result<Value> {
        if self.has_no_webhooks() {
            return Ok(value);
        }
        self.creating(dry_run).mutate(value, None).await
    }

    /// Runs the validating webhooks on such an object.
    pub async fn validate_new(&self, value: &Value, dry_run: bool) -> Result<()> {
        if self.has_no_webhooks() {
            return Ok(());
        }
        self.creating(dry_run).validate(Some(value), None).await
    }

    /// Replaces the object of the request by the result of `writing`, and returns it as served.
    pub async fn update(
        &self,
        part: Part,
        dry_run: bool,
        mut writing: impl UpdatedObject,
    ) -> Result<Written> {
        let (api, res, namespace) = (self.api, &self.call.res, &self.call.namespace);
        let name = self.call.name();
        if self.has_no_webhooks() {
            return api.update(res, namespace, name, part, dry_run, |old| {
                let wanted = writing.wanted(old)?;
                writing.next(old, wanted)
            });
        }
        let key = self.call.key();
        let review = self.updating(dry_run);
        // A write that lost a race starts over until the deadline.
        while !self.is_timed_out() {
            let current = api
                .store
                .get(&res.collection, &key)
                .ok_or_else(|| ApiError::not_found(res, name))?;
            let old = Api::served(res, &current);
            let wanted = writing.wanted(&old)?;
            let shown = writing.shown(&old)?;
            let wanted = review.mutate(wanted, Some(&shown)).await?;
            let new = writing.next(&old, wanted)?;
            let next = api.prepare_update(res, namespace, part, &old, new)?;
            review
                .validate(Some(&*writing.shown(&next)?), Some(&shown))
                .await?;
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
            if let Some(updated) = api.commit_prepared_update(&update, &current, &old, next)? {
                return Ok(updated);
            }
        }
        Err(ApiError::timeout(TIMED_OUT))
    }

    /// Deletes one object as far as it can be deleted now.
    pub async fn delete(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Outcome> {
        let (api, res) = (self.api, &self.call.res);
        if self.has_no_webhooks() {
            return api.delete_object(res, namespace, name, options);
        }
        let key = meta::key(namespace, name);
        let mut steps = DeleteOptions {
            // A pod without a grace period is marked and then removed; each step is reviewed.
            stepwise: !options.dry_run,
            ..options.clone()
        };
        while !self.is_timed_out() {
            let current = api
                .store
                .get(&res.collection, &key)
                .ok_or_else(|| ApiError::not_found(res, name))?;
            let object = Api::served(res, &current);
            steps.seen = None;
            let Some(shown) = api.reviewed_deletion(res, &object, &steps)? else {
                return api.delete_object(res, namespace, name, options);
            };
            self.deleting(shown.shown(), options.dry_run)
                .review_delete(&object)
                .await?;
            steps.seen = Some(current.revision);
            match api.delete_object(res, namespace, name, &steps) {
                Ok(Outcome::Marked(marked)) if is_to_go(res, &marked) && steps.stepwise => {
                    steps.stepwise = false;
                    steps.grace = shown.grace;
                    if steps.resource_version.is_some() {
                        steps.resource_version = Some(meta::text(&marked, "resourceVersion").to_owned());
                    }
                }
                Err(error) if error.code == 409 && self.moved(&key, current.revision) => {}
                outcome => return outcome,
            }
        }
        Err(ApiError::timeout(TIMED_OUT))
    }

    /// Whether the object has changed since the review.
    fn moved(&self, key: &str, revision: u64) -> bool {
        let present = self.api.store.get(&self.call.res.collection, key);
        present.is_none_or(|present| present.revision != revision)
    }
}

/// Whether a marked pod has neither a grace period nor finalizers left.
fn is_to_go(res: &Resource, marked: &Value) -> bool {
    res.collection == "pods"
        && marked["metadata"]["deletionGracePeriodSeconds"] == 0
        && meta::finalizers(marked).is_empty()
}
