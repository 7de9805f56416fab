//! Resource quotas: what a write costs is charged before it is stored, and given back when the object goes.
//!
//! On a cluster a controller counts what is used, and admission charges what comes. Here the API does both, one at a time:
//! whoever charges or counts holds the lock until the object is stored, so that no two writes share the last place.

use std::sync::{MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::Api;
use crate::managed::{self, Writer};
use crate::meta;
use crate::quantity::Quantity;
use crate::quota::{self, Amounts};
use crate::resource::Resource;
use crate::status::{ApiError, Result};
use crate::store::Object;

const QUOTAS: &str = "resourcequotas";

/// Held until what was charged is stored, or given up.
pub(super) type Counting<'a> = MutexGuard<'a, ()>;

impl Api {
    /// Charges the quotas of a namespace for a write: a create, or an update of what costs more than it did. `None` if
    /// nobody counts.
    pub(super) fn charge(
        &self,
        res: &Resource,
        namespace: &str,
        old: Option<&Value>,
        new: &Value,
        dry_run: bool,
    ) -> Result<Option<Counting<'_>>> {
        if !self.counts(res, namespace) || old.is_some_and(|old| !may_cost_more(res, old, new)) {
            return Ok(None);
        }
        let counting = self.lock_quotas();
        let now = self.env.now();
        let usage = quota::usage(res, new, now);
        let mut charged: Vec<(String, Amounts)> = Vec::new();
        for quota in self.quotas_on(res, namespace) {
            if !quota::covers(&quota, res, new) {
                continue;
            }
            let name = meta::name(&quota);
            let refuse = |why: &str| Err(ApiError::forbidden(res, meta::name(new), why));
            let hard = quota::read(&quota["status"]["hard"]);
            let counted = || {
                hard.keys()
                    .map(String::as_str)
                    .filter(|name| quota::is_about(res, name))
            };
            if let Some(why) = quota::missing(res, new, counted()) {
                return refuse(&format!("failed quota: {name}: {why}"));
            }
            let used = quota::read(&quota["status"]["used"]);
            if counted().any(|name| !used.contains_key(name)) {
                let names: Vec<&str> = counted().collect();
                return refuse(&format!(
                    "status unknown for quota: {name}, resources: {}",
                    names.join(",")
                ));
            }
            let more = match old.filter(|old| quota::covers(&quota, res, old)) {
                Some(old) => quota::increase(&usage, &quota::usage(res, old, now)),
                None => usage.clone(),
            };
            match quota::afford(name, &hard, &used, &more) {
                Ok(next) => charged.push((name.to_owned(), next)),
                Err(why) => return refuse(&why),
            }
        }
        if dry_run || charged.is_empty() {
            return Ok(None);
        }
        for (name, used) in charged {
            self.set_used(namespace, &name, &self.server("status"), None, &used);
        }
        Ok(Some(counting))
    }

    /// Lets others count. What was charged for a write that did not happen is given back.
    pub(super) fn end_charge(
        &self,
        counting: Option<Counting<'_>>,
        res: &Resource,
        namespace: &str,
        stored: bool,
    ) {
        if let Some(counting) = counting {
            drop(counting);
            if !stored {
                self.recount(res, namespace);
            }
        }
    }

    /// Counts anew after an object of a namespace was removed, or was not stored after all.
    pub(super) fn recount(&self, res: &Resource, namespace: &str) {
        if self.counts(res, namespace) {
            let _counting = self.lock_quotas();
            for quota in self.quotas_on(res, namespace) {
                self.count(namespace, &quota);
            }
        }
    }

    /// Counts anew where a write may have set something free, or is of a quota itself.
    pub(super) fn recount_after_write(&self, res: &Resource, object: &Object) {
        let Some((namespace, _)) = object.key.split_once('/').filter(|_| res.group.is_empty()) else {
            return;
        };
        match res.plural.as_str() {
            QUOTAS => {
                let _counting = self.lock_quotas();
                if let Some(present) = self.store.get(QUOTAS, &object.key)
                    && !is_counted(&present.value())
                {
                    self.count(namespace, &present.value());
                }
            }
            "services" | "persistentvolumeclaims" => self.recount(res, namespace),
            "pods" if has_ended(object) => self.recount(res, namespace),
            _ => {}
        }
    }

    /// Whether a namespace has quotas, and they may be about this resource.
    fn counts(&self, res: &Resource, namespace: &str) -> bool {
        res.namespaced && !res.is_review() && self.store.has_any(QUOTAS, &format!("{namespace}/"))
    }

    fn lock_quotas(&self) -> Counting<'_> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The quotas of a namespace that are about a resource, counted.
    fn quotas_on(&self, res: &Resource, namespace: &str) -> Vec<Value> {
        let Ok(snapshot) = self.store.snapshot(QUOTAS, &format!("{namespace}/"), None, None) else {
            return Vec::new();
        };
        let about = |quota: &Value| {
            let names = quota["status"]["hard"].as_object().into_iter().flatten();
            names.into_iter().any(|(name, _)| quota::is_about(res, name))
        };
        let quotas = snapshot.objects.iter().map(|object| object.value()).filter(about);
        quotas
            .map(|quota| {
                // A resource that has only just come to be has not been counted yet.
                let unknown = |(name, _): (&String, &Value)| {
                    quota::is_about(res, name) && quota["status"]["used"][name].is_null()
                };
                let names = quota["status"]["hard"].as_object();
                if names.into_iter().flatten().any(unknown) {
                    self.count(namespace, &quota);
                    let key = meta::key(namespace, meta::name(&quota));
                    return self
                        .store
                        .get(QUOTAS, &key)
                        .map_or(quota, |object| object.value());
                }
                quota
            })
            .collect()
    }

    /// Counts what a quota is about, and says so in its status.
    fn count(&self, namespace: &str, quota: &Value) {
        let hard = quota::read(&quota["spec"]["hard"]);
        let mut used = Amounts::new();
        let now = self.env.now();
        for res in self.registry().stored().iter().filter(|res| res.namespaced) {
            let names: Vec<&String> = hard.keys().filter(|name| quota::is_about(res, name)).collect();
            if names.is_empty() {
                continue;
            }
            for name in &names {
                used.entry((*name).clone()).or_insert(Quantity::whole(0));
            }
            let Ok(snapshot) = self
                .store
                .snapshot(&res.collection, &format!("{namespace}/"), None, None)
            else {
                continue;
            };
            for object in snapshot.objects {
                let object = object.value();
                if quota::covers(quota, res, &object) {
                    let mut usage = quota::usage(res, &object, now);
                    usage.retain(|name, _| hard.contains_key(name));
                    quota::add(&mut used, &usage);
                }
            }
        }
        let writer = self.controller("status");
        self.set_used(namespace, meta::name(quota), &writer, Some(&hard), &used);
    }

    fn set_used(&self, namespace: &str, name: &str, writer: &Writer, hard: Option<&Amounts>, used: &Amounts) {
        let Some(res) = self.registry().find("", "v1", QUOTAS) else {
            return;
        };
        // If it was deleted meanwhile there is nobody to tell.
        let _ = self.mutate(&res, namespace, name, false, |quota| {
            let before = quota.clone();
            if let Some(hard) = hard {
                meta::set_path(quota, "status.hard", quota::write(hard));
            }
            meta::set_path(quota, "status.used", quota::write(used));
            managed::track(&res, writer, Some(&before), quota);
            Ok(())
        });
    }
}

/// Whether the status of a quota is about what its spec says.
fn is_counted(quota: &Value) -> bool {
    let (spec, status) = (&quota["spec"]["hard"], &quota["status"]);
    let spec = if spec.is_null() { json!({}) } else { spec.clone() };
    status["hard"] == spec && status["used"].is_object()
}

/// Most kinds cost the same for all their life.
fn may_cost_more(res: &Resource, old: &Value, new: &Value) -> bool {
    match res.qualified().as_str() {
        "services" | "persistentvolumeclaims" => true,
        "pods" => {
            let deadline = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].is_null();
            deadline(old) != deadline(new)
        }
        _ => false,
    }
}

fn has_ended(pod: &Object) -> bool {
    let phase = pod.fields.iter().find(|(name, _)| *name == "status.phase");
    phase.is_some_and(|(_, phase)| matches!(phase.as_str(), "Failed" | "Succeeded"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::decode::{self, FieldValidation, Stage};
    use super::*;
    use crate::Options;

    fn create(api: &Api, plural: &str, object: Value) -> Result<Value> {
        let res = api
            .registry()
            .find("", "v1", plural)
            .expect("a built-in resource");
        let decoded = decode::object(&res, object, Vec::new(), FieldValidation::Ignore, Stage::Sent)?;
        api.create_object(&res, "default", decoded.value, false)
    }

    fn used(api: &Api) -> Value {
        let quota = api.store.get(QUOTAS, "default/q").expect("the quota");
        quota.value()["status"]["used"]["configmaps"].clone()
    }

    #[test]
    fn many_threads_never_get_more_than_there_is() {
        let api = Api::new(Options::default());
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "50"}}});
        create(&api, QUOTAS, quota).expect("a quota");
        let made: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|t| {
                    let api = &api;
                    scope.spawn(move || {
                        let map = |n: usize| json!({"metadata": {"name": format!("m-{t}-{n}")}});
                        let all = (0..30).map(|n| create(api, "configmaps", map(n)));
                        all.flatten().count()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).sum()
        });
        assert_eq!(made, 50);
        assert_eq!(used(&api), "50");
    }
}
